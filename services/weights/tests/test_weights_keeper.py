"""The keeper: candidates go into the archive in their order, wait for it, and old ones leave."""

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from drivetrain.common.bus.base import Bus
from drivetrain.common.bus.handling import Unprocessable
from drivetrain.common.bus.memory import MemoryBus
from drivetrain.common.events import WeightsCandidate, WeightsHeld, WeightsPromoted
from drivetrain.common.store.archive import Archive
from drivetrain.common.store.blobs import Blobs
from drivetrain.common.store.checkpoints import CheckpointStore, Manifest
from drivetrain.common.store.errors import Full
from drivetrain.common.store.retention import Retention
from drivetrain.weights.keeper import Keeper
from tests.stores import Dying, MemoryBlobs

Write = Callable[..., Manifest]


@dataclass
class Room:
    """A keeper over an in-memory bus and archive; `awaken` runs whenever it waits."""

    store: CheckpointStore
    archive: Archive
    write: Write
    bus: Bus = field(default_factory=MemoryBus)
    slept: list[float] = field(default_factory=list)
    awaken: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        self.blobs = self.archive.blobs
        rule = Retention(keep=2)
        self.keeper = Keeper(self.bus, self.store, self.archive, rule, 1.0, lambda: 5e9, self._sleep)

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.awaken()

    async def announce(self, manifest: Manifest, digest: str | None = None) -> None:
        event = WeightsCandidate(
            policy="main",
            version=manifest.version,
            parent=manifest.parent,
            digest=digest or manifest.digest(),
            step=1,
            at=0.0,
        )
        await self.bus.publish(event)
        async with self.bus.consume(self.keeper.consumer) as subscription:
            (delivery,) = await subscription.fetch(1, 0.5)
            try:
                await self.keeper.on_candidate(delivery)
            finally:
                await delivery.ack()

    async def settle(self, version: int, good: bool = True) -> None:
        if good:
            await self.bus.publish(WeightsPromoted(policy="main", version=version, replicas=[], at=0.0))
        else:
            await self.bus.publish(WeightsHeld(policy="main", version=version, reason="bad", at=0.0))


@pytest.fixture
def room(store: CheckpointStore, archive: Archive, write: Write) -> Room:
    return Room(store, archive, write)


async def test_a_candidate_is_archived_before_anybody_decided_about_it(room: Room) -> None:
    manifest = room.write(1)
    await room.announce(manifest)
    assert (await room.archive.record(1)).checkpoint == manifest


async def test_the_newest_stay_with_what_serves_and_what_awaits_a_decision(room: Room) -> None:
    for version in (1, 2, 3, 4, 5):
        await room.announce(room.write(version, version - 1 if version < 4 else 1))
        if version != 2:
            await room.settle(version, good=version == 1)
    # 1 serves, 2 awaits a decision, 4 and 5 are the newest two
    await room.announce(room.write(6, 1))
    assert await room.archive.versions() == [1, 2, 5, 6]


async def test_an_archive_that_fails_is_waited_for(room: Room) -> None:
    dying = Dying(room.blobs, 0)
    room.archive.blobs = dying

    def revive() -> None:
        if len(room.slept) == 7:
            dying.writes_left = 100

    room.awaken = revive
    await room.announce(room.write(1))
    assert room.slept == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    assert await room.archive.versions() == [1]


class Filled(MemoryBlobs):
    """A store without room; what is removed makes some."""

    full = True

    async def put(self, key: str, value: object) -> None:
        if self.full:
            raise Full("the store is full: free space there")
        await super().put(key, value)  # type: ignore[arg-type]


async def test_a_full_archive_takes_the_candidate_when_it_has_room_again(room: Room) -> None:
    filled: Blobs = Filled()
    room.archive.blobs = filled
    room.awaken = lambda: setattr(filled, "full", False)
    await room.announce(room.write(1))
    assert (room.slept, await room.archive.versions()) == ([1.0], [1])


async def test_what_is_not_what_was_announced_is_not_archived(room: Room) -> None:
    with pytest.raises(Unprocessable, match=r"version 1 was not archived: .*not the one that was announced"):
        await room.announce(room.write(1), digest="0" * 64)
    assert await room.archive.versions() == []


async def test_what_the_trainer_removed_before_it_was_archived_is_told(room: Room) -> None:
    manifest = room.write(1)
    room.store.keep_last("main", 1)
    room.store.path("main", 1).rename(room.store.root / "elsewhere")
    with pytest.raises(Unprocessable, match="there is no checkpoint main@1"):
        await room.announce(manifest)


async def test_the_cache_does_not_grow(room: Room) -> None:
    for version in range(1, 6):
        await room.announce(room.write(version, version - 1))
        await room.settle(version)
        await room.archive.materialise(version)
    await room.announce(room.write(6, 5))
    assert room.archive.cache.versions("main") == [4, 5]


async def test_a_collection_that_fails_leaves_the_candidate_archived(room: Room) -> None:
    for version in (1, 2, 3):
        await room.announce(room.write(version, version - 1))
        await room.settle(version)
    # The blob and the record are written, then nothing is removed any more
    room.archive.blobs = Dying(room.blobs, 2)
    await room.announce(room.write(4, 3))
    assert 4 in await room.archive.versions()
