"""Options that belong to some names only: given with another one, they are an error that says where they belong."""

from collections.abc import Collection


def foreign(option: str, kind: str, chosen: str, owners: Collection[str]) -> None:
    """Refuse an option that the chosen name does not read.

    Raises:
        ValueError: `chosen` is not among the owners; the message names the option and those that have it.
    """
    if chosen not in owners:
        raise ValueError(f"{option} does not apply to {kind} {chosen!r}: remove it, or choose {' or '.join(owners)}")
