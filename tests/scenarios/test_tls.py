"""TLS between all services, with certificates of an authority of our own: whole turns, and who is kept out."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest

from netaclaw.chat.v1.chat_service_pb2 import ChatRequest, ExecuteChatRequest
from netaclaw.chat.v1.event_pb2 import TurnOutcome
from netaclaw.store.v1.identity_service_pb2 import ListKeysRequest
from netaclaw.store.v1.identity_service_pb2_grpc import IdentityServiceStub
from netaclaw_chassis.channel import connect
from netaclaw_chassis.link import PLAIN, Link, LinkSettings, load
from netaclaw_chassis.settings import read
from netaclaw_cli.child import ServiceFailed
from netaclaw_cli.suite import Suite, SuiteOptions
from netaclaw_cli.topology import ENVOY_SERVICE, SERVICES
from netaclaw_client import Client, SessionView, equal
from tests.fakes.authority import Authority
from tests.fakes.openai_server import Call, FakeOpenAI
from tests.scenarios.followers import followers
from tests.scenarios.held_answers import Held
from tests.scenarios.pairs import OpenPair
from tests.scenarios.reading import chat, of_kind, until
from tests.scenarios.suites import SERVICE_TOKEN, WORKSPACE, run_python

DELEGATED = "in parallel: count files; search needle"
INNER = (("store", "public"), ("store", "internal"), ("runner", "internal"), ("orchestrator", "public"))


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def options(postgres_url: str, tmp_path: Path, workspace: Path, authority: Authority) -> SuiteOptions:
    """A suite whose services show certificates and ask for them, on every hop."""
    environ = os.environ | {
        **authority.settings(),
        "NETACLAW_SERVICE_TLS_MUTUAL": "true",
        "NETACLAW_SERVICE_TOKEN": SERVICE_TOKEN,
        "NETACLAW_DATABASE_URL": postgres_url,
        "NETACLAW_LOG_LEVEL": "WARNING",
    }
    return SuiteOptions(tmp_path / "data", {WORKSPACE: workspace}, environ=environ)


@pytest.fixture
async def suite(options: SuiteOptions) -> AsyncIterator[Suite]:
    async with Suite(options, services=(*SERVICES, ENVOY_SERVICE)) as running:
        yield running


async def test_delegated_turns_run_with_tls_on_every_inner_hop_and_nobody_else_gets_in(
    suite: Suite, options: SuiteOptions, authority: Authority, tmp_path: Path
) -> None:
    for door in (suite.address, suite.envoy_address):
        async with Client(door) as client:
            answer = await client.chat.ExecuteChat(ExecuteChatRequest(content=DELEGATED))
            assert answer.outcome == TurnOutcome.TURN_OUTCOME_COMPLETED
            assert [len(batch.items) for batch in answer.subagent_batches] == [2]
            view = await client.load(answer.session_id)  # the store's own hop
            assert view.entries[answer.assistant_entry_id].HasField("assistant")

    code, out, err = await run_python("-m", "netaclaw_cli", "keys", "--data-dir", str(options.data_dir), "list")
    assert (code, err) == (0, ""), out
    ours = load(read(LinkSettings, options.environ))
    anonymous = Link(channels=grpc.ssl_channel_credentials(authority.roots.read_bytes()))
    foreign = load(read(LinkSettings, Authority(tmp_path, "foreign").settings()))
    for service, name in INNER:
        address = suite.ports(service)[name]
        assert speaks_tls(address, authority), (service, name)
        assert await refusal(address, ours) in (grpc.StatusCode.OK, grpc.StatusCode.UNIMPLEMENTED), (service, name)
        for kept_out in (PLAIN, anonymous, foreign):
            assert await refusal(address, kept_out) is grpc.StatusCode.UNAVAILABLE, (service, name)


def speaks_tls(address: str, authority: Authority) -> bool:
    """Whether the port shows a certificate of the authority."""
    context = ssl.create_default_context(cafile=str(authority.roots))
    host, _, port = address.rpartition(":")
    with (
        socket.create_connection((host, int(port)), timeout=10) as bare,
        context.wrap_socket(bare, server_hostname=host) as secured,
    ):
        return secured.version() in ("TLSv1.2", "TLSv1.3")


async def refusal(address: str, link: Link) -> grpc.StatusCode:
    """How a call ends that shows the suite's own token."""
    async with connect(address, SERVICE_TOKEN, link) as channel:
        try:
            await IdentityServiceStub(channel).ListKeys(ListKeysRequest(), timeout=10)
        except grpc.aio.AioRpcError as error:
            return error.code()
    return grpc.StatusCode.OK


async def test_an_instance_reaches_another_over_tls(
    pair_of: OpenPair, authority: Authority, model_server: FakeOpenAI
) -> None:
    held = model_server.rule = Held(Call("delegate_task", '{"goal": "look"}'))
    environ = {**authority.settings(), "NETACLAW_OPENAI_BASE_URL": model_server.base_url}
    async with pair_of(first_as_process=False, **environ) as pair, pair.one.client() as client:
        session_id = await pair.one.suite.new_session(client)
        async with followers(session_id, pair.two.suite) as (elsewhere,):
            turn = asyncio.create_task(until(chat(client, ChatRequest(session_id=session_id, content="wait")), "done"))
            await elsewhere.until(lambda: elsewhere.written == {"first"})  # text is live at its owner alone
            held.open.set()
            assert of_kind(await turn, "subagent_run_completed")
            await elsewhere.until_kind("done")
            assert equal(elsewhere.view, SessionView.from_tree(await pair.one.suite.tree(client, session_id))) == []


async def test_services_of_two_authorities_say_so_when_they_start(options: SuiteOptions, tmp_path: Path) -> None:
    foreign = Authority(tmp_path, "foreign")
    mixed = {**options.environ, "NETACLAW_SERVICE_TLS_CA": str(foreign.roots)}
    with pytest.raises(ServiceFailed, match="TLS_CERTIFICATE is not believed by NETACLAW_SERVICE_TLS_CA"):
        async with Suite(dataclasses.replace(options, environ=mixed)):
            pass
    stored = [each for each in SERVICES if each.name == "store"]
    async with Suite(options, services=stored) as suite:
        reached = {
            "NETACLAW_STORE_ADDRESS": suite.ports("store")["public"],
            "NETACLAW_STORE_INTERNAL_ADDRESS": suite.ports("store")["internal"],
            "NETACLAW_START_TIMEOUT_SECONDS": "1",
            "NETACLAW_ORCHESTRATOR_PORT": "0",
            "NETACLAW_SERVICE_TOKEN": SERVICE_TOKEN,
        }
        code, _, err = await run_python("-m", "netaclaw_orchestrator", **reached, **foreign.settings())
        assert code == 1
        assert err.splitlines()[-1].startswith("netaclaw-orchestrator: the store cannot be used")
        assert "CERTIFICATE_VERIFY_FAILED" in err.splitlines()[-1], err
