"""A model behind HTTP whose answer is a stream of events: connection, time limits and faults, for every format."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Protocol

import aiohttp

from netaclaw_agent.model import Finished, ModelCall, ModelError, ModelEvent, NewId
from netaclaw_agent.models.assembler import MessageAssembler
from netaclaw_agent.models.faults import ModelStalled, ProviderError, fault_of_status
from netaclaw_agent.models.limits import StreamLimits
from netaclaw_agent.models.reply import Reader, Reply

_MAX_WHOLE_BYTES = 8 * 1024 * 1024
_MAX_ERROR_BYTES = 64 * 1024
_DRAIN_S = 0.05


class Format(Protocol):
    """One provider's way to ask and to answer; it knows no connection."""

    @property
    def path(self) -> str:
        """Behind the base URL."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """Key and version, besides the content types."""
        ...

    def request(self, call: ModelCall) -> bytes:
        """The body, in JSON."""
        ...

    def reader(self, assembler: MessageAssembler) -> Reader:
        """Reads one answer."""
        ...


class HttpModel:
    """One model of one server. Its HTTP session is made at the first call and ended by close()."""

    def __init__(
        self, *, name: str, base_url: str, provider_model: str, context_window: int, limits: StreamLimits, form: Format
    ) -> None:
        """`provider_model`: the model's name at the server, which its messages will carry."""
        self._name = name
        self._url = f"{base_url.rstrip('/')}/{form.path}"
        self._headers = {
            "Content-Type": "application/json",
            "Accept": "text/event-stream, application/json",
            **form.headers,
        }
        self._provider_model = provider_model
        self._context_window = context_window
        self._limits = limits
        self._format = form
        self._session: aiohttp.ClientSession | None = None
        self._closed = False

    @property
    def name(self) -> str:
        """Its name in the catalogue."""
        return self._name

    @property
    def context_window(self) -> int:
        """Tokens that fit, prompt and answer together."""
        return self._context_window

    async def close(self) -> None:
        """End the HTTP session. Running and later calls fail with ModelError. Idempotent."""
        self._closed = True
        if self._session is not None:
            session, self._session = self._session, None
            await session.close()

    async def stream(self, call: ModelCall, *, new_id: NewId) -> AsyncIterator[ModelEvent]:
        """As Model.stream. One request, no further try."""
        assembler = MessageAssembler(self._provider_model, new_id)
        reply = Reply(self._format.reader(assembler))
        watch = _Watch(self._limits, assembler)
        response: aiohttp.ClientResponse | None = None
        try:
            response = await self._open(call, watch)
            if response.content_type == "application/json":
                for delta in reply.whole(await _body(response, watch, _MAX_WHOLE_BYTES)):
                    yield delta
            while not reply.done and (data := await watch.more(response)):
                before = reply.events
                for delta in reply.feed(data):
                    yield delta
                if reply.events > before:
                    watch.progress()
            for delta in reply.end():
                yield delta
            message = reply.message()
            await _drain(response)
            yield Finished(message)
        except ModelError as error:
            error.usage = assembler.usage
            raise
        except (aiohttp.ClientError, OSError) as error:
            # Only the kind of failure, and no chained cause: the library's text may hold address and credentials.
            failure = f"the connection to the model provider failed ({type(error).__name__})"
            raise ProviderError(failure, usage=assembler.usage) from None
        finally:
            watch.stop()
            if response is not None:
                # Closing ends the connection, which is what a cut call needs; a whole one leaves it for the next call.
                if response.content.at_eof():
                    response.release()
                else:
                    response.close()

    async def _open(self, call: ModelCall, watch: _Watch) -> aiohttp.ClientResponse:
        if self._closed:
            raise ModelError("the model is closed", retryable=False)
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=None, sock_read=None),
            )
        body = io.BytesIO(self._format.request(call))  # of raw bytes the library warns when they are many
        try:
            async with asyncio.timeout_at(watch.deadline()):
                # A redirect would carry key and prompt to an address that nobody configured.
                response = await self._session.post(self._url, data=body, headers=self._headers, allow_redirects=False)
        except TimeoutError:
            raise watch.stalled() from None
        except ValueError:  # an address that is no URL, or that has credentials beside the key
            raise ProviderError(
                "the model provider's address is not usable", reason="MODEL_REFUSED", retryable=False
            ) from None
        if response.status != 200:
            try:
                raise fault_of_status(response.status, await _error_object(response, watch), _retry_after_s(response))
            finally:
                response.close()
        return response


