import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

SERVICE = """
import asyncio, sys
from drivetrain.common.lifecycle import run
from drivetrain.common.settings import Settings, load

class Example(Settings):
    "Settings of an example service."

async def main(lifecycle):
    async def work():
        while not lifecycle.stopping:
            await asyncio.sleep(0.01)
        print("work drained", flush=True)

    async def fail():
        raise RuntimeError("a part of the service failed")

    warm = asyncio.Event()
    lifecycle.ready_when("warm", warm.is_set)
    lifecycle.stack.callback(lambda: print("closed", flush=True))
    lifecycle.spawn(work(), "work")
    if "fail" in sys.argv:
        sys.argv.remove("fail")
        lifecycle.spawn(fail(), "fail")
    asyncio.get_running_loop().add_signal_handler(__import__("signal").SIGUSR1, warm.set)

arguments = [a for a in sys.argv[1:] if a != "fail"]
run("example", load(Example, "example", arguments), main)
"""


@contextmanager
def service(*arguments: str) -> Iterator["subprocess.Popen[str]"]:
    process = subprocess.Popen(
        [sys.executable, "-c", SERVICE, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def admin_port(process: "subprocess.Popen[str]") -> int:
    assert process.stderr is not None
    for line in process.stderr:
        if match := re.search(r"admin listening.*port\S*?=\S*?(\d{4,5})", re.sub(r"\x1b\[[0-9;]*m", "", line)):
            return int(match.group(1))
    raise AssertionError("the admin listener was not announced")


def status(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_readiness_names_what_is_waited_for_and_liveness_does_not_wait() -> None:
    with service() as process:
        port = admin_port(process)
        assert status(port, "/livez")[0] == 200
        code, body = status(port, "/readyz")
        assert (code, '"waiting_for":["warm"]' in body) == (503, True)
        os.kill(process.pid, signal.SIGUSR1)
        codes = [status(port, "/readyz")[0] for _ in range(50)]
        assert codes[-1] == 200
        assert "python_info" in status(port, "/metrics")[1]


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_drains_the_work_and_then_closes(signum: signal.Signals) -> None:
    with service() as process:
        admin_port(process)
        process.send_signal(signum)
        output, _ = process.communicate(timeout=10)
        assert output.split("\n")[:2] == ["work drained", "closed"]
        assert process.returncode == 0


def test_a_part_that_fails_ends_the_service_loudly() -> None:
    with service("fail") as process:
        _, errors = process.communicate(timeout=10)
        assert process.returncode == 1
        assert "RuntimeError: a part of the service failed" in errors


def test_a_port_in_use_is_told_with_the_remedy() -> None:
    with service() as first:
        port = admin_port(first)
        with service("--admin.port", str(port)) as second:
            _, errors = second.communicate(timeout=10)
            assert f"cannot listen on 127.0.0.1:{port}" in errors
            assert "free that port or set another" in errors
            assert "Traceback" not in errors
            assert second.returncode == 1
