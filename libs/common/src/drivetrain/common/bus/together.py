"""Reads of the last events that are asked for at the same time, sent to the server as one request.

A service that works on many deliveries at once asks for many sessions at once; a request costs far more than a subject
more in it.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from nats.aio.msg import Msg

from drivetrain.common.bus.base import Stored
from drivetrain.common.bus.letters import left_out, read
from drivetrain.common.bus.reading import TooMany, ask, pages
from drivetrain.common.events import InvalidEvent

if TYPE_CHECKING:
    from drivetrain.common.bus.nats import NatsBus

MOST = 128
"""Subjects of one request."""

Shape = tuple[str, ...]


class Together:
    """See the module; `last` is that of `Bus`."""

    def __init__(self, bus: "NatsBus") -> None:
        self._bus = bus
        self._waiting: dict[str, dict[str, asyncio.Future[list[Stored]]]] = defaultdict(dict)
        self._tasks: set[asyncio.Task[None]] = set()

    async def last(self, stream: str, subject: str) -> list[Stored]:
        waiting = self._waiting[stream]
        if not waiting:
            # After everything that is ready to run now has run: by then all of it has asked.
            asyncio.get_running_loop().call_soon(self._start, stream)
        if subject not in waiting:
            waiting[subject] = asyncio.get_running_loop().create_future()
        return list(await asyncio.shield(waiting[subject]))

    def _start(self, stream: str) -> None:
        waiting = self._waiting.pop(stream)
        for start in range(0, len(waiting), MOST):
            part = dict(list(waiting.items())[start : start + MOST])
            task = asyncio.create_task(self._answer(stream, part))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _answer(self, stream: str, waiting: dict[str, "asyncio.Future[list[Stored]]"]) -> None:
        try:
            found = await self._read(stream, list(waiting))
        except Exception as error:  # noqa: BLE001  whatever it is, it belongs to those who asked
            for future in waiting.values():
                future.set_exception(error)
                future.exception()  # whoever asked may be gone
            return
        for subject, future in waiting.items():
            future.set_result(found[subject])

    async def _read(self, stream: str, subjects: Sequence[str]) -> dict[str, list[Stored]]:
        """The last events under each of the subjects, in stream order."""
        try:
            messages = await ask(self._bus, stream, {"multi_last": list(subjects)})
        except TooMany:
            messages = [message for subject in subjects for message in await self._all(stream, subject)]
        return await self._sorted(messages, subjects)

    async def _all(self, stream: str, subject: str) -> list[Msg]:
        """The same of one subject that matches more than the server lists at once."""
        newest = {(m.headers or {})["Nats-Subject"]: m async for m in pages(self._bus, stream, subject, {"seq": 1})}
        return list(newest.values())

    async def _sorted(self, messages: Iterable[Msg], subjects: Sequence[str]) -> dict[str, list[Stored]]:
        """Whose message is whose: a subject's tokens, blanked like a pattern's, are that pattern."""
        found: dict[str, list[Stored]] = {subject: [] for subject in subjects}
        shapes = {tuple(token if token in "*>" else "" for token in subject.split(".")) for subject in subjects}
        for message in messages:
            headers = dict(message.headers or {})
            at, sequence = headers["Nats-Subject"], int(headers["Nats-Sequence"])
            try:
                event = read(at, await self._bus.payload_of(message.data, headers))
            except InvalidEvent as error:
                left_out(at, sequence, error)
                continue
            stored = Stored(event, at, sequence, headers)
            for pattern in {_blanked(at.split("."), shape) for shape in shapes}:
                if pattern in found:
                    found[pattern].append(stored)
        return {subject: sorted(events, key=lambda stored: stored.sequence) for subject, events in found.items()}


def _blanked(tokens: Sequence[str], shape: Shape) -> str | None:
    """The pattern of that shape that a subject matches, if any."""
    if shape[-1] == ">":
        tokens = [*tokens[: len(shape) - 1], ">"] if len(tokens) >= len(shape) else ()
    if len(tokens) != len(shape):
        return None
    return ".".join(wild or token for wild, token in zip(shape, tokens, strict=True))
