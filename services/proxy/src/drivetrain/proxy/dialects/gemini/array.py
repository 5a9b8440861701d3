"""A stream as one JSON array that grows, for clients that do not ask for server-sent events."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing


async def as_array(events: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The documents of server-sent events as the elements of an array."""
    assert isinstance(events, AsyncGenerator)
    before = b"["
    async with aclosing(events):
        async for data in events:
            for event in filter(None, data.split(b"\n\n")):
                yield before + event.removeprefix(b"data: ")
                before = b",\n"
    yield b"]" if before != b"[" else b"[]"
