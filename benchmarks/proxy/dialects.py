"""A row per dialect: how many requests a second and core the proxy serves, all by one plain load generator."""

import asyncio
import time
import zlib
from collections.abc import Mapping
from typing import Any

import aiohttp
import msgspec

from benchmarks.proxy.candidates import Candidate
from benchmarks.proxy.wire import POLICY
from benchmarks.proxy.workload import excerpt

PROMPT_TOKENS = 500
REPLY_TOKENS = 32
STREAMS = 16
TIMEOUT_S = 60.0


class Way(msgspec.Struct, frozen=True):
    """How one dialect asks for a streamed reply, and by what its whole answer is known."""

    path: str
    body: dict[str, Any]
    end: bytes

    def asking(self, text: str) -> bytes:
        """The request's body with a text as the user's message."""
        return msgspec.json.encode(self.body).replace(b"TEXT", msgspec.json.encode(text)[1:-1])


_USER = {"role": "user", "content": "TEXT"}
_GEMINI = {"contents": [{"role": "user", "parts": [{"text": "TEXT"}]}]}
WAYS: Mapping[str, Way] = {
    "chat": Way(
        "/v1/chat/completions",
        {"model": POLICY, "stream": True, "max_tokens": REPLY_TOKENS, "messages": [_USER]},
        b"[DONE]",
    ),
    "responses": Way(
        "/v1/responses",
        {"model": POLICY, "stream": True, "max_output_tokens": REPLY_TOKENS, "input": [_USER]},
        b"response.completed",
    ),
    "messages": Way(
        "/v1/messages",
        {"model": POLICY, "stream": True, "max_tokens": REPLY_TOKENS, "messages": [_USER]},
        b"message_stop",
    ),
    "gemini": Way(
        f"/v1beta/models/{POLICY}:streamGenerateContent?alt=sse",
        {**_GEMINI, "generationConfig": {"maxOutputTokens": REPLY_TOKENS}},
        b'"finishReason"',
    ),
}


def per_core(candidate: Candidate, seconds: float) -> dict[str, float]:
    """Requests a second of the proxy's processor time, by dialect.

    Raises:
        RuntimeError: an answer was not whole.
    """
    return {name: asyncio.run(_rate(candidate, way, seconds)) for name, way in WAYS.items()}


async def _rate(candidate: Candidate, way: Way, seconds: float) -> float:
    url = f"http://127.0.0.1:{candidate.port}{way.path}"
    timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=timeout) as http:
        await _ask(http, url, way, "0")
        before, end = candidate.cost().cpu_s, time.monotonic() + seconds

        async def stream(number: int) -> int:
            done = 0
            while time.monotonic() < end:
                await _ask(http, url, way, f"{number}/{done}")
                done += 1
            return done

        asked = sum(await asyncio.gather(*map(stream, range(STREAMS))))
        return asked / (candidate.cost().cpu_s - before)


async def _ask(http: aiohttp.ClientSession, url: str, way: Way, name: str) -> None:
    body = way.asking(f"{name}\n{excerpt(PROMPT_TOKENS, zlib.crc32(name.encode()) % 1000)}")
    async with http.post(url, data=body, headers={"Content-Type": "application/json"}) as answer:
        said = await answer.read()
    if answer.status != 200 or way.end not in said:
        raise RuntimeError(f"{way.path} answered {answer.status}: {said[-300:]!r}")
