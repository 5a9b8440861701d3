"""A judge on a JetStream of its own, and what its streams hold."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from uuid import uuid4

from drivetrain.common.bus import Consumer, NatsBus
from drivetrain.common.bus.streams import OBJECTS, STREAMS
from drivetrain.common.events import DeadLetter, Event, TurnScored
from drivetrain.common.lifecycle import Lifecycle
from drivetrain.judge.app import arranged, consumers, judge_model, serve
from drivetrain.judge.settings import JudgeSettings
from tests.judge_world import recorded

QUICK = JudgeSettings(turn_wait_s=0.2)


class Real:
    """Streams that were emptied for one test, and a judge's id of its own."""

    def __init__(self, bus: NatsBus) -> None:
        self.bus = bus
        self._judge = f"judge-{uuid4().hex[:8]}"

    async def empty(self) -> "Real":
        for spec in STREAMS:
            await self.bus.js.purge_stream(spec.name)
        return self

    @asynccontextmanager
    async def judging(self, settings: JudgeSettings = QUICK) -> AsyncIterator[Lifecycle]:
        """A judge that runs, stopped as by SIGTERM at the end."""
        own = settings.model_copy(update={"judge": self._judge})
        async with AsyncExitStack() as stack, asyncio.TaskGroup() as group:
            life = Lifecycle(group, stack)
            asker = await judge_model(own.model, stack)
            serve(life, own, self.bus, arranged(own, asker), asker)
            life.started()
            try:
                yield life
            finally:
                life.stop()
                await life.drain()

    async def put(self, *events: Event) -> None:
        for event in events:
            await self.bus.publish(event)

    async def put_recorded(self, turn: str, session: str) -> None:
        await self.put(recorded(turn, session=session))

    async def raw(self, under: Event, payload: bytes) -> None:
        """Store bytes under the subject of an event."""
        await self.bus.js.publish(under.subject(), payload)

    async def expire(self, event: Event) -> None:
        """Remove an event as if its time were over."""
        await self.bus.js.purge_stream(event.STREAM, subject=event.subject())

    async def lose_objects(self) -> None:
        store = await self.bus.js.object_store(OBJECTS)
        for info in await store.list():
            await store.delete(info.name)

    async def until(self, done: Callable[[], bool]) -> None:
        async with asyncio.timeout(30):
            while not done():  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    async def count(self, stream: str) -> int:
        return int((await self.bus.js.stream_info(stream)).state.messages)

    async def scores(self, count: int) -> dict[tuple[str, int], TurnScored]:
        """The scores by turn and revision, once there are so many."""
        async with asyncio.timeout(30):
            while await self.count("SCORES") < count:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        events = [stored.event for stored in await self.bus.last("SCORES", "turn.scored.>")]
        return {(event.turn, event.n): event for event in events if isinstance(event, TurnScored)}

    async def letter(self, number: int = 1) -> DeadLetter:
        """The n-th dead letter, once it is there."""
        async with asyncio.timeout(30):
            while await self.count("DEAD") < number:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        letters = [stored.event async for stored in self.bus.replay("DEAD", "dead.>")]
        letter = letters[number - 1]
        assert isinstance(letter, DeadLetter)
        return letter

    async def waiting(self) -> int:
        """Next states that the judge was not given yet."""
        async with self.bus.consume(self._next_states()) as watched:
            return await watched.pending()

    async def unfinished(self) -> int:
        """Next states that the judge was given and did not acknowledge."""
        info = await self.bus.js.consumer_info("TURNS", self._next_states().durable)
        return int(info.num_ack_pending or 0)

    def _next_states(self) -> Consumer:
        return consumers(QUICK.model_copy(update={"judge": self._judge}), self.bus.shards)[0]
