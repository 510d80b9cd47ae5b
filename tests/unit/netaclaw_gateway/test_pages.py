"""The built page as the gateway serves it."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from netaclaw_gateway.pages import MAX_BYTES, Pages

INDEX = "<!doctype html><title>page</title>" + " " * 500


@pytest.fixture
def pages(tmp_path: Path) -> Pages:
    built = tmp_path / "built"
    (built / "assets").mkdir(parents=True)
    (built / "index.html").write_text(INDEX)
    (built / "assets" / "app-1a2b.js").write_text("export {};")
    (built / "assets" / "font.woff2").write_bytes(b"\0" * 10)
    (tmp_path / "secret.txt").write_text("secret")
    (built / "link.txt").symlink_to(tmp_path / "secret.txt")
    return Pages(built)


class Answer:
    """What came back."""

    status = 0
    body = b""

    def __init__(self) -> None:
        self.headers: dict[str, str] = {}

    async def __call__(self, event: Any) -> None:
        if event["type"] == "http.response.start":
            self.status = event["status"]
            self.headers = {name.decode(): value.decode() for name, value in event["headers"]}
        else:
            self.body += event["body"]


async def get(pages: Pages, path: str, **headers: str) -> Answer:
    sent = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    answer = Answer()
    await pages({"path": path, "headers": sent}, None, answer)
    return answer


@pytest.mark.parametrize("path", ["/", "/index.html", "/s/0192f0c1-0000-7000-8000-000000000000", "/agents", "/tools"])
async def test_the_page_answers_at_every_address_of_its_router(pages: Pages, path: str) -> None:
    answer = await get(pages, path)
    assert (answer.status, answer.body.decode()) == (200, INDEX)
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["cache-control"] == "no-cache"


@pytest.mark.parametrize(
    "path",
    [
        *("/../secret.txt", "/assets/../../secret.txt", "/link.txt", "//etc/passwd.", "/assets/", "/assets/nothing"),
        *("/nothing.js", "/netaclaw.chat.v1.ChatService/Chat", "/.", "/..", "/index.html/"),
        *("*", "//", "/\0", "/s//x"),
    ],
)
async def test_no_path_leads_out_of_the_page(pages: Pages, path: str) -> None:
    answer = await get(pages, path)
    assert (answer.status, answer.body) == (404, b"not found")


@pytest.mark.parametrize("path", ["/", "/assets/app-1a2b.js", "/nothing.js"])
async def test_every_answer_has_the_strict_policy(pages: Pages, path: str) -> None:
    answer = await get(pages, path)
    policy = dict(rule.strip().split(" ", 1) for rule in answer.headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert {policy[name] for name in ("script-src", "style-src", "connect-src", "worker-src")} == {"'self'"}
    assert policy["frame-ancestors"] == policy["base-uri"] == policy["form-action"] == "'none'"
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"


async def test_files_named_by_their_hash_are_cached_for_good(pages: Pages) -> None:
    answer = await get(pages, "/assets/app-1a2b.js")
    assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert answer.headers["content-type"] == "text/javascript; charset=utf-8"


async def test_what_the_browser_has_is_not_sent_again(pages: Pages) -> None:
    etag = (await get(pages, "/")).headers["etag"]
    answer = await get(pages, "/", if_none_match=f'"other", {etag}')
    assert (answer.status, answer.body) == (304, b"")
    assert (await get(pages, "/", if_none_match='"other"')).status == 200


async def test_a_tag_that_a_proxy_weakened_is_still_known(pages: Pages) -> None:
    tag = (await get(pages, "/")).headers["etag"]
    for sent in (f"W/{tag}", f'"other", W/{tag}', "*"):
        assert (await get(pages, "/", if_none_match=sent)).status == 304


async def test_text_is_not_compressed_for_those_who_refuse_it(pages: Pages) -> None:
    for sent in ("gzip;q=0", "br, gzip; q=0.0", "identity"):
        answer = await get(pages, "/", accept_encoding=sent)
        assert (answer.headers.get("content-encoding"), answer.body) == (None, INDEX.encode())


async def test_text_is_compressed_for_those_who_can_read_it(pages: Pages) -> None:
    answer = await get(pages, "/", accept_encoding="gzip, br")
    assert answer.headers["content-encoding"] == "gzip"
    assert gzip.decompress(answer.body).decode() == INDEX
    assert "content-encoding" not in (await get(pages, "/assets/font.woff2", accept_encoding="gzip")).headers


async def test_without_a_built_page_the_answer_says_how_to_build_it(tmp_path: Path) -> None:
    answer = await get(Pages(tmp_path / "missing"), "/")
    assert answer.status == 404
    assert b"make web" in answer.body


def test_a_directory_too_large_for_a_page_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "huge.bin").open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    with pytest.raises(ValueError, match="not a page"):
        Pages(tmp_path)
