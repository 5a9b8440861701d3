"""Reading a session where followers lag and the bus goes away: nothing that was stored is missed."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from drivetrain.common.bus import BusError, MemoryBus
from drivetrain.common.bus.base import Stored
from drivetrain.common.events import Event, Signal
from drivetrain.judge.chain import Chain
from drivetrain.judge.judge import Judge
from drivetrain.judge.meters import Meters
from drivetrain.judge.sessions import Session, Sessions
from tests.judge_world import ROLLOUT, RULES, WHO, followed, outcome, recorded, tool

SESSION = Session(WHO["tenant"], WHO["policy"], WHO["session"])


class Lagging(MemoryBus):
    """A follower that answers: it has not seen the newest event of a stream until it was asked `lag` times."""

    def __init__(self, lag: int) -> None:
        super().__init__()
        self.lag = lag

    async def last(self, stream: str, subject: str) -> list[Stored]:
        return self._seen(await super().last(stream, subject))

    async def replay(self, stream: str, subject: str, since: float = 0.0) -> AsyncIterator[Stored]:
        for stored in self._seen([stored async for stored in super().replay(stream, subject, since)]):
            yield stored

    def _seen(self, found: list[Stored]) -> list[Stored]:
        self.lag -= 1
        return found[:-1] if self.lag >= 0 else found


class Away(MemoryBus):
    """Refuses so many reads and publications."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times

    def refuse(self) -> None:
        self.times -= 1
        if self.times >= 0:
            raise BusError("away")

    async def last(self, stream: str, subject: str) -> list[Stored]:
        self.refuse()
        return await super().last(stream, subject)

    async def publish(self, event: Event, headers: object = None) -> int | None:
        self.refuse()
        return await super().publish(event)


async def filled(bus: MemoryBus, *events: Event) -> Sessions:
    for event in events:
        await MemoryBus.publish(bus, event)
    return Sessions(bus)


async def test_a_fresh_read_waits_for_what_the_leader_has() -> None:
    events = [recorded("a", 1), recorded("b", 2)]
    stale = await (await filled(Lagging(2), *events)).turns(SESSION)
    fresh = await (await filled(Lagging(2), *events)).turns(SESSION, fresh=True)
    assert [[turn.turn for turn in found] for found in (stale, fresh)] == [["a"], ["a", "b"]]


async def test_every_kind_of_event_of_a_session_can_be_read_fresh() -> None:
    sessions = await filled(Lagging(1), followed("a", tool("fine")))
    assert [state.turn for state in await sessions.followed(SESSION, fresh=True)] == ["a"]
    sessions = await filled(Lagging(1), outcome(0.5))
    assert [signal.value for signal in await sessions.signals(SESSION, fresh=True)] == [0.5]
    sessions = await filled(Lagging(1), outcome(0.5))
    assert len(await sessions.all("SIGNALS", "signal.>")) == 1


async def test_nothing_stored_is_nothing_to_wait_for() -> None:
    sessions = Sessions(Lagging(0))
    assert await sessions.turns(SESSION, fresh=True) == []
    assert await sessions.all("ROLLOUTS", "rollout.finished.r.*") == []
    assert await sessions.newest("SIGNALS", "signal.outcome.0.p.s.o") is None


async def test_the_newest_of_a_subject_is_the_leaders() -> None:
    sessions = await filled(Lagging(9), outcome(0.5))
    found = await sessions.newest("SIGNALS", "signal.outcome.0.p.s.o")
    assert isinstance(found, Signal)


async def test_another_tenants_events_of_the_same_session_are_not_seen() -> None:
    sessions = await filled(MemoryBus(), recorded("a", 1, tenant="other"), followed("b", tenant="other"))
    assert await sessions.turns(SESSION) == []
    assert await sessions.followed(SESSION) == []


async def test_a_bus_that_is_away_is_waited_for() -> None:
    bus = Away(2)
    sessions = await filled(bus, recorded("a", 1))
    async with asyncio.timeout(20):
        assert [turn.turn for turn in await sessions.turns(SESSION)] == ["a"]
        bus.times = 2
        await sessions.store([outcome(0.5), outcome(0.5)])
    assert len(bus.streams["SIGNALS"]) == 1


async def test_patience_has_an_end_where_one_is_given() -> None:
    sessions = Sessions(Away(10**6), patience_s=0.01)
    with pytest.raises(BusError, match="away"):
        await sessions.turns(SESSION)


@pytest.mark.parametrize("lag", [1, 2])
async def test_an_outcome_and_a_turn_that_meet_on_lagging_followers_find_each_other(lag: int) -> None:
    """Each is stored before it is judged, and each is judged from a follower that has not seen the other yet."""
    turn, state = recorded("a", 1, rollout=ROLLOUT), followed("a", tool("fine"), rollout=ROLLOUT)
    for cause in (state, outcome(0.5)):
        bus = Lagging(0)
        sessions = await filled(bus, turn, state, outcome(0.5))
        bus.lag = lag
        judge = Judge("rules", Chain(RULES), sessions, Meters(), 1.0, lambda: 5.0)
        async with asyncio.timeout(20):
            results = await judge.results(cause)
        assert [getattr(event, "reward", None) or getattr(event, "outcome", None) for event in results] == [0.5, 0.5]
