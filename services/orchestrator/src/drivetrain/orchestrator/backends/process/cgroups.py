"""Control groups, version 1 or 2: limits for all processes of a sandbox together, and a sure way to end them all.

The files are the kernel's: Documentation/admin-guide/cgroup-v1 (memory, pids, sched-bwc) and cgroup-v2.
"""

import os
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from drivetrain.orchestrator.backends.base import BackendError, Limit
from drivetrain.orchestrator.backends.process.limits import MIB, Limits

ROOT = Path("/sys/fs/cgroup")
NEEDED = ("memory", "pids")
WANTED = (*NEEDED, "cpu")
PERIOD_US = 100_000
VANISH_S = 5.0


@dataclass(frozen=True)
class Group:
    """One sandbox's group: a folder for each controller, or one for all of them."""

    version: int
    folders: Mapping[str, Path]

    @property
    def paths(self) -> tuple[Path, ...]:
        """Its folders, each once: a process enters all of them."""
        return tuple(dict.fromkeys(self.folders.values()))

    def pids(self) -> set[int]:
        """The processes in it."""
        found: set[int] = set()
        for folder in self.paths:
            with suppress(FileNotFoundError):
                found |= {int(line) for line in (folder / "cgroup.procs").read_text().split()}
        return found

    def kill(self) -> int:
        """SIGKILL everything in it, until nothing is left; returns how many processes were hit.

        Raises:
            BackendError: some are still there after a while.
        """
        deadline, hit = time.monotonic() + VANISH_S, set[int]()
        while found := self.pids():
            hit |= found
            for pid in found:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if time.monotonic() > deadline:
                raise BackendError(f"processes {sorted(found)} outlived SIGKILL for {VANISH_S:g} s")
            time.sleep(0.002)
        return len(hit)

    def hits(self) -> dict[Limit, int]:
        """How often each limit was hit so far."""
        memory, pids = self.folders["memory"], self.folders["pids"]
        control = "memory.oom_control" if self.version == 1 else "memory.events"
        return {
            "memory": _counter(memory / control, "oom_kill"),
            "processes": _counter(pids / "pids.events", "max"),
        }

    def remove(self) -> None:
        """Remove the group; what still runs in it is killed first."""
        self.kill()
        for folder in self.paths:
            _remove(folder)


@dataclass(frozen=True)
class Cgroups:
    """Where groups are made: one folder for each controller. `prefix` tells this orchestrator's groups from others'."""

    version: int
    folders: Mapping[str, Path]
    prefix: str

    def create(self, name: str, limits: Limits) -> Group:
        """The group of a sandbox; one that exists is used.

        Raises:
            BackendError: the kernel refuses.
        """
        group = self._group(f"{self.prefix}{name}")
        try:
            for folder in group.paths:
                folder.mkdir(exist_ok=True)
            for controller, file, value in _settings(self.version, limits):
                if controller in group.folders and (path := group.folders[controller] / file).exists():
                    path.write_text(value)
        except OSError as error:
            raise BackendError(f"no control group for {name}: {error}") from error
        return group

    def left(self) -> list[tuple[str, Group]]:
        """The groups that are there, by the names of their sandboxes."""
        found = [entry.name for entry in self.folders["pids"].iterdir() if entry.name.startswith(self.prefix)]
        return [(name.removeprefix(self.prefix), self._group(name)) for name in found]

    def _group(self, name: str) -> Group:
        return Group(self.version, {controller: folder / name for controller, folder in self.folders.items()})


def detect(parent: str, prefix: str, root: Path = ROOT) -> Cgroups | None:
    """The control groups of this machine, below `parent` in each hierarchy; None where there are none, or none that
    this user may make."""
    for version in (2, 1):
        folders = _v2(root, parent) if version == 2 else _v1(root, parent)
        if folders is not None and all(os.access(folder, os.W_OK) for folder in folders.values()):
            return Cgroups(version, folders, prefix)
    return None


def _v2(root: Path, parent: str) -> dict[str, Path] | None:
    folder = root / parent
    try:
        known = (root / "cgroup.controllers").read_text().split()
        if not set(NEEDED) <= set(known):
            return None
        wanted = [controller for controller in WANTED if controller in known]
        folder.mkdir(parents=True, exist_ok=True)
        for above in (*reversed([path for path in folder.parents if path.is_relative_to(root)]), folder):
            (above / "cgroup.subtree_control").write_text(" ".join(f"+{controller}" for controller in wanted))
    except OSError:
        return None
    return dict.fromkeys(wanted, folder)


def _v1(root: Path, parent: str) -> dict[str, Path] | None:
    mounted = [controller for controller in WANTED if (root / controller / "cgroup.procs").exists()]
    if not set(NEEDED) <= set(mounted):
        return None
    folders = {controller: (root / controller).resolve() / parent for controller in mounted}
    try:
        for folder in folders.values():
            folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return folders


def _settings(version: int, limits: Limits) -> list[tuple[str, str, str]]:
    memory, quota = str(limits.memory_mb * MIB), int((limits.cpus or 0) * PERIOD_US)
    if version == 2:
        found = [("memory", "memory.max", memory), ("memory", "memory.swap.max", "0")]
        cpu = [("cpu", "cpu.max", f"{quota} {PERIOD_US}")]
    else:
        found = [("memory", "memory.limit_in_bytes", memory), ("memory", "memory.memsw.limit_in_bytes", memory)]
        cpu = [("cpu", "cpu.cfs_period_us", str(PERIOD_US)), ("cpu", "cpu.cfs_quota_us", str(quota))]
    return [*found, ("pids", "pids.max", str(limits.processes)), *(cpu if limits.cpus else [])]


def _counter(path: Path, name: str) -> int:
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.split()[0] == name), 0)


def _remove(folder: Path) -> None:
    """A group is busy for a moment after its last process ended."""
    deadline = time.monotonic() + VANISH_S
    while True:
        try:
            return folder.rmdir()
        except FileNotFoundError:
            return None
        except OSError as error:
            if time.monotonic() > deadline:
                raise BackendError(f"the control group {folder} cannot be removed: {error}") from error
            time.sleep(0.005)
