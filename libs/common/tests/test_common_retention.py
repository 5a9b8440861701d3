"""Retention: what is used, pinned or needed always stays; over random histories, also when a collection is cut off."""

import asyncio
import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drivetrain.common.store.archive import Archive
from drivetrain.common.store.checkpoints import FileEntry, Manifest, Probe
from drivetrain.common.store.collecting import collect
from drivetrain.common.store.errors import Unavailable
from drivetrain.common.store.records import Blob, Kind, Record, StoredFile
from drivetrain.common.store.retention import Kept, Retention, chain, collectable
from tests.stores import Dying, MemoryBlobs


def line(*needs: int | None, every_s: float = 10.0) -> dict[int, Kept]:
    """Versions 1, 2, ... with what each needs, stored one after the other."""
    return {version: Kept(version * every_s, need) for version, need in enumerate(needs, 1)}


@pytest.mark.parametrize(
    ("needs", "rule", "used", "gone"),
    [
        ((None, None, None), Retention(), (), []),
        ((None, None, None), Retention(keep=2), (), [1]),
        ((None, None, None), Retention(keep=0), (), [3, 2, 1]),
        ((None, None, None), Retention(keep=1), (1,), [2]),
        # 3 needs 2, which needs 1
        ((None, 1, 2, None), Retention(keep=2), (), []),
        ((None, 1, 2, None), Retention(keep=1), (), [3, 2, 1]),
        ((None, 1, 2, None), Retention(keep=1), (2,), [3]),
        # At 35, versions of 10, 20 and 30 are 25, 15 and 5 old
        ((None, None, None), Retention(max_age_s=15), (), [1]),
        ((None, None, None), Retention(keep=1, max_age_s=100), (), [2, 1]),
        ((None, None, None), Retention(max_age_s=1), (2,), [3, 1]),
        # What is used may be unknown here, as the base model is
        ((None,), Retention(keep=0), (0, 7), [1]),
    ],
)
def test_what_may_go(needs: tuple[int | None, ...], rule: Retention, used: tuple[int, ...], gone: list[int]) -> None:
    assert collectable(line(*needs), rule, used, 35.0) == gone


def test_a_chain_ends_where_something_is_missing() -> None:
    assert list(chain({3: Kept(0, 2), 2: Kept(0, 1)}, 3)) == [3, 2]


def record(version: int, needs: int | None, at: float) -> Record:
    manifest = Manifest(
        policy="p",
        version=version,
        parent=needs or 0,
        base="base",
        dtype="float32",
        step=version,
        files=[FileEntry("f", 1, "0")],
        probe=Probe([1], []),
        created_at=at,
    )
    # Every third version has the bytes of an earlier one
    blob = Blob(f"{version % 3 or version:064x}", 1)
    files = [StoredFile("f", False, blob)]
    kind: Kind = "full" if needs is None else "delta"
    return Record(kind=kind, checkpoint=manifest, files=files, tensors={}, stored_at=at)


History = list[tuple[bool, bool, bool]]
"""For each version in turn: whether it is a delta of the one before, whether it is pinned, whether it is in use."""


@settings(max_examples=150, deadline=None)
@given(
    history=st.lists(st.tuples(st.booleans(), st.booleans(), st.booleans()), max_size=10),
    keep=st.none() | st.integers(0, 5),
    age=st.none() | st.floats(0, 120),
    writes=st.integers(0, 25),
)
def test_over_any_history_nothing_that_is_used_pinned_or_needed_goes(
    history: History, keep: int | None, age: float | None, writes: int
) -> None:
    asyncio.run(_collect_and_look(history, Retention(keep, age), writes))


async def _collect_and_look(history: History, rule: Retention, writes: int) -> None:
    blobs = MemoryBlobs(lambda: 0.0)
    archive = Archive(blobs, "p", None)  # type: ignore[arg-type]
    for version, (delta, pinned, _) in enumerate(history, 1):
        made = record(version, version - 1 if delta and version > 1 else None, version * 10.0)
        await blobs.put(made.files[0].blob.key, b"x")
        await blobs.put(archive.key(version), made.encode())
        if pinned:
            await archive.pin(version, 0.0)
    used = [version for version, (_, _, in_use) in enumerate(history, 1) if in_use]
    archive.blobs = Dying(blobs, writes)
    with contextlib.suppress(Unavailable):
        await collect(archive, rule, used, now=100.0)
    await _whole(archive, blobs)
    archive.blobs = blobs
    await collect(archive, rule, used, now=100.0)
    left = await _whole(archive, blobs)
    versions = range(1, len(history) + 1)
    newest = versions if rule.keep is None else versions[max(0, len(versions) - rule.keep) :]
    wanted = {version for version in newest if rule.max_age_s is None or 100 - version * 10 <= rule.max_age_s}
    must_stay = wanted.union(used, (version for version in versions if history[version - 1][1]))
    assert must_stay <= set(left)
    # And nothing stays for no reason
    assert set(left) <= must_stay | {made.needs for made in left.values()}


async def _whole(archive: Archive, blobs: MemoryBlobs) -> dict[int, Record]:
    """Every version that is there has its blobs and what it needs."""
    left = await archive.records()
    for made in left.values():
        assert made.files[0].blob.key in blobs.values
        assert made.needs is None or made.needs in left
    return left


async def test_a_young_blob_without_a_record_stays_for_an_upload_in_progress() -> None:
    blobs = MemoryBlobs(lambda: 1000.0)
    archive = Archive(blobs, "p", None)  # type: ignore[arg-type]
    await blobs.put("blobs/ab/abc", b"half an upload")
    assert (await collect(archive, Retention(), (), now=1000.0 + 3600)).blobs == 0
    removed = await collect(archive, Retention(), (), now=1000.0 + 25 * 3600)
    assert (removed.versions, removed.blobs, removed.bytes) == ([], 1, 14)
    assert blobs.values == {}


async def test_a_dry_run_says_what_would_go_and_removes_nothing() -> None:
    blobs = MemoryBlobs(lambda: 0.0)
    archive = Archive(blobs, "p", None)  # type: ignore[arg-type]
    for version in (1, 2, 4):
        made = record(version, None, 0.0)
        await blobs.put(made.files[0].blob.key, b"x")
        await blobs.put(archive.key(version), made.encode())
    before = dict(blobs.values)
    would = await collect(archive, Retention(keep=1), (), now=1.0, dry_run=True)
    assert blobs.values == before
    # 4 has the bytes of 1, which therefore stay
    assert (would.versions, would.blobs) == ([2, 1], 1)
    assert await collect(archive, Retention(keep=1), (), now=1.0) == would
    assert await archive.versions() == [4]
