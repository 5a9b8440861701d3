"""The real vLLM with the default model, started once a session when a test asks for it."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from drivetrain.cli.models import prepare_model
from drivetrain.cli.stack import vllm
from tests.servers import free_port, running, wait_until

POLICY = "default"


@dataclass(frozen=True)
class VllmServer:
    """A running server: its URL, and the folder of the model that it serves as version 0."""

    url: str
    model: Path


@pytest.fixture(scope="session")
def model_folder() -> Path:
    """The default model, converted once into the user's cache."""
    return Path(prepare_model(None))


@pytest.fixture(scope="session")
def vllm_server(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmServer]:
    """A replica as `drivetrain up` starts it."""
    port, log = free_port(), tmp_path_factory.mktemp("vllm") / "log"
    command = vllm.command(vllm.find_python(), str(model_folder), POLICY, port, 0, ())
    environment = {**os.environ, **vllm.environment(str(model_folder))}
    with running(list(command), port, log, environment, timeout_s=300):
        url = f"http://127.0.0.1:{port}"
        wait_until(lambda: httpx.get(f"{url}/health").status_code == 200, 60, "vLLM is healthy")
        yield VllmServer(url, model_folder)
