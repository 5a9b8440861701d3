"""Keeping a replica at the promoted version: after a restart, a lost connection, or a load that was cut off."""

from drivetrain.common.store.errors import BadCheckpoint, NoSpace, StoreError
from drivetrain.weights import metrics
from drivetrain.weights.engines.base import EngineError, Serving
from drivetrain.weights.replica import Replica
from drivetrain.weights.rollout import Outcome, Proved
from drivetrain.weights.source import Source


async def bring_up_to_date(replica: Replica, promoted: int, source: Source) -> Outcome | None:
    """Look at what a replica serves and load the promoted version where that differs.

    A fresh replica has no version: it serves the base model, so its tokens are labelled 0 at once. A replica that is
    still paused was left in the middle of a load, so its weights are loaded anew whatever its label says; and a label
    that no probe has confirmed yet, as after a restart of this service, is confirmed first.

    Returns: None when nothing was loaded.
    """
    try:
        serving = await _look(replica)
        current = serving == Serving(promoted, paused=False)
        if current and replica.proved:
            replica.mark(up=True)
            return None
        if not replica.due():
            return None
        if current and promoted == 0:
            replica.note(await replica.prove(0, None))
            return None
        weights, probe = await source.served(promoted)
        if current and isinstance(confirmed := await replica.prove(promoted, probe), Proved):
            replica.note(confirmed)
            return None
    except (EngineError, BadCheckpoint, StoreError, NoSpace) as error:
        replica.mark(up=False, why=str(error))
        return None
    outcome = await replica.bring(weights, probe, attempts=1)
    replica.note(outcome)
    return outcome


async def _look(replica: Replica) -> Serving:
    serving = await replica.engine.serving()
    if serving.version is None and not serving.paused:
        await replica.engine.label(0)
        serving = Serving(0, paused=False)
    metrics.SERVED.labels(replica.name).set(-1 if serving.version is None else serving.version)
    return serving
