"""The archive: versions come back byte for byte, are complete or absent, and what is wrong with one is told by type."""

import asyncio
import contextlib
import hashlib
import math
from pathlib import Path

import msgspec
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drivetrain.common.store import CheckpointStore, FileEntry, Manifest
from drivetrain.common.store.archive import Archive
from drivetrain.common.store.collecting import collect
from drivetrain.common.store.errors import (
    BadCheckpoint,
    Conflict,
    MissingShard,
    NoCheckpoint,
    NotFinite,
    OtherBase,
    ParentGone,
    Unavailable,
    WrongChecksum,
    WrongShape,
)
from drivetrain.common.store.records import decode_record
from drivetrain.common.store.retention import Retention
from tests.stores import Dying, MemoryBlobs, stepped, weights, write_checkpoint


class Shelf:
    """A local folder of checkpoints as the trainer writes it, and an archive beside it."""

    def __init__(self, folder: Path) -> None:
        self.local = CheckpointStore(folder / "local")
        self.blobs = MemoryBlobs()
        self.archive = Archive(self.blobs, "p", folder / "cache", full_every=3)

    def elsewhere(self) -> Archive:
        """The archive as a machine sees it that has read nothing of it yet."""
        return Archive(self.blobs, "p", self.archive.cache.root.parent / "elsewhere")

    async def add(self, manifest: Manifest) -> str:
        """Store a checkpoint; returns the kind it was stored as."""
        return (await self.archive.add(manifest, self.local.path("p", manifest.version), 100.0)).kind

    async def chain(self, count: int) -> list[Manifest]:
        """Versions 1 to `count`, each a small step from the one before."""
        tensors, made = weights(), []
        for version in range(1, count + 1):
            made.append(write_checkpoint(self.local, version, version - 1, tensors))
            await self.add(made[-1])
            tensors = stepped(tensors, seed=version)
        return made

    def file(self, version: int) -> bytes:
        return (self.local.path("p", version) / "model-0.safetensors").read_bytes()


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path)


async def test_versions_come_back_byte_for_byte_through_their_deltas(shelf: Shelf) -> None:
    await shelf.chain(5)
    # Three deltas follow a full one, so that no version is further than that from one that needs nobody
    assert [record.kind for record in (await shelf.archive.records()).values()] == ["full", *["delta"] * 3, "full"]
    for version in range(1, 6):
        folder = await shelf.archive.materialise(version)
        assert (folder / "model-0.safetensors").read_bytes() == shelf.file(version)
        assert shelf.archive.cache.manifest("p", version) == shelf.local.manifest("p", version)


async def test_a_delta_is_small_and_the_record_says_how_small(shelf: Shelf) -> None:
    await shelf.chain(2)
    record = await shelf.archive.record(2)
    assert record.full_bytes == len(shelf.file(2))
    # 30 of 4,000 values moved by one step: a place and a sign each, and the frames around them
    assert record.stored_bytes < 1000 < record.full_bytes / 8
    stored = sum(entry.size for entry in await shelf.blobs.entries("blobs/"))
    assert stored == (await shelf.archive.record(1)).stored_bytes + record.stored_bytes


async def test_the_record_knows_every_tensor(shelf: Shelf) -> None:
    (manifest,) = await shelf.chain(1)
    record = await shelf.archive.record(1)
    assert record.checkpoint == manifest
    fact = record.tensors["norm"]
    # Twenty bfloat16 ones: 0x3F80, little-endian
    assert (fact.dtype, fact.shape, fact.size) == ("BF16", (20,), 40)
    assert fact.sha256 == hashlib.sha256(b"\x80\x3f" * 20).hexdigest()


async def test_what_is_stored_under_a_checksum_has_it(shelf: Shelf) -> None:
    await shelf.chain(3)
    for entry in await shelf.blobs.entries("blobs/"):
        assert hashlib.sha256(await shelf.blobs.read(entry.key)).hexdigest() == entry.key.rpartition("/")[2]


async def test_without_its_parent_a_version_is_stored_full(shelf: Shelf) -> None:
    write_checkpoint(shelf.local, 1, 0, weights())
    assert await shelf.add(write_checkpoint(shelf.local, 2, 1, stepped(weights()))) == "full"


async def test_a_delta_that_is_no_smaller_is_stored_full(shelf: Shelf) -> None:
    await shelf.add(write_checkpoint(shelf.local, 1, 0, weights(count=20)))
    other = {name: tensor * -3.7 for name, tensor in weights(seed=5, count=20).items()}
    assert await shelf.add(write_checkpoint(shelf.local, 2, 1, other)) == "full"


async def test_an_adapter_is_stored_whole(shelf: Shelf) -> None:
    for version in (1, 2):
        manifest = write_checkpoint(shelf.local, version, version - 1, {"lora_a": torch.ones(4)}, kind="adapter")
        assert await shelf.add(manifest) == "adapter"


