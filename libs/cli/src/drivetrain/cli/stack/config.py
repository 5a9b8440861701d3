"""What a person may choose about a stack."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from drivetrain.cli.errors import CliError

SERVICES = ("proxy", "judge", "trainer", "weights", "orchestrator")
PROXY_PORT = 8411


@dataclass(frozen=True)
class StackConfig:
    """One stack. `model` is a folder or hub name as `prepare_model` returns it; `run_dir` is created if missing, and
    continued if an earlier run used it. `settings` adds environment to a service: `{"trainer": {"METHOD": "opd"}}`
    becomes `DRIVETRAIN_TRAINER_METHOD=opd`. `vllm_args` follow our own flags, so that they win."""

    run_dir: Path
    model: str
    policy: str = "default"
    method: str = "combine"
    proxy_port: int = PROXY_PORT
    seed: int = 0
    settings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    vllm_args: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z0-9_-]{1,64}", self.policy):
            raise CliError(f"--policy {self.policy}: use 1 to 64 of a-z, 0-9, _ and -")
        if unknown := set(self.settings) - set(SERVICES):
            raise CliError(f"settings of unknown services {sorted(unknown)}: services are {', '.join(SERVICES)}")
