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


@contextmanager
def up(home: Path, model: Path, *options: str, **environment: str) -> Iterator["subprocess.Popen[str]"]:
    process = subprocess.Popen(
        [sys.executable, "-c", STAND_IN, "up", "--model", str(model), "--port", "0", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "DRIVETRAIN_HOME": str(home), "DRIVETRAIN_VLLM_PYTHON": sys.executable, **environment},
    )
    try:
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=30)


def read_until(process: "subprocess.Popen[str]", word: str, seconds: float = 120) -> str:
    """What the process wrote up to the line that holds `word`."""
    assert process.stdout is not None
    deadline, seen = time.monotonic() + seconds, ""
    while word not in seen:
        if not select.select([process.stdout], [], [], deadline - time.monotonic())[0]:
            pytest.fail(f"{word!r} did not come within {seconds} s; seen:\n{seen}")
        line = process.stdout.readline()
        if not line:
            pytest.fail(f"the process ended without {word!r}; seen:\n{seen}")
        seen += line
    return seen


def run_file(home: Path) -> dict[str, dict[str, dict[str, int]]]:
    (file,) = (home / "data" / "runs").glob("*/run.json")
    return json.loads(file.read_text())  # type: ignore[no-any-return]


@pytest.mark.parametrize(("signum", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_every_process_within_ten_seconds(home: Path, model: Path, signum: int, status: int) -> None:
    with up(home, model) as process:
        said = read_until(process, "model: default")
        assert "OPENAI_BASE_URL=http://127.0.0.1:" in said
        pids = [entry["pid"] for entry in run_file(home)["processes"].values()]
        assert len(pids) == 8
        assert all(psutil.pid_exists(pid) for pid in pids)
        began = time.monotonic()
        process.send_signal(signum)
        assert process.wait(15) == status
        assert time.monotonic() - began < 10
        assert not any(psutil.pid_exists(pid) for pid in pids)


def test_a_second_up_says_that_one_is_running_and_leaves_no_folder(home: Path, model: Path) -> None:
    with up(home, model) as first:
        read_until(first, "model: default")
        with up(home, model) as second:
            said = read_until(second, "running already")
            assert f"pid {first.pid}" in said
            assert second.wait(10) == 1
        assert len(list((home / "data" / "runs").iterdir())) == 1


def test_bad_settings_of_a_service_end_up_with_its_message(home: Path, model: Path) -> None:
    with up(home, model, BROKEN="trainer") as process:
        said = read_until(process, "colour: unknown setting")
        assert "trainer ended with status 2" in said
        assert process.wait(15) == 2
    assert not any(psutil.pid_exists(entry["pid"]) for entry in run_file(home)["processes"].values() if entry["pid"])


def test_a_crash_is_shown_and_the_process_comes_back(home: Path, model: Path) -> None:
    with up(home, model) as process:
        read_until(process, "model: default")
        os.kill(run_file(home)["processes"]["judge"]["pid"], signal.SIGKILL)
        said = read_until(process, "judge        ready")
        assert "judge        crashed: ended with signal 9" in said
        assert run_file(home)["processes"]["judge"]["restarts"] == 1


def test_what_a_killed_up_left_is_ended_by_the_next(home: Path, model: Path) -> None:
    with up(home, model) as first:
        read_until(first, "model: default")
        left = [entry["pid"] for entry in run_file(home)["processes"].values()]
        first.kill()
        first.wait(5)
        assert all(psutil.pid_exists(pid) for pid in left)
    with up(home, model) as second:
        read_until(second, "model: default")
        assert not any(psutil.pid_exists(pid) for pid in left)
