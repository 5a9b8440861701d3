"""A replica as the service sees it, whatever engine runs it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from drivetrain.common.store.checkpoints import FileEntry


class EngineError(RuntimeError):
    """The replica did not answer or could not do its part; the message says which call. It is worth another try."""


class Refused(RuntimeError):
    """The replica looked at the checkpoint and did not load it; the message is the replica's own reason."""


@dataclass(frozen=True)
class Weights:
    """A full checkpoint to load: the folder as the replica sees it, and its files with checksums."""

    version: int
    folder: Path
    files: tuple[FileEntry, ...]


@dataclass(frozen=True)
class Serving:
    """What a replica says it serves. `version` is None while its label is not a number, as after a fresh start.
    `paused` outside of a load means that a load was cut off: its weights are not known."""

    version: int | None
    paused: bool


class Engine(Protocol):
    """One replica. Every method raises EngineError when the replica is away or fails."""

    name: str

    async def serving(self) -> Serving:
        """The version that the replica labels its tokens with."""

    async def label(self, version: int) -> None:
        """Label the tokens from now on with a version, without touching the weights."""

    async def load(self, weights: Weights) -> None:
        """Replace the weights between two tokens: running requests go on, none is cut, and from the first token
        under the new weights on nothing computed under the old ones is used.

        Raises:
            Refused: the checkpoint does not fit or is damaged; the replica serves on with what it had.
        """

    async def logprobs(self, token_ids: Sequence[int]) -> list[float]:
        """log p(token t | tokens < t) for t >= 1 under the weights that are served."""

    async def close(self) -> None:
        """Let go of connections."""
