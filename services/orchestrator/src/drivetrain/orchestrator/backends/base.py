"""The lease interface: a sandbox that is started, used and stopped, wherever it runs.

Every operation may be repeated without harm. A lease has one folder for each of `PLACES`; paths inside a lease are
relative and begin with a place: `work/answer.txt`. Where they lie for a command says `Lease.places`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from signal import NSIG
from typing import Literal, Protocol

from drivetrain.common.tasks import Resources

PLACES = {
    "work": "WORK_DIR",
    "home": "HOME",
    "tmp": "TMPDIR",
    "tests": "TEST_DIR",
    "logs": "LOGS_DIR",
    "solution": "SOLUTION_DIR",
    "service": "SERVICE_DIR",
}
"""A lease's folders, and the environment variable in which a command finds each: the work folder, where it starts; its
home; files of no interest later; the tests, while grading; what the verifier writes; the reference solution, while a
task is checked; the files of the task's service."""

Limit = Literal["memory", "processes", "disk"]


class BackendError(RuntimeError):
    """The backend could not do its part: this is nobody's outcome. The message says what to look at."""


class CannotExec(RuntimeError):
    """The command could not be started: the program is not there, or the system refused its arguments."""


@dataclass(frozen=True)
class Access:
    """The proxy, as the machine that runs the sandbox reaches it, and the key of this rollout's attempt."""

    url: str
    key: str


@dataclass(frozen=True)
class Sandbox:
    """What is asked of a sandbox. `name` is of letters, digits, '.', '_' and '-', and unique: a second start under it
    meets the first one's sandbox. Without `access` it has no network, where the backend can do that; `seeded`: its
    work folder begins with what the image holds there; `lifetime_s` is when it ends, whoever forgot it."""

    name: str
    workdir: str = "/app"
    image: str | None = None
    resources: Resources = field(default_factory=Resources)
    access: Access | None = None
    seeded: bool = True
    lifetime_s: float = 86_400.0
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Command:
    """A command line with the whole environment it is to see, beside what the lease itself adds. With an `id` it runs
    once in a lease: whoever asks again gets the same end, also in a later life of the orchestrator."""

    argv: tuple[str, ...]
    timeout_s: float
    environment: Mapping[str, str] = field(default_factory=dict)
    id: str | None = None


@dataclass(frozen=True)
class Exit:
    """How a command ended: its exit status (negative: the signal that killed it), whether time ran out, and the limits
    of the sandbox that it ran into."""

    status: int
    timed_out: bool
    seconds: float
    limits: tuple[Limit, ...] = ()

    @property
    def signal(self) -> int | None:
        """The signal that killed the command or, as shells tell it by 128 and more, the last that it waited for."""
        if self.status < 0:
            return -self.status
        return self.status - 128 if 128 < self.status < 128 + NSIG else None


class Lease(Protocol):
    """One sandbox. `places` are absolute paths as the command inside sees them, `proxy_url` is where it reaches the
    proxy."""

    places: Mapping[str, str]
    proxy_url: str

    async def exec(self, command: Command) -> Exit:
        """Run a command in the work folder to its end, or to its timeout. When this returns or raises, no process
        that it started is left.

        Raises:
            CannotExec: nothing was started.
            BackendError: the sandbox failed.
        """

    async def began(self, id: str) -> bool:  # noqa: A002 - it is the command's
        """Whether a command of that id was begun, in this life or an earlier one."""

    async def upload(self, tree: Path, to: str) -> None:
        """Copy a local folder's content over a folder of the lease."""

    async def download(self, path: str, to: Path) -> bool:
        """Copy a file or a folder of the lease to a local path; False when it is not there. Links are copied as
        links, never followed.

        Raises:
            TooMuch: it is too large, in bytes, files or depth.
        """

    async def read(self, path: str, limit: int) -> bytes | None:
        """The first `limit` bytes of a file of the lease; None when there is no regular file. No link is followed."""

    async def logs(self, limit: int) -> str:
        """The last `limit` characters of what the commands printed."""

    async def stop(self) -> None:
        """End what runs in the sandbox and remove it."""


class Backend(Protocol):
    """A maker of sandboxes. `fixed_places`: they have /tests, /logs and so on where Harbor's containers have them.
    `outlives`: a sandbox goes on when the orchestrator dies, and its next life may start it again to find it."""

    @property
    def fixed_places(self) -> bool: ...

    @property
    def outlives(self) -> bool: ...

    def lacks(self, needs: Sequence[str]) -> Sequence[str]:
        """Which of the things that only a container gives are not to be had."""

    def refuses(self, sandbox: Sandbox) -> str:
        """Why this backend cannot give such a sandbox; empty if it can."""

    async def start(self, sandbox: Sandbox) -> Lease:
        """A sandbox of that name; one that exists already is adopted. Its work folder lies at `workdir`, where places
        are fixed.

        Raises:
            BackendError: there is none to be had.
        """

    async def close(self) -> None:
        """Let go of the backend; sandboxes that outlive us go on."""

    async def reap(self, keep: frozenset[str] = frozenset()) -> int:
        """Remove every sandbox whose name is not among those to keep, and end what runs there: an earlier life left
        them. Returns how many processes or pods that ended."""