class _Watch:
    """The time limits of one call, kept by one timer: one for each read would cost more than the reading."""

    def __init__(self, limits: StreamLimits, assembler: MessageAssembler) -> None:
        self._limits = limits
        self._assembler = assembler
        self._loop = asyncio.get_running_loop()
        self._begin = self._last = self._loop.time()
        self._content: aiohttp.StreamReader | None = None
        self._timer: asyncio.TimerHandle | None = None

    def deadline(self) -> float:
        """The nearest limit, in the event loop's time."""
        total = self._begin + self._limits.total_s
        if self._assembler.started:
            return min(total, self._last + self._limits.idle_s)
        return min(total, self._begin + self._limits.first_token_s)

    def progress(self) -> None:
        """Data events were handled. The time that the reader took for it is not the provider's."""
        self._last = self._loop.time()
        # It was set for the first token, for which there is more patience than between two.
        if self._timer is not None and self._timer.when() > self._last + self._limits.idle_s:
            self._timer.cancel()
            self._timer = self._loop.call_at(self.deadline(), self._look)

    async def read(self, response: aiohttp.ClientResponse) -> bytes:
        """The next bytes; empty at the end. Raises ModelStalled at a limit."""
        if self._timer is None:
            self._timer = self._loop.call_at(self.deadline(), self._look)
        self._content = response.content
        try:
            return await response.content.readany()
        finally:
            self._content = None

    async def more(self, response: aiohttp.ClientResponse) -> bytes:
        """The same of a body whose answer may be whole before it: what becomes of its end is no loss then."""
        try:
            return await self.read(response)
        except (aiohttp.ClientError, OSError, ModelStalled):
            if not self._assembler.whole:
                raise
            return b""

    def stop(self) -> None:
        """No more reads."""
        if self._timer is not None:
            self._timer.cancel()

    def stalled(self) -> ModelStalled:
        limits = self._limits
        if self._loop.time() >= self._begin + limits.total_s:
            return ModelStalled(f"the model's answer was not finished within {limits.total_s:g} s")
        if self._assembler.started:
            return ModelStalled(f"the model sent nothing for {limits.idle_s:g} s")
        return ModelStalled(f"the model sent no first token within {limits.first_token_s:g} s")

    def _look(self) -> None:
        """The limit that was set has come; most often a later one holds by now."""
        self._timer = None
        if self._loop.time() < self.deadline():
            self._timer = self._loop.call_at(self.deadline(), self._look)
        elif self._content is not None:
            self._content.set_exception(self.stalled())
        # else nobody reads just now; the next read looks anew


async def _body(response: aiohttp.ClientResponse, watch: _Watch, most: int) -> bytes:
    pieces: list[bytes] = []
    size = 0
    while size <= most and (data := await watch.read(response)):
        pieces.append(data)
        size += len(data)
    return b"".join(pieces)


async def _error_object(response: aiohttp.ClientResponse, watch: _Watch) -> object:
    try:
        body = json.loads(await _body(response, watch, _MAX_ERROR_BYTES))
    except (ValueError, RecursionError, aiohttp.ClientError, OSError, ModelStalled):
        return None  # the status alone says enough
    if isinstance(body, list):  # Google's
        body = next(iter(body), None)
    return body.get("error", body) if isinstance(body, dict) else None


async def _drain(response: aiohttp.ClientResponse) -> None:
    """Read the end of the body, which mostly is there already, so that the connection can be used again."""
    if response.content.at_eof() or response.content.exception() is not None:
        return
    try:
        async with asyncio.timeout(_DRAIN_S):
            await response.content.readany()
    except (aiohttp.ClientError, OSError):
        return  # the message is whole; the connection is closed instead


def _retry_after_s(response: aiohttp.ClientResponse) -> float | None:
    value = response.headers.get("Retry-After", "").strip()
    if not value:
        return None
    if value.isdecimal():
        return float(value)
    try:
        when = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    return max(0.0, (when - datetime.now(UTC)).total_seconds())
