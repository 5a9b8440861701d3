"""What the archive and the bus say of a policy's versions, and the request to go back to one."""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from drivetrain.cli.errors import CliError
from drivetrain.cli.paths import data_dir
from drivetrain.common.bus.base import Bus
from drivetrain.common.events import DeadLetter, WeightsRollback
from drivetrain.common.store.archive import Archive
from drivetrain.common.store.blobs import open_blobs
from drivetrain.common.store.errors import BadCheckpoint, StoreError
from drivetrain.common.store.lives import Lives
from drivetrain.common.store.records import Record

POLL_S = 0.2
TIMEOUT_S = 20.0


class Row(msgspec.Struct, frozen=True):
    """One archived version. `state` is None where the bus does not know it any more."""

    version: int
    state: str | None
    kind: str
    parent: int
    step: int
    stored_bytes: int
    full_bytes: int
    stored_at: float
    pinned: bool
    reason: str


class Difference(msgspec.Struct, frozen=True):
    """What distinguishes two versions: tensors by name, bytes of the changed ones, and the trainer's metrics."""

    first: int
    second: int
    steps: int
    same: int
    changed: list[str]
    changed_bytes: int
    only_first: list[str]
    only_second: list[str]
    metrics: dict[str, tuple[float | None, float | None]]


class Back(msgspec.Struct, frozen=True):
    """A rollback that was decided: the version that serves again, and those that were withdrawn for it."""

    policy: str
    version: int
    withdrawn: list[int]


@asynccontextmanager
async def open_archive(url: str | None, policy: str) -> AsyncIterator[Archive]:
    """The archive of a policy at a URL.

    Raises:
        CliError: no URL, one that names no store, or what went wrong in the store or with a version.
    """
    if url is None:
        raise CliError(
            "name the archive: --archive URL or DRIVETRAIN_WEIGHTS_ARCHIVE__URL, as the weights service has it",
            status=2,
        )
    try:
        blobs = open_blobs(url, TIMEOUT_S)
    except ValueError as error:
        raise CliError(str(error), status=2) from error
    try:
        yield Archive(blobs, policy, data_dir() / "archive")
    except (BadCheckpoint, StoreError) as error:
        raise CliError(str(error)) from error
    finally:
        await blobs.close()


async def rows(archive: Archive, lives: Lives) -> list[Row]:
    """All archived versions, newest last."""
    pins = await archive.pins()
    return [row(record, lives, version in pins) for version, record in (await archive.records()).items()]


def row(record: Record, lives: Lives, pinned: bool) -> Row:
    """What a list says of a version."""
    checkpoint = record.checkpoint
    life = lives.versions.get(checkpoint.version)
    serves = checkpoint.version == lives.promoted
    return Row(
        version=checkpoint.version,
        state="serves" if serves else str(life.state) if life else None,
        kind=record.kind,
        parent=checkpoint.parent,
        step=checkpoint.step,
        stored_bytes=record.stored_bytes,
        full_bytes=record.full_bytes,
        stored_at=record.stored_at,
        pinned=pinned,
        reason=life.reason if life else "",
    )


def difference(first: Record, second: Record) -> Difference:
    """What changed from one version to another, by the checksums of their tensors."""
    old, new = first.tensors, second.tensors
    both = sorted(old.keys() & new.keys())
    changed = [name for name in both if old[name] != new[name]]
    metrics = first.checkpoint.metrics.keys() | second.checkpoint.metrics.keys()
    return Difference(
        first=first.checkpoint.version,
        second=second.checkpoint.version,
        steps=second.checkpoint.step - first.checkpoint.step,
        same=len(both) - len(changed),
        changed=changed,
        changed_bytes=sum(new[name].size for name in changed),
        only_first=sorted(old.keys() - new.keys()),
        only_second=sorted(new.keys() - old.keys()),
        metrics={
            name: (first.checkpoint.metrics.get(name), second.checkpoint.metrics.get(name)) for name in sorted(metrics)
        },
    )


async def roll_back(bus: Bus, lives: Lives, policy: str, to: int, reason: str, timeout_s: float) -> Back:
    """Ask the weights service to serve a version again, and wait until it has decided.

    Raises:
        CliError: it refused, with its reason; it did not answer in time; or that version serves already.
    """
    if lives.promoted == to:
        raise CliError(f"{policy}@{to} serves already")
    withdrawn = descendants(lives, to)
    request = WeightsRollback(policy=policy, version=to, id=uuid.uuid4().hex, reason=reason, at=time.time())
    await bus.publish(request)
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        letter = await bus.get("DEAD", f"dead.WEIGHTS.weights-{policy}-rollback")
        if letter and isinstance(letter.event, DeadLetter) and letter.event.subject_of == request.subject():
            raise CliError(f"the weights service refused: {letter.event.reason}")
        # They are published newest first: once the last one is there, all are
        if withdrawn and await bus.get("WEIGHTS", f"weights.rolledback.{policy}.{withdrawn[-1]}"):
            return Back(policy, to, withdrawn)
        await asyncio.sleep(POLL_S)
    raise CliError(
        f"the weights service has not decided within {timeout_s:g} s: does it run for {policy}? The request stays on "
        "the bus, and will be acted on"
    )


def descendants(lives: Lives, ancestor: int) -> list[int]:
    """The promoted version and its parents down to `ancestor`, without it; empty if that is no ancestor."""
    line = [lives.promoted]
    while line[-1] != ancestor:
        life = lives.versions.get(line[-1])
        if life is None or life.parent is None:
            return []
        line.append(life.parent)
    return line[:-1]
