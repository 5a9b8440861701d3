"""Callers who leave in the very moment in which their stream begins: what was opened for them is closed."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from drivetrain.proxy.api.http import CallerLeft, EventStream, while_connected


class Caller:
    """An ASGI caller who leaves when it is sent a message of this type."""

    def __init__(self, leaves_at: str) -> None:
        self._leaves_at, self._left = leaves_at, asyncio.Event()
        self.got: list[str] = []

    async def receive(self) -> dict[str, Any]:
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        self.got.append(message["type"].rpartition(".")[2])
        if self.got[-1] == self._leaves_at:
            self._left.set()
            await asyncio.Event().wait()  # nobody reads on


class Opened:
    """What a stream reads from, and whether it was closed."""

    def __init__(self) -> None:
        self.closed = 0

    async def parts(self) -> AsyncIterator[bytes]:
        yield b"data: 1"
        yield b"data: 2"

    async def close(self) -> None:
        self.closed += 1


@pytest.mark.parametrize(("leaves_at", "got"), [("start", ["start"]), ("body", ["start", "body"]), ("never", None)])
async def test_what_was_opened_is_closed_whenever_the_caller_leaves(leaves_at: str, got: list[str] | None) -> None:
    caller, opened = Caller(leaves_at), Opened()
    async with asyncio.timeout(5):
        await EventStream(opened.parts(), opened.close)({}, caller.receive, caller.send)
    assert caller.got == (got or ["start", "body", "body", "body"])
    assert opened.closed == 1


async def test_it_is_closed_too_when_the_server_stops_before_the_first_byte() -> None:
    caller, opened = Caller("never"), Opened()

    async def stalled(message: Any) -> None:
        await asyncio.Event().wait()

    serving = asyncio.ensure_future(EventStream(opened.parts(), opened.close)({}, caller.receive, stalled))
    await asyncio.sleep(0)
    serving.cancel()
    await asyncio.wait((serving,))
    assert serving.cancelled()
    assert opened.closed == 1


async def test_work_for_a_caller_who_leaves_ends_and_its_task_goes_on() -> None:
    caller, ended = Caller("start"), []

    async def work() -> None:
        try:
            await caller.send({"type": "http.response.start"})
        finally:
            ended.append("work")

    with pytest.raises(CallerLeft):
        await while_connected(caller.receive, work())
    task = asyncio.current_task()
    assert (ended, task and task.cancelling()) == (["work"], 0)
    async with asyncio.timeout(5):
        await asyncio.sleep(0)
