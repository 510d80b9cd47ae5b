"""A model server for the page's benchmark: any request is answered with ANSWER, PER_SECOND deltas a second.

As a process: prints one JSON line with its base_url.
"""

from __future__ import annotations

import asyncio
import json

from aiohttp import web

from bench.model_server import _chunk, _usage

PER_SECOND = 200
DELTA = 40
"""Characters of one delta."""
BYTES = 200_000

_SECTION = """## Section {n}

A paragraph of **plain words** with `code`, a [link](https://example.org/{n}) and some more words, so that it goes over
more than one line of the page, as answers of models do again and again.

- a point of the list number {n}
- another point with *emphasis*
  - and one below it

```python
def answer_{n}(words: list[str]) -> str:
    # joined, as a reader would
    return " ".join(words[{n}:])
```

| name | value |
|------|-------|
| n    | {n}   |
| next | more  |

"""
ANSWER = "".join(_SECTION.format(n=n) for n in range(BYTES // len(_SECTION) + 1))[:BYTES] + "\n\nThe last words."


async def _complete(request: web.Request) -> web.StreamResponse:
    await request.json()
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    loop = asyncio.get_running_loop()
    began = loop.time()
    for number, at in enumerate(range(0, len(ANSWER), DELTA)):
        await asyncio.sleep(max(0.0, began + number / PER_SECOND - loop.time()))  # the pace itself
        await response.write(_chunk({"content": ANSWER[at : at + DELTA]}))
    await response.write(_chunk({}, "stop") + _usage() + b"data: [DONE]\n\n")
    await response.write_eof()
    return response


async def main() -> None:
    app = web.Application()
    app.router.add_post("/v1/chat/completions", _complete)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(json.dumps({"base_url": f"http://127.0.0.1:{runner.addresses[0][1]}/v1"}), flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
