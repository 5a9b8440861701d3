"""What a supervised process is, as data, and what is said about it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from drivetrain.cli.errors import CliError
from drivetrain.cli.supervisor.health import Check

EventKind = Literal["starting", "ready", "crashed", "restarting", "gave_up", "stopping", "stopped"]

BAD_SETTINGS = 2
"""The exit status by which a service says that its settings are wrong: starting it again cannot help."""


@dataclass(frozen=True)
class ProcessSpec:
    """One process: it starts once every process in `needs` is ready, and stops before them. It stops before those in
    `outlived_by` too, but starts without waiting for them.

    It has `ready_s` seconds to pass its check, and `grace_s` seconds to end after SIGTERM.
    """

    name: str
    command: tuple[str, ...]
    check: Check
    env: Mapping[str, str] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    outlived_by: tuple[str, ...] = ()
    ready_s: float = 60.0
    grace_s: float = 5.0


@dataclass(frozen=True)
class ProcessEvent:
    """Something happened to a process. `seconds` counts from its start (or from the wish to stop it)."""

    process: str
    kind: EventKind
    message: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class ProcessState:
    """How a process stands now."""

    pid: int | None
    state: EventKind | Literal["waiting"]
    restarts: int
    log: Path


class ProcessFailed(CliError):
    """A process was given up; the message holds the last lines of its log."""


@dataclass(frozen=True)
class Restarts:
    """At most `limit` restarts of a process within `window_s` seconds, after delays that double from `first_s`."""

    limit: int = 3
    window_s: float = 300.0
    first_s: float = 0.5

    def delay(self, crashes: list[float], now: float) -> float | None:
        """Seconds to wait before the next start, None to give up; `crashes` holds the times of all crashes so far,
        the present one included."""
        recent = sum(1 for at in crashes if now - at < self.window_s)
        return None if recent > self.limit else self.first_s * 2.0 ** (recent - 1)
