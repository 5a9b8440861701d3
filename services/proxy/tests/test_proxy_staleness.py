"""When rollouts must wait for newer weights: a rule over versions, and what the bus says of them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drivetrain.common.bus import MemoryBus
from drivetrain.common.bus.base import BusError, Stored
from drivetrain.common.events import WeightsCandidate, WeightsHeld, WeightsPromoted
from drivetrain.proxy.routing.staleness import Fates, Staleness, behind


@pytest.mark.parametrize(
    ("fates", "served", "versions"),
    [
        (Fates(), [], 0),  # nobody trains
        (Fates(), [3], 0),
        (Fates(candidate=1), [], 1),  # the first version waits for its promotion
        (Fates(candidate=9, promoted=4), [4, 4], 5),  # the trainer is ahead of the weights service
        (Fates(candidate=9, promoted=9), [9, 3], 0),  # one replica lags: the others serve rollouts
        (Fates(candidate=9, promoted=9), [3], 6),  # all lag
        (Fates(candidate=9, promoted=4, held=9), [4], 0),  # what was refused is waited for by nobody
        (Fates(candidate=9, promoted=9), [], 0),  # replicas that do not say are trusted
        (Fates(candidate=9, promoted=4), [9], 0),  # loaded already, promoted soon
    ],
)
def test_how_far_the_replicas_are_behind(fates: Fates, served: list[int], versions: int) -> None:
    assert behind(fates, served) == versions


versions = st.none() | st.integers(1, 50)


@settings(deadline=None)
@given(versions, versions, st.lists(st.integers(0, 50), max_size=4))
def test_the_wait_ends_when_the_newest_version_is_decided(
    candidate: int | None, promoted: int | None, served: list[int]
) -> None:
    newest = max(candidate or 0, promoted or 0)
    assert behind(Fates(candidate=newest, promoted=newest), [*served, newest]) == 0
    assert behind(Fates(candidate=newest, promoted=promoted, held=newest), [promoted or 0]) == 0


def candidate(version: int, policy: str = "p") -> WeightsCandidate:
    return WeightsCandidate(policy=policy, version=version, at=0.0, parent=version - 1, digest="d", step=version)


async def test_the_bus_says_which_versions_there_are() -> None:
    bus, served = MemoryBus(), [1]
    staleness = Staleness(bus, "p", lambda: served, max_staleness=2)
    await staleness.look()
    assert staleness.held() == ""
    for version in (1, 2, 3, 4):
        await bus.publish(candidate(version))
    await bus.publish(WeightsPromoted(policy="p", version=1, replicas=["r"], at=0.0))
    await bus.publish(candidate(9, policy="other"))
    await staleness.look()
    assert "3 versions behind" in staleness.held()
    served[:] = [2]
    assert staleness.held() == ""
    served[:] = [1]
    await bus.publish(WeightsHeld(policy="p", version=4, reason="probe", at=0.0))
    await staleness.look()
    assert staleness.held() == ""


async def test_what_was_known_stays_while_the_bus_is_away() -> None:
    class Away(MemoryBus):
        away = False

        async def get(self, stream: str, subject: str) -> Stored | None:
            if self.away:
                raise BusError("gone")
            return await super().get(stream, subject)

    bus = Away()
    await bus.publish(candidate(9))
    staleness = Staleness(bus, "p", list, max_staleness=2)
    await staleness.look()
    bus.away = True
    await staleness.look()
    assert "9 versions behind" in staleness.held()
