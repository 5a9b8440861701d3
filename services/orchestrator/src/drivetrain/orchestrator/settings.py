"""The orchestrator's settings."""

from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr

from drivetrain.common.settings import Settings


class OrchestratorSettings(Settings):
    """Runs rollouts: takes requests from the bus, runs each with its harness, grades it and reports the outcome."""

    proxy_url: str = Field(
        "http://127.0.0.1:8411", pattern=r"^https?://[^/]+/?$", description="the proxy, as harnesses reach it, no path"
    )
    secret: SecretStr = Field(min_length=16, description="signs rollout keys; the same as the proxy's")
    work_folder: Path = Field(Path("runs/orchestrator"), description="leases live here; one orchestrator a folder")
    harness_path: list[Path] = Field([], description="folders with harness programs, first in a rollout's PATH")
    isolation: Literal["auto", "bubblewrap", "none"] = Field(
        "auto", description="confine commands with bubblewrap: if it works here, always, or never"
    )
    readable: list[Path] = Field([], description="more folders that confined commands may read")
    harness_folders: list[Path] = Field([], description="more folders of harness files; they override built-in ones")
    context_tokens: int = Field(32_768, ge=256, description="the model's context window, as harnesses are told it")
    reply_tokens: int = Field(4_096, ge=16, description="the most tokens of a reply, as harnesses are told it")
    concurrency: int = Field(4, ge=1, le=10_000, description="rollouts at a time")
    grace_s: float = Field(2.0, ge=0, le=60, description="seconds between SIGTERM and SIGKILL at a timeout")
    drain_s: float = Field(4.0, ge=0, le=5, description="seconds that running rollouts get when the service stops")
    keep_workdirs: bool = Field(False, description="keep the folders of finished rollouts for inspection")
