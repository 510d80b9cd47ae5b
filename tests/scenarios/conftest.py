"""What scenarios share: a small workspace, and suites on databases of their own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from pathlib import Path

import pytest

from tests.fakes.openai_server import FakeOpenAI
from tests.fakes.postgres import PostgresServer
from tests.scenarios.pairs import OpenPair, Pair, open_pair
from tests.scenarios.suites import Opener, OpenSuite, RunningSuite, four_processes, in_process

TOPOLOGIES = {"in_process": in_process, "four_processes": four_processes}


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A few files to count, search and read."""
    root = tmp_path / "workspace"
    (root / "src").mkdir(parents=True)
    (root / "src" / "one.py").write_text("a = 1\nb = 2\n")
    (root / "src" / "two.py").write_text("print('needle')\n")
    (root / "src" / "三.md").write_text("# 标题\n\nneedle\n")
    (root / "big.txt").write_text("x" * 5000)
    return root


@pytest.fixture
def open_suite(
    postgres_server: PostgresServer, tmp_path_factory: pytest.TempPathFactory, workspace: Path
) -> Iterator[OpenSuite]:
    """Opens suites by topology name, each on a database of its own."""
    with ExitStack() as databases:

        @asynccontextmanager
        async def opened(topology: str, **environ: str) -> AsyncIterator[RunningSuite]:
            url = databases.enter_context(postgres_server.database())
            opener: Opener = TOPOLOGIES[topology]
            settings = {"NETACLAW_MODEL_MAX_TRIES": "1", "NETACLAW_LOG_LEVEL": "WARNING", **environ}
            async with opener(url, tmp_path_factory.mktemp("data"), workspace, settings) as suite:
                yield suite

        yield opened


@pytest.fixture
async def model_server() -> AsyncIterator[FakeOpenAI]:
    """A streaming OpenAI-compatible server that answers as the scripted model would."""
    async with FakeOpenAI() as server:
        yield server


@pytest.fixture
async def pair_of(postgres_url: str, tmp_path: Path, workspace: Path) -> OpenPair:
    """Opens two orchestrators on one database."""
    directory = tmp_path / "data"
    directory.mkdir()

    def opened(*, first_as_process: bool = False, **environ: str) -> AbstractAsyncContextManager[Pair]:
        return open_pair(postgres_url, directory, workspace, first_as_process=first_as_process, **environ)

    return opened
