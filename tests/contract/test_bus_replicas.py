"""What replicas say: the last word of each holds, and whoever watches hears of it at once."""

import asyncio
import time

import pytest

from drivetrain.common.bus import Bus
from drivetrain.common.events import Post, ReplicaRotation, ReplicaSeen
from tests.contract.test_bus_contract import bus, policy

__all__ = ["bus", "policy"]


def rotation(policy: str, version: int) -> ReplicaRotation:
    return ReplicaRotation(policy=policy, version=version, posts=[Post(url="http://a", label=version)], at=1.0)


async def test_the_last_word_takes_the_place_of_the_one_before(bus: Bus, policy: str) -> None:
    for version in range(20):
        assert await bus.publish(rotation(policy, version)) is not None
    found = await bus.last("REPLICAS", f"replica.rotation.{policy}")
    assert [stored.event for stored in found] == [rotation(policy, 19)]


async def test_every_replica_has_its_own_last_word(bus: Bus, policy: str) -> None:
    for name in ("a", "b"):
        for load in (1, 2):
            seen = ReplicaSeen(
                name=f"{policy}-{name}", url=f"http://{name}", policies=[policy], version=None, load=load, at=1.0
            )
            await bus.publish(seen)
    found = [stored.event for stored in await bus.last("REPLICAS", "replica.seen.*")]
    loads = {e.name: e.load for e in found if isinstance(e, ReplicaSeen) and e.policies == [policy]}
    assert loads == {f"{policy}-a": 2, f"{policy}-b": 2}


async def test_who_watches_a_subject_hears_at_once(bus: Bus, policy: str) -> None:
    async with bus.watch(f"replica.rotation.{policy}") as published:
        await bus.publish(rotation(f"{policy}-other", 1))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(published.wait(), 0.2)
        started = time.monotonic()
        await bus.publish(rotation(policy, 1))
        await asyncio.wait_for(published.wait(), 5)
        assert time.monotonic() - started < 2
