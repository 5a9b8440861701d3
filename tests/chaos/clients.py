"""Fifty people in conversation: each streams reply after reply from a proxy, and keeps what it received whole."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp

PATIENCE_S = 30.0


@dataclass(frozen=True)
class Received:
    """A reply that came to its end: the turn that its id names, its text, and the longest silence within it."""

    turn: str
    text: str
    silence_s: float


@dataclass
class Person:
    """One conversation without any session name. With `urls` left it goes to the next one when one fails."""

    name: str
    urls: list[str]
    received: list[Received] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    messages: list[dict[str, Any]] = field(default_factory=list)

    async def talk(self, http: aiohttp.ClientSession, stopping: Callable[[], bool], changed: asyncio.Event) -> None:
        while not stopping():
            asked = [*self.messages, self.question(len(self.received))]
            try:
                reply = await stream(http, self.urls[0], asked)
            except (aiohttp.ClientError, ConnectionError, TimeoutError, ValueError) as error:
                self.failures.append(f"{self.urls[0]}: {error!r}")
                self.urls = [*self.urls[1:], self.urls[0]]
                continue
            self.received.append(reply)
            self.messages = [*asked, {"role": "assistant", "content": reply.text}]
            changed.set()

    def question(self, number: int) -> dict[str, Any]:
        return {"role": "user", "content": f"{self.name} {number}"}


async def stream(http: aiohttp.ClientSession, url: str, messages: list[dict[str, Any]]) -> Received:
    """One streamed chat completion, whole.

    Raises:
        ClientError, ConnectionError, TimeoutError, ValueError: it was not.
    """
    body = {"model": "default", "stream": True, "messages": messages, "max_tokens": 100}
    texts: list[str] = []
    loop, turn, silence = asyncio.get_running_loop(), "", 0.0
    async with asyncio.timeout(PATIENCE_S), http.post(f"{url}/v1/chat/completions", json=body) as answer:
        answer.raise_for_status()
        heard = loop.time()
        async for line in answer.content:
            silence, heard = max(silence, loop.time() - heard), loop.time()
            data = line.removeprefix(b"data: ").strip()
            if data == b"[DONE]":
                return Received(turn, "".join(texts), silence)
            if data:
                chunk = json.loads(data)
                if "error" in chunk:
                    raise ValueError(chunk["error"]["message"])
                turn = chunk["id"].removeprefix("chatcmpl-")
                texts.append(chunk["choices"][0]["delta"].get("content") or "")
    raise ValueError("the stream ended before its end")


class Crowd:
    """All persons, talking until the block that `talking` opens is left."""

    def __init__(self, persons: Sequence[Person]) -> None:
        self.persons = list(persons)
        self.changed = asyncio.Event()

    async def each(self, replies: int, persons: Sequence[Person] | None = None) -> None:
        """Wait until each person has received so many more replies."""
        waiting = {person.name: len(person.received) + replies for person in persons or self.persons}
        while any(len(person.received) < waiting.get(person.name, 0) for person in self.persons):
            self.changed.clear()
            await asyncio.wait_for(self.changed.wait(), PATIENCE_S)

    @asynccontextmanager
    async def talking(self) -> AsyncIterator["Crowd"]:
        """The persons talk; when the block is left they finish the replies in progress."""
        stop = asyncio.Event()
        connector = aiohttp.TCPConnector(limit=0, force_close=True)
        async with aiohttp.ClientSession(connector=connector) as http, asyncio.TaskGroup() as group:
            for person in self.persons:
                group.create_task(person.talk(http, stop.is_set, self.changed))
            try:
                yield self
            finally:
                stop.set()
