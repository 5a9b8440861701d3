"""Keeping a replica at the promoted version: after a restart, a lost connection, or a load that was cut off."""

from contextlib import AbstractAsyncContextManager

from drivetrain.common.store.errors import BadCheckpoint, NoSpace, StoreError
from drivetrain.weights.engines.base import EngineError
from drivetrain.weights.replica import Replica
from drivetrain.weights.rollout import Outcome, Proved
from drivetrain.weights.source import Source


async def bring_up_to_date(
    replica: Replica, promoted: int, source: Source, turn: AbstractAsyncContextManager[object]
) -> Outcome | None:
    """Look at what a replica serves and load the promoted version where that differs, when it is this one's `turn`.

    A fresh replica has no label. While nothing is promoted it serves what it should, the base model, and its tokens are
    labelled 0; otherwise it stays out of rotation until it has the promoted version. A replica that is still paused was
    left in the middle of a load, so its weights are loaded anew whatever its label says; and a label that no probe has
    confirmed yet, as after a restart of this service, is confirmed first.

    Returns: None when nothing was loaded.
    """
    try:
        serving = await replica.look()
        if promoted == 0 and not serving.paused and serving.version in (None, 0):
            await replica.trust_base()
        if replica.knows(promoted, source.policy):
            replica.mark(up=True)
            return None
        if not replica.due():
            return None
        target = await source.target(promoted)
        if target.shown_by(serving) and isinstance(confirmed := await replica.prove(target), Proved):
            replica.note(confirmed)
            return None
    except (EngineError, BadCheckpoint, StoreError, NoSpace) as error:
        replica.mark(up=False, why=str(error))
        return None
    async with turn:
        outcome = await replica.bring(target, attempts=1)
    replica.note(outcome)
    return outcome
