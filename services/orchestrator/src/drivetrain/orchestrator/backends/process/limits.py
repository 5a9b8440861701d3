"""What a sandbox may use of this machine, and by what means that holds here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from drivetrain.common.tasks import Resources

MIB = 1024**2


@dataclass(frozen=True)
class Limits:
    """Ceilings for one sandbox. `cpus` of None are all there are; `files` counts files and folders."""

    memory_mb: int = 4096
    processes: int = 512
    disk_mb: int = 2048
    files: int = 200_000
    cpus: float | None = None

    def refuses(self, asked: Resources) -> str:
        """Why a task's wishes cannot be met; empty if they can."""
        wishes = (
            ("memory_mb", asked.memory_mb, self.memory_mb),
            ("storage_mb", asked.storage_mb, self.disk_mb),
            ("cpus", asked.cpus, self.cpus),
        )
        for name, wish, ceiling in wishes:
            if wish is not None and ceiling is not None and wish > ceiling:
                return f"it asks for {name} = {wish:g}, and a sandbox may have {ceiling:g}: raise it in `limits`"
        return ""

    def within(self, asked: Resources) -> "Limits":
        """The limits of a sandbox for a task: what it asks for, or what there is."""
        return Limits(
            asked.memory_mb or self.memory_mb,
            self.processes,
            asked.storage_mb or self.disk_mb,
            self.files,
            asked.cpus or self.cpus,
        )


def by_rlimits(limits: Limits, cgroups: bool, already: int = 0) -> Sequence[str]:
    """The beginning of a command line under the kernel's limits for each process: no file larger than the disk, no
    core dumps. Without cgroups also memory, for each process, and processes, those of the user taken together:
    `already` are there."""
    argv = ["prlimit", "--core=0", f"--fsize={limits.disk_mb * MIB}"]
    if not cgroups:
        argv += [f"--data={limits.memory_mb * MIB}", f"--nproc={limits.processes + already}"]
    return [*argv, "--"]


def means(confined: bool, closed: bool, cgroups: int | None, user: int) -> Mapping[str, str]:
    """By what each limit holds; for the log at the start. `cgroups` is their version."""
    groups = f"cgroup v{cgroups}" if cgroups else None
    return {
        "files": "bubblewrap" if confined else "none: commands may read what the orchestrator's user may read",
        "network": "the proxy's socket alone" if closed else "the machine's",
        "memory": groups or "rlimit, for each process",
        "processes": groups or ("none: root has no limit without cgroups" if user == 0 else "rlimit, for the user"),
        "disk": "watched",
        "time": "signals",
    }
