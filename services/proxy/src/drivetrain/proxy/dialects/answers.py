"""From the gateway's replies to a dialect's answer: siblings are opened together and merged as they are sampled."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing

from drivetrain.proxy.dialects.base import Part, Whole, Writes
from drivetrain.proxy.engines.base import EngineBroke
from drivetrain.proxy.errors import Refused
from drivetrain.proxy.replies.parts import Finished, Opened, Reply, Tokens
from drivetrain.proxy.replies.reader import Call, Piece

Parts = AsyncGenerator[tuple[int, Part], None]
_AHEAD = 64
"""How many parts a sibling may be ahead of a slow reader."""


async def opened(replies: Sequence[Reply]) -> list[Opened]:
    """Wait until every reply has its first tokens; if one is refused, all are closed.

    Raises:
        Refused: as the gateway does.
    """
    if len(replies) == 1:  # needs no task of its own
        return [_opens(await anext(replies[0]))]
    first = [asyncio.ensure_future(anext(reply)) for reply in replies]
    try:
        return [_opens(part) for part in await asyncio.gather(*first)]
    except BaseException:
        for task in first:
            task.cancel()
        await asyncio.wait(first)
        for reply in replies:
            await reply.aclose()
        raise


async def merged(replies: Sequence[Reply]) -> Parts:
    """The parts of opened replies, each with the index of its reply, as they come. Closing it closes them all.

    Raises:
        EngineBroke: as soon as one reply ends early.
    """
    if len(replies) == 1:
        async with aclosing(replies[0]) as reply:
            async for part in reply:
                yield 0, _follows(part)
        return
    queue: asyncio.Queue[tuple[int, Part] | EngineBroke | None] = asyncio.Queue(_AHEAD)
    pumps = [asyncio.create_task(_pump(index, reply, queue)) for index, reply in enumerate(replies)]
    try:
        ended = 0
        while ended < len(pumps):
            item = await queue.get()
            if isinstance(item, EngineBroke):
                raise item
            if item is None:
                ended += 1
            else:
                yield item
    finally:
        for pump in pumps:
            pump.cancel()
        await asyncio.wait(pumps)


async def stream(parts: Parts, writer: Writes) -> AsyncIterator[bytes]:
    """The answer as server-sent events. An engine that dies in mid-reply is reported as the dialect does."""
    async with aclosing(parts):
        yield writer.opened()
        try:
            async for index, part in parts:
                if data := writer.part(index, part):
                    yield data
        except EngineBroke as error:
            yield writer.broken(_cut(error))


async def whole(parts: Parts, siblings: int) -> list[Whole]:
    """Every reply, complete.

    Raises:
        Refused: the engine died in mid-reply.
    """
    kept: list[list[Part]] = [[] for _ in range(siblings)]
    async with aclosing(parts):
        try:
            async for index, part in parts:
                kept[index].append(part)
        except EngineBroke as error:
            raise _cut(error) from error
    return [_joined(each) for each in kept]


def _joined(parts: Sequence[Part]) -> Whole:
    texts: dict[str, list[str]] = {"content": [], "reasoning": []}
    calls: list[Call] = []
    tokens = Tokens([], [], [], [])
    for part in parts:
        if isinstance(part, Piece):
            texts[part.channel].append(part.text)
        elif isinstance(part, Call):
            calls.append(part)
        elif isinstance(part, Tokens):
            tokens = joined(tokens, part)
    finished = parts[-1]
    assert isinstance(finished, Finished)
    content, reasoning = "".join(texts["content"]), "".join(texts["reasoning"])
    return Whole(content=content, reasoning=reasoning, calls=calls, tokens=tokens, finished=finished)


def joined(before: Tokens, after: Tokens) -> Tokens:
    """Tokens and those that follow them."""
    return Tokens(
        before.ids + after.ids, before.logprobs + after.logprobs, before.texts + after.texts, before.tops + after.tops
    )


async def _pump(index: int, reply: Reply, queue: "asyncio.Queue[tuple[int, Part] | EngineBroke | None]") -> None:
    async with aclosing(reply):
        try:
            async for part in reply:
                await queue.put((index, _follows(part)))
            await queue.put(None)
        except EngineBroke as error:
            await queue.put(error)


def _opens(part: Opened | Part) -> Opened:
    assert isinstance(part, Opened)
    return part


def _follows(part: Opened | Part) -> Part:
    assert not isinstance(part, Opened)
    return part


def _cut(error: EngineBroke) -> Refused:
    """Harnesses know by the words "server error" that another try is worth it."""
    return Refused(502, f"server error: the reply was cut: {error}", code="engine_broke")