async def test_a_damaged_local_parent_is_not_used_for_a_delta(shelf: Shelf) -> None:
    await shelf.chain(1)
    folder = shelf.local.path("p", 1)
    damaged = bytearray(shelf.file(1))
    damaged[-1] ^= 1
    (folder / "model-0.safetensors").write_bytes(damaged)
    child = write_checkpoint(shelf.local, 2, 1, stepped(weights()))
    await shelf.archive.add(child, shelf.local.path("p", 2), 1.0, lambda version: folder)
    assert (await shelf.archive.materialise(2) / "model-0.safetensors").read_bytes() == shelf.file(2)


async def test_adding_a_version_again_changes_nothing(shelf: Shelf) -> None:
    (manifest,) = await shelf.chain(1)
    before = dict(shelf.blobs.values)
    await shelf.add(manifest)
    assert shelf.blobs.values == before


async def test_another_checkpoint_under_the_same_version_is_refused(shelf: Shelf) -> None:
    (manifest,) = await shelf.chain(1)
    with pytest.raises(Conflict, match="another checkpoint is in the archive as p@1: versions are never reused"):
        await shelf.add(msgspec.structs.replace(manifest, step=99))


async def test_a_version_that_was_collected_is_named_with_those_that_are_there(shelf: Shelf) -> None:
    await shelf.chain(4)
    with pytest.raises(
        NoCheckpoint, match=r"p@9 is not in the archive memory:.*collected. Stored versions: 1, 2, 3, 4"
    ):
        await shelf.archive.materialise(9)


async def test_a_delta_whose_parent_is_gone_is_told(shelf: Shelf) -> None:
    await shelf.chain(3)
    await shelf.blobs.delete(shelf.archive.key(1))
    with pytest.raises(ParentGone, match="p@2 is a delta of version 1, which is not in the archive"):
        await shelf.elsewhere().materialise(3)


async def test_a_delta_of_another_parent_is_told(shelf: Shelf) -> None:
    await shelf.chain(2)
    record = await shelf.archive.record(1)
    other = msgspec.structs.replace(record, checkpoint=msgspec.structs.replace(record.checkpoint, step=77))
    await shelf.blobs.put(shelf.archive.key(1), other.encode())
    with pytest.raises(ParentGone, match="has another version 1"):
        await shelf.archive.materialise(2)


async def test_a_missing_blob_is_told_by_its_file(shelf: Shelf) -> None:
    await shelf.chain(1)
    await shelf.blobs.delete((await shelf.archive.record(1)).files[0].blob.key)
    with pytest.raises(MissingShard, match=r"model-0\.safetensors of p@1 is missing in the archive"):
        await shelf.archive.materialise(1)


@pytest.mark.parametrize("version", [1, 2])
async def test_a_damaged_blob_is_found(shelf: Shelf, version: int) -> None:
    await shelf.chain(2)
    key = (await shelf.archive.record(version)).files[0].blob.key
    await shelf.blobs.put(key, b"x" + (await shelf.blobs.read(key))[1:])
    elsewhere = shelf.elsewhere()
    with pytest.raises(WrongChecksum, match=rf"the blob of model-0\.safetensors of version {version} is damaged"):
        await elsewhere.materialise(2)
    assert 2 not in elsewhere.cache.versions("p")


async def test_who_has_the_parent_fetches_the_delta_alone(shelf: Shelf) -> None:
    (*_, last) = await shelf.chain(3)
    elsewhere = shelf.elsewhere()
    await elsewhere.materialise(2)
    before, delta = elsewhere.fetched_bytes, (await shelf.archive.record(3)).stored_bytes
    folder = await elsewhere.materialise(3)
    assert elsewhere.fetched_bytes - before == delta
    for entry in last.files:
        assert (folder / entry.name).read_bytes() == (shelf.local.path("p", 3) / entry.name).read_bytes()


async def test_a_damaged_copy_in_the_cache_is_read_again(shelf: Shelf) -> None:
    await shelf.chain(1)
    folder = await shelf.archive.materialise(1)
    (folder / "model-0.safetensors").write_bytes(b"damage")
    assert (await shelf.archive.materialise(1) / "model-0.safetensors").read_bytes() == shelf.file(1)


async def test_a_record_that_names_a_file_elsewhere_is_refused(shelf: Shelf) -> None:
    await shelf.chain(1)
    record = await shelf.archive.record(1)
    file = msgspec.structs.replace(record.files[0], name="../outside")
    await shelf.blobs.put(shelf.archive.key(1), msgspec.structs.replace(record, files=[file]).encode())
    with pytest.raises(BadCheckpoint, match=r"a file named '\.\./outside'"):
        await shelf.archive.materialise(1)


@pytest.mark.parametrize(("data", "message"), [(b"{", "cannot be read"), (b'{"v": 1}', "cannot be read")])
def test_a_damaged_record_is_told(data: bytes, message: str) -> None:
    with pytest.raises(BadCheckpoint, match=f"the record {message}"):
        decode_record(data, "the record")


async def test_a_record_of_a_newer_program_asks_for_an_upgrade(shelf: Shelf) -> None:
    await shelf.chain(1)
    newer = msgspec.structs.replace(await shelf.archive.record(1), v=2)
    with pytest.raises(BadCheckpoint, match="upgrade"):
        decode_record(newer.encode(), "it")


