"""Getting back to a version: restored from its checkpoint, or, where the optimiser was not stored with it, redone.

With `state_every` above 1 most checkpoints hold weights alone. The steps since the newest ancestor that holds all are
then done again, from the batches that the checkpoints name.
"""

import asyncio
from collections.abc import Callable

from drivetrain.common.telemetry.logs import get_logger
from drivetrain.trainer.batches.batches import samples_of
from drivetrain.trainer.batches.inbox import Inbox
from drivetrain.trainer.checkpoints.checkpoints import Checkpoints
from drivetrain.trainer.learning.learner import Step
from drivetrain.trainer.learning.studio import Studio
from drivetrain.trainer.lineage.lineage import Lineage

log = get_logger("trainer")


def to_redo(checkpoints: Checkpoints, lineage: Lineage, version: int) -> tuple[int, list[int]]:
    """The newest version at or before this one that can be resumed from, and those after it up to this one."""
    since: list[int] = []
    for ancestor in lineage.ancestry(version):
        if checkpoints.resumable(ancestor):
            return ancestor, since[::-1]
        since.append(ancestor)
    raise AssertionError("the base can be resumed from")


def needed(checkpoints: Checkpoints, lineage: Lineage) -> set[int]:
    """Versions that must stay: what serves, what awaits promotion, and what it takes to get back to them."""
    stay = set(lineage.awaiting())
    for version in (lineage.head, lineage.promoted):
        start, since = to_redo(checkpoints, lineage, version)
        stay |= {start, version, *since}
    return stay


class Resumer:
    """Brings model and optimiser to the head of a lineage. `stopping` ends it between two packs."""

    def __init__(self, checkpoints: Checkpoints, studio: Studio, inbox: Inbox, stopping: Callable[[], bool]) -> None:
        self._checkpoints = checkpoints
        self._studio = studio
        self._inbox = inbox
        self._stopping = stopping

    async def load(self, lineage: Lineage) -> Step | None:
        """Load the head. Where steps were redone the last of them is returned: what they made is not sure to be the
        head's weights to the last bit, so it needs a number of its own.

        Raises:
            BadCheckpoint, BadModel: a checkpoint cannot be loaded.
            Interrupted: the service stops.
        """
        start, since = to_redo(self._checkpoints, lineage, lineage.head)
        await asyncio.to_thread(self._restore, start)
        log.info("weights loaded", version=start, step=lineage.versions[start].step)
        if since and _failed_before(lineage):
            log.warning("not redone again", version=lineage.head, why="what was redone of it was rejected")
            await self._as_served(lineage)
            return None
        step = None
        for version in since:
            step = await self._redo(lineage, version)
            if step is None:
                log.warning("cannot be redone", version=version, why="its batch is not in the stream any more")
                await self._as_served(lineage)
                return None
        return step

    async def _redo(self, lineage: Lineage, version: int) -> Step | None:
        plan, parent = self._checkpoints.state(version).batch, lineage.versions[version].parent
        batch = await self._inbox.planned(plan) if plan else []
        if not batch:
            return None
        self._studio.learner.set_rate(self._studio.rate(lineage.versions[parent].step))
        step = await asyncio.to_thread(self._studio.learner.step, samples_of(batch), parent, self._stopping)
        log.info("step redone", version=version, step=lineage.versions[version].step)
        return step

    async def _as_served(self, lineage: Lineage) -> None:
        """The head's weights, with an optimiser that is some steps behind them."""
        await asyncio.to_thread(self._checkpoints.restore_weights, lineage.head, self._studio.model)

    def _restore(self, version: int) -> None:
        if version == 0:
            self._studio.back_to_base()
        else:
            self._checkpoints.restore(version, self._studio.model, self._studio.learner.optimizer)


def _failed_before(lineage: Lineage) -> bool:
    """Whether the head was redone already, and what came of it was rejected."""
    twins = (entry for entry in lineage.versions.values() if entry.parent == lineage.head)
    return any(entry.step == lineage.step and entry.fate == "rejected" for entry in twins)
