"""The floor of streaming: reads paced streams of the model server as lines, with aiohttp, and does nothing with them.

As a process: `python -m bench.line_reader URL STREAMS SETTLE_S WINDOW_S`; prints one JSON line with cpu_s and lines.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

import aiohttp
import uvloop


async def main(url: str, streams: int, settle_s: float, window_s: float) -> None:
    lines = 0
    seconds = settle_s + window_s + settle_s
    body = json.dumps({"stream": True, "messages": [{"role": "user", "content": f"stream {seconds:g}"}]})
    headers = {"Content-Type": "application/json"}

    async def follow(session: aiohttp.ClientSession) -> None:
        nonlocal lines
        async with session.post(f"{url}/chat/completions", data=body, headers=headers) as response:
            async for line in response.content:
                if line.startswith(b"data:"):
                    lines += 1

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        readers = [asyncio.create_task(follow(session)) for _ in range(streams)]
        await asyncio.sleep(settle_s)  # the measured state, not its beginning
        cpu_s, count = time.process_time(), lines
        await asyncio.sleep(window_s)  # the window itself
        print(json.dumps({"cpu_s": time.process_time() - cpu_s, "lines": lines - count}), flush=True)
        await asyncio.gather(*readers)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4])))
