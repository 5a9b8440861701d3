"""What becomes of a version, from the weights service's events to the lineage."""

from drivetrain.common.events import Event, WeightsHeld, WeightsPromoted, WeightsRolledback
from drivetrain.trainer.lineage.lineage import Lineage


class Unfollowable(ValueError):
    """An event that says nothing this lineage can follow; it belongs with the dead letters."""


def follow(lineage: Lineage, event: Event) -> Lineage:
    """The lineage after a version was promoted, held or rolled back. A version that the store does not know only
    reserves its number.

    Raises:
        Unfollowable: another kind of event, or a rollback to a version that the store does not know.
    """
    if not isinstance(event, WeightsPromoted | WeightsHeld | WeightsRolledback):
        raise Unfollowable(f"the trainer follows promoted, held and rolledback, not {type(event).__name__}")
    known = lineage.versions.get(event.version)
    if known is None:
        return lineage.reserve(event.version)
    if isinstance(event, WeightsPromoted):
        return lineage.promote(event.version)
    if isinstance(event, WeightsRolledback):
        if event.to not in lineage.versions:
            raise Unfollowable(f"rolled back to version {event.to}, which this store does not know")
        return lineage.reject(event.version, event.to)
    return lineage.reject(event.version, lineage.promoted) if known.fate == "candidate" else lineage
