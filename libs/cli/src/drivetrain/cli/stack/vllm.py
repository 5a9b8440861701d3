"""How vLLM is started: which Python, which flags, what environment."""

import importlib.util
import os
import shutil
import sys
from pathlib import Path

from drivetrain.cli.errors import CliError

CPU_FLAGS = (
    "--kv-cache-memory-bytes=1G",  # otherwise the CPU build takes a share of the whole memory
    "--enforce-eager",  # compiling takes a minute at every start here
    "--max-num-batched-tokens=4096",
    "--no-enable-chunked-prefill",  # a seed with chunked prefill ends the CPU engine
)
CPU_ENV = {"VLLM_CPU_OMP_THREADS_BIND": "nobind"}
ENV = {
    "VLLM_SERVER_DEV_MODE": "1",  # weight updates live behind it; the port is on the loopback interface only
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_HTTP_TIMEOUT_KEEP_ALIVE": "75",  # seconds; after the default of 5 a kept connection dies under its client
}


def find_python() -> Path:
    """The Python of vLLM's virtual environment: `DRIVETRAIN_VLLM_PYTHON`, `.venv-vllm` in this folder or one above
    it, or beside the environment that runs this, or this very environment if vLLM is in it.

    Raises:
        CliError: none of them is there.
    """
    if named := os.environ.get("DRIVETRAIN_VLLM_PYTHON"):
        if not Path(named).is_file():
            raise CliError(f"DRIVETRAIN_VLLM_PYTHON={named}: there is no such program")
        return Path(named)
    for folder in (*(Path.cwd() / "x").parents, Path(sys.prefix).parent):
        if (python := folder / ".venv-vllm" / "bin" / "python").is_file():
            return python
    if importlib.util.find_spec("vllm"):
        return Path(sys.executable)
    raise CliError(
        "vLLM was not found: `make setup` builds its environment, or set DRIVETRAIN_VLLM_PYTHON to the Python of yours"
    )


def has_gpu() -> bool:
    """Whether an NVIDIA driver is installed, so that vLLM will use a GPU."""
    return shutil.which("nvidia-smi") is not None and Path("/proc/driver/nvidia/version").exists()


def command(python: Path, model: str, policy: str, port: int, seed: int, extra: tuple[str, ...]) -> tuple[str, ...]:
    """vLLM's command line. `extra` comes last and wins."""
    return (
        str(python),
        "-m",
        "vllm.entrypoints.openai.api_server",
        f"--model={model}",
        f"--served-model-name={policy}",
        "--host=127.0.0.1",
        f"--port={port}",
        f"--seed={seed}",
        "--dtype=float32",  # as the trainer computes: only so are its log-probabilities reproduced to 1e-5
        "--max-model-len=4096",
        "--max-num-seqs=32",
        "--enable-scale-out",  # /inference/v1/generate: token ids, log-probabilities and version spans
        "--logprobs-mode=processed_logprobs",
        '--weight-transfer-config={"backend": "drivetrain"}',
        "--worker-extension-cls=drivetrain.vllm_plugin.worker.StagingWorker",
        *(() if has_gpu() else CPU_FLAGS),
        *extra,
    )


def environment(model: str) -> dict[str, str]:
    """vLLM's additional environment; a local model asks no hub for anything."""
    offline = {"HF_HUB_OFFLINE": "1"} if Path(model).is_dir() else {}
    threads = {} if has_gpu() else {**CPU_ENV, "OMP_NUM_THREADS": str(os.cpu_count() or 1)}
    return {**ENV, **thread_environment(), **threads, **offline}


def thread_environment() -> dict[str, str]:
    """For every process that computes: waiting threads sleep, since those that spin starve whoever shares the cores."""
    return {} if has_gpu() else {"OMP_WAIT_POLICY": "passive"}
