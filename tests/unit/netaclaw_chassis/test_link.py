"""How services reach each other: what TLS lets in, what is wrong with its settings, and pings that both ends allow."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from netaclaw_chassis.channel import connect
from netaclaw_chassis.link import AUTHORITY, CERTIFICATE, KEY, PLAIN, Link, LinkSettings, check_exposure, load
from netaclaw_chassis.server import GrpcServer
from netaclaw_chassis.settings import SettingsError, read
from tests.fakes.authority import Authority


def link(environ: Mapping[str, str]) -> Link:
    return load(read(LinkSettings, environ))


async def asked(address: str, with_link: Link) -> grpc.StatusCode:
    """How a call from such a caller ends."""
    async with connect(address, link=with_link) as channel:
        try:
            await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=10)
        except grpc.aio.AioRpcError as error:
            return error.code()
    return grpc.StatusCode.OK


async def test_only_callers_that_believe_the_same_authority_are_served(tmp_path: Path) -> None:
    ours, foreign = Authority(tmp_path, "ours"), Authority(tmp_path, "foreign")
    server = GrpcServer("127.0.0.1", 0, [], link=link(ours.settings()))
    await server.start()
    try:
        assert await asked(server.address, link(ours.settings())) is grpc.StatusCode.OK
        assert await asked(server.address, PLAIN) is grpc.StatusCode.UNAVAILABLE
        assert await asked(server.address, link(foreign.settings())) is grpc.StatusCode.UNAVAILABLE
    finally:
        await server.stop(0)


async def test_with_mutual_tls_a_caller_without_a_certificate_of_the_authority_is_refused(tmp_path: Path) -> None:
    ours, foreign = Authority(tmp_path, "ours"), Authority(tmp_path, "foreign")
    mutual = {**ours.settings(), "NETACLAW_SERVICE_TLS_MUTUAL": "true"}
    server = GrpcServer("127.0.0.1", 0, [], link=link(mutual))
    await server.start()
    roots = ours.roots.read_bytes()
    chain, key = foreign.sign()
    anonymous = Link(channels=grpc.ssl_channel_credentials(roots))
    impostor = Link(channels=grpc.ssl_channel_credentials(roots, key.read_bytes(), chain.read_bytes()))
    try:
        assert await asked(server.address, link(mutual)) is grpc.StatusCode.OK
        assert await asked(server.address, anonymous) is grpc.StatusCode.UNAVAILABLE
        assert await asked(server.address, impostor) is grpc.StatusCode.UNAVAILABLE
    finally:
        await server.stop(0)


async def test_one_name_may_stand_for_every_service_whatever_its_address(tmp_path: Path) -> None:
    ours = Authority(tmp_path)
    unnamed = ours.settings("netaclaw.internal")
    named = {**unnamed, "NETACLAW_SERVICE_TLS_NAME": "netaclaw.internal"}
    server = GrpcServer("127.0.0.1", 0, [], link=link(named))
    await server.start()
    try:
        assert await asked(server.address, link(named)) is grpc.StatusCode.OK
        assert await asked(server.address, link(unnamed)) is grpc.StatusCode.UNAVAILABLE, "127.0.0.1 is not in it"
    finally:
        await server.stop(0)


@pytest.mark.parametrize("left_out", [CERTIFICATE, KEY, AUTHORITY])
def test_certificate_key_and_authority_belong_together(left_out: str, tmp_path: Path) -> None:
    settings = Authority(tmp_path).settings()
    del settings[left_out]
    with pytest.raises(SettingsError, match=f"belong together; missing: {left_out}"):
        link(settings)


@pytest.mark.parametrize("alone", ["NETACLAW_SERVICE_TLS_MUTUAL", "NETACLAW_SERVICE_TLS_NAME"])
def test_what_only_tls_has_is_refused_without_it(alone: str) -> None:
    with pytest.raises(SettingsError, match="need NETACLAW_SERVICE_TLS_CERTIFICATE"):
        link({alone: "true"})


def test_files_that_do_not_do_are_named_with_the_reason(tmp_path: Path) -> None:
    ours, foreign = Authority(tmp_path, "ours"), Authority(tmp_path, "foreign")
    good = ours.settings()
    other_key = str(foreign.sign()[1])
    text = tmp_path / "text.pem"
    text.write_text("no certificate\n")
    for change, words in (
        ({KEY: str(tmp_path / "nowhere.key")}, f"{KEY}: .*nowhere.key cannot be read: No such file"),
        ({AUTHORITY: str(tmp_path)}, f"{AUTHORITY}: .* cannot be read: Is a directory"),
        ({KEY: other_key}, f"{CERTIFICATE} and {KEY} do not fit: key values mismatch"),
        ({CERTIFICATE: str(text)}, f"{CERTIFICATE} and {KEY} do not fit"),
        ({AUTHORITY: str(text)}, f"{AUTHORITY} holds no usable certificate"),
        ({AUTHORITY: str(foreign.roots)}, f"{CERTIFICATE} is not believed by {AUTHORITY}: unable to get local issuer"),
        ({"NETACLAW_SERVICE_TLS_NAME": "other.internal"}, f"{CERTIFICATE} is not believed .* not valid for 'other"),
    ):
        with pytest.raises(SettingsError, match=words):
            link(good | change)


def test_a_service_on_a_network_needs_a_token_and_is_warned_without_tls(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    secured = link(Authority(tmp_path).settings())
    with caplog.at_level(logging.WARNING):
        check_exposure("127.0.0.1", "", PLAIN, "NETACLAW_STORE_HOST")
        check_exposure("[::1]", "", PLAIN, "NETACLAW_STORE_HOST")
        check_exposure("0.0.0.0", "token", secured, "NETACLAW_STORE_HOST")
        assert caplog.records == []
        check_exposure("0.0.0.0", "token", PLAIN, "NETACLAW_STORE_HOST")
        assert "without TLS" in caplog.text
    for open_link in (PLAIN, secured):
        with pytest.raises(SettingsError, match=r"NETACLAW_STORE_HOST is no loopback address, which needs .*TOKEN"):
            check_exposure("0.0.0.0", "", open_link, "NETACLAW_STORE_HOST")
