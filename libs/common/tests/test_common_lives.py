"""The lives of versions, folded from their events."""

import pytest

from drivetrain.common.bus.memory import MemoryBus
from drivetrain.common.events import (
    Event,
    WeightsCandidate,
    WeightsHeld,
    WeightsLoaded,
    WeightsPromoted,
    WeightsRollback,
    WeightsRolledback,
)
from drivetrain.common.store.lives import Lives, State, read_lives

DAY_S = 86_400.0


def candidate(version: int, parent: int) -> Event:
    return WeightsCandidate(policy="p", version=version, parent=parent, digest="d", step=version, at=0.0)


def held(version: int) -> Event:
    return WeightsHeld(policy="p", version=version, reason="NaN", at=0.0)


def promoted(version: int) -> Event:
    return WeightsPromoted(policy="p", version=version, replicas=["a"], at=0.0)


def rolledback(version: int, to: int) -> Event:
    return WeightsRolledback(policy="p", version=version, to=to, reason="worse", at=0.0)


def loaded(version: int, replica: str, at: float = 0.0) -> Event:
    return WeightsLoaded(policy="p", version=version, replica=replica, seconds=1.0, at=at)


def after(*events: Event) -> Lives:
    lives = Lives()
    for event in events:
        lives = lives.follow(event)
    return lives


CHAIN = [candidate(1, 0), promoted(1), candidate(2, 1), promoted(2), candidate(3, 2)]


@pytest.mark.parametrize(
    ("events", "serving", "states"),
    [
        ([], 0, {}),
        ([candidate(1, 0)], 0, {1: "candidate"}),
        (CHAIN, 2, {1: "promoted", 2: "promoted", 3: "candidate"}),
        ([*CHAIN, held(3)], 2, {1: "promoted", 2: "promoted", 3: "held"}),
        (
            [*CHAIN, promoted(3), rolledback(3, 1), rolledback(2, 1)],
            1,
            {1: "promoted", 2: "rolledback", 3: "rolledback"},
        ),
        ([*CHAIN, promoted(3), rolledback(3, 2), candidate(4, 2), promoted(4)], 4, {3: "rolledback", 4: "promoted"}),
        ([candidate(1, 0), candidate(1, 0)], 0, {1: "candidate"}),
        ([promoted(1), candidate(1, 0)], 1, {1: "promoted"}),
        # A request is no fact
        ([*CHAIN, WeightsRollback(policy="p", version=1, id="i", reason="r", at=0.0)], 2, {2: "promoted"}),
    ],
)
def test_versions_live_as_the_events_say(events: list[Event], serving: int, states: dict[int, str]) -> None:
    lives = after(*events)
    assert lives.promoted == serving
    assert {number: str(lives.versions[number].state) for number in states} == states


def test_parents_and_reasons_are_kept() -> None:
    version = after(*CHAIN, held(3)).versions[3]
    assert (version.parent, version.state, version.reason) == (2, State.HELD, "NaN")
    # The announcement may be older than what the stream keeps
    assert after(promoted(9)).versions[9].parent is None


def test_used_is_what_serves_or_may_come_to_serve() -> None:
    lives = after(*CHAIN, loaded(1, "a", at=0.0), loaded(2, "a", at=5.0), loaded(1, "b", at=6.0))
    assert lives.used(now=DAY_S) == {1, 2, 3}
    # Replica b never came back
    assert lives.used(now=8 * DAY_S) == {2, 3}
    assert Lives().used(0.0) == {0}


async def test_the_bus_is_read_for_one_policy() -> None:
    bus = MemoryBus()
    for event in CHAIN:
        await bus.publish(event)
    await bus.publish(WeightsPromoted(policy="q", version=8, replicas=["a"], at=0.0))
    assert await read_lives(bus, "p") == after(*CHAIN)
