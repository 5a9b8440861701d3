"""The orchestrator's settings."""

from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr

from drivetrain.common.settings import Section, Settings
from drivetrain.orchestrator.backends.kubernetes.settings import KubernetesSettings
from drivetrain.orchestrator.backends.process.limits import Limits


class LimitSettings(Section):
    """What a sandbox may use at most. A task may ask for less; one that asks for more is not run."""

    memory_mb: int = Field(4096, ge=16, description="memory of all its processes together, in MiB")
    processes: int = Field(512, ge=8, description="processes and threads")
    disk_mb: int = Field(2048, ge=1, description="its folders, in MiB")
    files: int = Field(200_000, ge=100, description="files and folders in it")
    cpus: float | None = Field(None, gt=0, description="processors, with cgroups; none: all")

    @property
    def ceilings(self) -> Limits:
        return Limits(self.memory_mb, self.processes, self.disk_mb, self.files, self.cpus)


class OrchestratorSettings(Settings):
    """Runs rollouts: takes requests from the bus, runs each with its harness, grades it and reports the outcome."""

    proxy_url: str = Field(
        "http://127.0.0.1:8411", pattern=r"^https?://[^/]+/?$", description="the proxy, as harnesses reach it, no path"
    )
    secret: SecretStr = Field(min_length=16, description="signs rollout keys; the same as the proxy's")
    backend: Literal["process", "kubernetes"] = Field("process", description="where sandboxes are made")
    kubernetes: KubernetesSettings = Field(default_factory=KubernetesSettings, description="for that backend alone")
    work_folder: Path = Field(Path("runs/orchestrator"), description="leases live here; one orchestrator a folder")
    harness_path: list[Path] = Field([], description="folders with harness programs, first in a rollout's PATH")
    isolation: Literal["auto", "bubblewrap", "none"] = Field(
        "auto", description="confine commands with bubblewrap: if it works here, always, or never"
    )
    network: Literal["auto", "proxy", "machine"] = Field(
        "auto",
        description="what confined commands reach: the proxy's socket, if it offers one or always, or all",
    )
    cgroup: str = Field("drivetrain", description="control groups are made below this one; empty: none, only rlimits")
    limits: LimitSettings = Field(default_factory=LimitSettings, description="what a sandbox may use at most")
    readable: list[Path] = Field([], description="more folders that confined commands may read")
    harness_folders: list[Path] = Field([], description="more folders of harness files; they override built-in ones")
    context_tokens: int = Field(32_768, ge=256, description="the model's context window, as harnesses are told it")
    reply_tokens: int = Field(4_096, ge=16, description="the most tokens of a reply, as harnesses are told it")
    concurrency: int = Field(4, ge=1, le=10_000, description="rollouts at a time, in all")
    run_concurrency: int | None = Field(None, ge=1, description="rollouts of one run at a time; none: no ceiling")
    attempts: int = Field(3, ge=1, le=20, description="how often a rollout is tried whose sandbox fails")
    backoff_s: float = Field(
        2.0, ge=0, le=300, description="seconds before the second attempt; twice as many each time"
    )
    salvage: bool = Field(True, description="grade what a harness did until its time or its context was up")
    max_staleness: int = Field(4, ge=1, description="versions behind the trainer before rollouts wait, as in the proxy")
    ahead: int | None = Field(None, ge=1, description="rollouts that begin for each version of the weights; none: all")
    grace_s: float = Field(2.0, ge=0, le=60, description="seconds between SIGTERM and SIGKILL at a timeout")
    drain_s: float = Field(4.0, ge=0, le=5, description="seconds that running rollouts get when the service stops")
    keep_workdirs: bool = Field(False, description="keep the folders of finished rollouts for inspection")