def without_norm(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {"matrix": tensors["matrix"]}


def poisoned(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    tensors["matrix"][3, 4] = math.nan
    return tensors


@pytest.mark.parametrize(
    ("change", "fields", "kind", "message"),
    [
        (dict, {"base": "elsewhere"}, OtherBase, "p@2 is of the base model elsewhere, p@1 of base"),
        (poisoned, {}, NotFinite, "tensor matrix has 1 values that are NaN or infinite"),
        (without_norm, {}, WrongShape, "tensor norm is missing in p@2"),
        (lambda t: {**t, "extra": t["norm"].clone()}, {}, WrongShape, "tensor extra of p@2 is in no other version"),
        (
            lambda t: {**t, "norm": t["norm"][:19].clone()},
            {},
            WrongShape,
            r"shape \[19\], in the other versions \[20\]",
        ),
        (dict, {"files": [FileEntry("gone.safetensors", 1, "0" * 64)]}, MissingShard, "gone.safetensors is missing"),
        (dict, {"files": [FileEntry("model-0.safetensors", 1, "0" * 64)]}, WrongChecksum, "its manifest says 1"),
    ],
)
@pytest.mark.parametrize("parent", [1, 7])
async def test_a_version_that_must_not_be_stored_is_refused_by_type_and_leaves_nothing(
    shelf: Shelf,
    change: object,
    fields: dict[str, object],
    kind: type[BadCheckpoint],
    message: str,
    parent: int,
) -> None:
    await shelf.chain(1)
    before = dict(shelf.blobs.values)
    bad = write_checkpoint(shelf.local, 2, parent, change(weights()), **fields)  # type: ignore[operator]
    with pytest.raises(kind, match=message):
        await shelf.add(bad)
    assert shelf.blobs.values == before
    assert list(shelf.archive.cache.root.glob(".packing-*")) == []


async def test_several_shards_may_be_cut_otherwise_than_the_parents(shelf: Shelf) -> None:
    tensors = weights()
    await shelf.add(write_checkpoint(shelf.local, 1, 0, tensors))
    child = stepped(tensors)
    cut = write_checkpoint(shelf.local, 2, 1, {"norm": child["norm"]}, {"matrix": child["matrix"]})
    assert await shelf.add(cut) == "delta"
    folder = await shelf.archive.materialise(2)
    for name in ("model-0.safetensors", "model-1.safetensors"):
        assert (folder / name).read_bytes() == (shelf.local.path("p", 2) / name).read_bytes()


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(writes=st.integers(0, 12), children=st.integers(1, 3))
def test_after_a_death_at_any_write_a_version_is_complete_or_absent_and_the_rest_can_be_collected(
    tmp_path_factory: pytest.TempPathFactory, writes: int, children: int
) -> None:
    asyncio.run(_die_and_look(Shelf(tmp_path_factory.mktemp("shelf")), writes, children))


async def _die_and_look(shelf: Shelf, writes: int, children: int) -> None:
    live, shelf.archive.blobs = shelf.archive.blobs, Dying(shelf.blobs, writes)
    with contextlib.suppress(Unavailable):
        await shelf.chain(children)
    shelf.archive.blobs = live
    for version in await shelf.archive.versions():
        folder = await shelf.archive.materialise(version)
        assert (folder / "model-0.safetensors").read_bytes() == shelf.file(version)
    await collect(shelf.archive, Retention(), (), now=2e9 + 1, grace_s=0)
    named = {file.blob.key for record in (await shelf.archive.records()).values() for file in record.files}
    assert {entry.key for entry in await shelf.blobs.entries("blobs/")} == named
    # What was cut off is simply done again
    for version in range(1, children + 1):
        if shelf.local.versions("p").count(version):
            await shelf.add(shelf.local.manifest("p", version))
            await shelf.archive.materialise(version)


async def test_a_pin_needs_a_version_and_can_be_taken_off(shelf: Shelf) -> None:
    await shelf.chain(1)
    await shelf.archive.pin(1, 5.0)
    assert await shelf.archive.pins() == {1}
    with pytest.raises(NoCheckpoint, match="p@2 is not in the archive"):
        await shelf.archive.pin(2, 5.0)
    await shelf.archive.unpin(1)
    await shelf.archive.unpin(1)
    assert await shelf.archive.pins() == set()


async def test_policies_share_a_store_without_mixing(shelf: Shelf, tmp_path: Path) -> None:
    (manifest,) = await shelf.chain(1)
    other = Archive(shelf.blobs, "q", tmp_path / "other")
    assert await other.versions() == []
    await other.add(msgspec.structs.replace(manifest, policy="q"), shelf.local.path("p", 1), 1.0)
    # The same bytes are stored once, and stay while one of the two names them
    await collect(shelf.archive, Retention(keep=0), (), now=9e9)
    assert await shelf.archive.versions() == []
    await other.materialise(1)
