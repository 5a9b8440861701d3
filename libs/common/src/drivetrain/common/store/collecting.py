"""Removing from an archive what its rule does not keep, and what interrupted uploads left."""

from collections.abc import Collection

import msgspec

from drivetrain.common.store.archive import Archive
from drivetrain.common.store.blobs import Entry
from drivetrain.common.store.records import Record, decode_record
from drivetrain.common.store.retention import Kept, Retention, collectable

GRACE_S = 24 * 3600.0
"""A blob without a record that is younger may belong to an upload in progress."""


class Removed(msgspec.Struct, frozen=True):
    """What was removed, or would be: versions, newest first, and the bytes of blobs that only they had."""

    versions: list[int]
    blobs: int
    bytes: int


async def collect(
    archive: Archive,
    rule: Retention,
    used: Collection[int],
    now: float,
    dry_run: bool = False,
    grace_s: float = GRACE_S,
) -> Removed:
    """Remove versions by the rule, then blobs that no record names. `used` versions stay, and so do pinned ones and
    all that a kept one needs. Cut off at any point, it leaves every remaining version readable.

    Raises:
        StoreError: the store failed; what is left is complete.
    """
    records = await archive.records()
    kept = {version: Kept(record.stored_at, record.needs) for version, record in records.items()}
    doomed = collectable(kept, rule, {*used, *await archive.pins()}, now)
    if not dry_run:
        for version in doomed:
            await archive.blobs.delete(archive.key(version))
    garbage = await _garbage(archive, {version: records[version] for version in doomed}, now - grace_s)
    if not dry_run:
        for entry in garbage:
            await archive.blobs.delete(entry.key)
    return Removed(doomed, len(garbage), sum(entry.size for entry in garbage))


async def _garbage(archive: Archive, doomed: dict[int, Record], before: float) -> list[Entry]:
    """Blobs that no record of any policy names, except the doomed ones: theirs, and those put before a time."""
    stored = await archive.blobs.entries("blobs/")
    gone = {archive.key(version) for version in doomed}
    named: set[str] = set()
    for entry in await archive.blobs.entries("versions/"):
        if entry.key not in gone:
            named |= _blobs(decode_record(await archive.blobs.read(entry.key), entry.key))
    theirs = {key for record in doomed.values() for key in _blobs(record)}
    return [entry for entry in stored if entry.key not in named and (entry.key in theirs or entry.at < before)]


def _blobs(record: Record) -> set[str]:
    return {file.blob.key for file in record.files}
