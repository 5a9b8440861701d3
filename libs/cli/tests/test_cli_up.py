"""`drivetrain up` as a person uses it, in a process of its own; small scripts stand in for vLLM and the services."""

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

pytestmark = pytest.mark.slow  # each starts the whole command and ten processes

STAND_IN = """
import http.server, os, sys
from drivetrain.cli.app import main
from drivetrain.cli.stack import processes
from dataclasses import replace

SERVE = '''
import http.server, signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
class Yes(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(b"{}")
    def log_message(self, *words): pass
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Yes).serve_forever()
'''
real = processes.process_list

def stand_in(spec):
    if spec.name in ("nats", "valkey"):
        return spec
    if spec.name == os.environ.get("BROKEN"):
        return replace(spec, command=(sys.executable, "-c", "print('colour: unknown setting'); raise SystemExit(2)"))
    port = spec.check.url.rsplit(":", 1)[1].split("/")[0]
    return replace(spec, command=(sys.executable, "-c", SERVE, port))

import drivetrain.cli.stack.stack as stack
stack.process_list = lambda *given: [stand_in(spec) for spec in real(*given)]
main()
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        (folder / name).touch()
    return folder


class Up:
    """A running `up` and what it says."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self.process = process
        self._unread = ""

    def read_until(self, word: str, seconds: float = 90) -> str:
        """What it said since the last call, up to and with `word`."""
        assert self.process.stdout is not None
        said, deadline = self.process.stdout.fileno(), time.monotonic() + seconds
        while word not in self._unread:
            if not select.select([said], [], [], max(0.0, deadline - time.monotonic()))[0]:
                pytest.fail(f"{word!r} did not come within {seconds} s; seen:\n{self._unread}")
            # Not through a buffered file: what lies in its buffer is invisible to select
            if not (chunk := os.read(said, 1 << 16)):
                pytest.fail(f"the process ended without {word!r}; seen:\n{self._unread}")
            self._unread += chunk.decode()
        before, found, self._unread = self._unread.partition(word)
        return before + found


@contextmanager
def up(home: Path, model: Path, *options: str, **environment: str) -> Iterator[Up]:
    process = subprocess.Popen(
        [sys.executable, "-u", "-c", STAND_IN, "up", "--model", str(model), "--port", "0", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "DRIVETRAIN_HOME": str(home), "DRIVETRAIN_VLLM_PYTHON": sys.executable, **environment},
    )
    try:
        yield Up(process)
    finally:
        process.terminate()
        process.communicate(timeout=30)


def run_file(home: Path) -> dict[str, dict[str, dict[str, int]]]:
    (file,) = (home / "data" / "runs").glob("*/run.json")
    return json.loads(file.read_text())  # type: ignore[no-any-return]


@pytest.mark.parametrize(("signum", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_every_process_within_ten_seconds(home: Path, model: Path, signum: int, status: int) -> None:
    with up(home, model) as stack:
        said = stack.read_until("model: default")
        assert "OPENAI_BASE_URL=http://127.0.0.1:" in said
        pids = [entry["pid"] for entry in run_file(home)["processes"].values()]
        assert len(pids) == 8
        assert all(psutil.pid_exists(pid) for pid in pids)
        began = time.monotonic()
        stack.process.send_signal(signum)
        assert stack.process.wait(15) == status
        assert time.monotonic() - began < 10
        assert not any(psutil.pid_exists(pid) for pid in pids)


def test_a_second_up_says_that_one_is_running_and_leaves_no_folder(home: Path, model: Path) -> None:
    with up(home, model) as first:
        first.read_until("model: default")
        with up(home, model) as second:
            said = second.read_until("or `kill ")
            assert f"running already (pid {first.process.pid}, run folder" in said
            assert second.process.wait(10) == 1
        assert len(list((home / "data" / "runs").iterdir())) == 1


def test_bad_settings_of_a_service_end_up_with_its_message(home: Path, model: Path) -> None:
    with up(home, model, BROKEN="trainer") as stack:
        said = stack.read_until("colour: unknown setting")
        assert "trainer ended with status 2" in said
        assert stack.process.wait(15) == 2
    assert not any(psutil.pid_exists(entry["pid"]) for entry in run_file(home)["processes"].values() if entry["pid"])


def test_a_crash_is_shown_and_the_process_comes_back(home: Path, model: Path) -> None:
    with up(home, model) as stack:
        stack.read_until("model: default")
        os.kill(run_file(home)["processes"]["judge"]["pid"], signal.SIGKILL)
        said = stack.read_until("judge        ready")
        assert "judge        crashed: ended with signal 9" in said
        assert run_file(home)["processes"]["judge"]["restarts"] == 1


def test_what_a_killed_up_left_is_ended_by_the_next(home: Path, model: Path) -> None:
    with up(home, model) as first:
        first.read_until("model: default")
        left = [entry["pid"] for entry in run_file(home)["processes"].values()]
        first.process.kill()
        first.process.wait(5)
        assert all(psutil.pid_exists(pid) for pid in left)
    with up(home, model) as second:
        second.read_until("model: default")
        assert not any(psutil.pid_exists(pid) for pid in left)
