"""A replica as the service sees it, whatever engine runs it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from drivetrain.common.store.checkpoints import FileEntry


def adapter_name(policy: str, version: int) -> str:
    """What replicas call an adapter: unique for each version, so that none is ever replaced under a request."""
    return f"{policy}@{version}"


class EngineError(RuntimeError):
    """The replica did not answer or could not do its part; the message says which call. It is worth another try."""


class Refused(RuntimeError):
    """The replica looked at the checkpoint and did not load it; the message is the replica's own reason."""


@dataclass(frozen=True)
class Weights:
    """A checkpoint to load: the folder as the replica sees it, and its files with checksums. Where `archive` is a URL
    the replica reads the files there, as version `version` of `policy` whose manifest has the digest; `folder` is not
    looked at then. An adapter goes `over` a full version's weights."""

    version: int
    folder: Path
    files: tuple[FileEntry, ...]
    kind: Literal["full", "adapter"] = "full"
    over: int = 0
    policy: str = ""
    digest: str = ""
    archive: str = ""

    @property
    def name(self) -> str | None:
        """What a request calls the adapter by, as its `model`; None for full weights."""
        return adapter_name(self.policy, self.version) if self.kind == "adapter" else None


@dataclass(frozen=True)
class Staged:
    """A checkpoint that a replica has read and checked: `folder` as the replica sees it, and the bytes that came to it
    over the network."""

    folder: str
    fetched_bytes: int = 0


@dataclass(frozen=True)
class Serving:
    """What a replica says it serves. `version` is None while its label is not a number, as after a fresh start.
    `paused` outside of a load means that a load was cut off: its weights are not known. `adapters` are the names of
    those that requests can ask for."""

    version: int | None
    paused: bool
    adapters: frozenset[str] = frozenset()


class Engine(Protocol):
    """One replica, at `url`. Every method raises EngineError when the replica is away or fails."""

    name: str
    url: str

    async def serving(self) -> Serving:
        """The version that the replica labels its tokens with."""

    async def label(self, version: int) -> None:
        """Label the tokens from now on with a version, without touching the weights."""

    async def stage(self, weights: Weights) -> Staged:
        """Read and check a checkpoint beside the running requests, so that loading it takes a moment.

        Raises:
            Refused: the checkpoint does not fit or is damaged.
        """

    async def load(self, weights: Weights) -> None:
        """Full weights take the place of the old ones between two tokens: running requests go on, none is cut, and
        from the first token under the new weights on nothing computed under the old ones is used. An adapter is loaded
        beside the others, under its own name. What was not staged is staged first.

        Raises:
            Refused: the checkpoint does not fit or is damaged; the replica serves on with what it had.
        """

    async def unload(self, adapter: str) -> None:
        """Let go of an adapter: no new request can ask for it. One that is not there is no error."""

    async def busy(self) -> frozenset[str]:
        """The adapters that running or waiting requests use."""

    async def logprobs(self, token_ids: Sequence[int], adapter: str | None = None) -> list[float]:
        """log p(token t | tokens < t) for t >= 1 under the weights that are served, or under an adapter."""

    async def close(self) -> None:
        """Let go of connections."""
