"""A stack's configuration, its list of processes, its run file, and a real one without vLLM and services."""

import asyncio
import json
import os
import socket
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from typer.testing import CliRunner

import drivetrain.cli.stack.stack as stack_module
from drivetrain.cli.app import app
from drivetrain.cli.errors import CliError
from drivetrain.cli.observe import observe
from drivetrain.cli.stack import Stack, StackConfig, read_run, running, vllm
from drivetrain.cli.stack.leftovers import MARK
from drivetrain.cli.stack.processes import Ports, process_list
from drivetrain.cli.supervisor import ProcessFailed, ProcessSpec

PORTS = Ports(
    proxy=1, nats=2, nats_monitor=3, valkey=4, vllm=5,
    admin={"proxy": 11, "judge": 12, "trainer": 13, "weights": 14, "orchestrator": 15},
)  # fmt: skip


@pytest.fixture
def vllm_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRIVETRAIN_VLLM_PYTHON", sys.executable)


@pytest.fixture
def infrastructure(monkeypatch: pytest.MonkeyPatch, vllm_python: None) -> None:
    """Stacks of NATS and Valkey alone."""
    only(monkeypatch, lambda specs: [spec for spec in specs if spec.name in ("nats", "valkey")])


def only(monkeypatch: pytest.MonkeyPatch, change: Callable[[list[ProcessSpec]], list[ProcessSpec]]) -> None:
    monkeypatch.setattr(stack_module, "process_list", lambda *arguments: change(process_list(*arguments)))


def config(folder: Path) -> StackConfig:
    return StackConfig(run_dir=folder, model="m", proxy_port=0)


def specs(settings: StackConfig) -> dict[str, ProcessSpec]:
    return {spec.name: spec for spec in process_list(settings, PORTS, secret="s" * 32)}


def test_every_process_comes_after_those_it_needs(tmp_path: Path, vllm_python: None) -> None:
    seen: set[str] = set()
    for name, spec in specs(config(tmp_path)).items():
        assert {*spec.needs, *spec.outlived_by} <= seen
        seen.add(name)
    assert seen == {"nats", "valkey", "vllm", "proxy", "judge", "trainer", "weights", "orchestrator"}


def test_the_slowest_end_still_fits_into_ten_seconds(tmp_path: Path, vllm_python: None) -> None:
    listed = specs(config(tmp_path))

    def ends_after(name: str) -> float:
        before = [n for n, spec in listed.items() if name in (*spec.needs, *spec.outlived_by)]
        return listed[name].grace_s + max((ends_after(n) for n in before), default=0.0)

    assert max(ends_after(name) for name in listed) <= 8.0


def test_services_are_configured_by_environment(tmp_path: Path, vllm_python: None) -> None:
    chosen = replace(config(tmp_path), policy="tutor", settings={"proxy": {"CONSENT": "record"}})
    environment = specs(chosen)["proxy"].env
    assert environment["DRIVETRAIN_PROXY_BUS__URL"] == "nats://127.0.0.1:2"
    assert environment["DRIVETRAIN_PROXY_ADMIN__PORT"] == "11"
    assert environment["DRIVETRAIN_PROXY_POLICY"] == "tutor"
    assert environment["DRIVETRAIN_PROXY_CONSENT"] == "record"


def test_trainer_and_weights_share_one_store_and_policy(tmp_path: Path, vllm_python: None) -> None:
    listed = specs(replace(config(tmp_path), method="opd"))
    trainer, weights = listed["trainer"].env, listed["weights"].env
    assert trainer["DRIVETRAIN_TRAINER_STORE"] == weights["DRIVETRAIN_WEIGHTS_STORE"] == str(tmp_path / "checkpoints")
    assert trainer["DRIVETRAIN_TRAINER_POLICY"] == weights["DRIVETRAIN_WEIGHTS_POLICY"] == "default"
    assert trainer["DRIVETRAIN_TRAINER_METHOD"] == "opd"
    assert json.loads(weights["DRIVETRAIN_WEIGHTS_REPLICAS"]) == ["http://127.0.0.1:5"]


def test_those_who_sign_and_verify_share_one_secret(tmp_path: Path, vllm_python: None) -> None:
    listed = specs(config(tmp_path))
    assert listed["proxy"].env["DRIVETRAIN_PROXY_SECRET"] == "s" * 32
    assert listed["orchestrator"].env["DRIVETRAIN_ORCHESTRATOR_SECRET"] == "s" * 32


def test_vllm_records_what_was_sampled_and_can_be_given_weights() -> None:
    command = vllm.command(Path("/py"), "/model", "tutor", 5, 7, ("--max-model-len=8192",))
    assert command[:3] == ("/py", "-m", "vllm.entrypoints.openai.api_server")
    assert {"--logprobs-mode=processed_logprobs", "--enable-scale-out", "--host=127.0.0.1", "--port=5"} <= set(command)
    transfer = next(flag for flag in command if flag.startswith("--weight-transfer-config="))
    assert json.loads(transfer.partition("=")[2]) == {"backend": "drivetrain"}
    assert "--worker-extension-cls=drivetrain.vllm_plugin.worker.StagingWorker" in command
    assert command[-1] == "--max-model-len=8192"


def test_a_local_model_asks_no_hub(tmp_path: Path) -> None:
    assert vllm.environment(str(tmp_path))["HF_HUB_OFFLINE"] == "1"
    assert "HF_HUB_OFFLINE" not in vllm.environment("someone/some-model")


def test_vllm_is_found_beside_the_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DRIVETRAIN_VLLM_PYTHON", raising=False)
    python = tmp_path / ".venv-vllm" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch()
    (tmp_path / "deep" / "er").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "deep" / "er")
    assert vllm.find_python() == python


def test_a_wrong_path_to_vllm_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRIVETRAIN_VLLM_PYTHON", "/no/such/python")
    with pytest.raises(CliError, match="DRIVETRAIN_VLLM_PYTHON=/no/such/python"):
        vllm.find_python()


@pytest.mark.parametrize("policy", ["", "Upper", "a.b", "x" * 65])
def test_a_policy_must_be_a_name(tmp_path: Path, policy: str) -> None:
    with pytest.raises(CliError, match="--policy"):
        replace(config(tmp_path), policy=policy)


def test_settings_of_an_unknown_service_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CliError, match="unknown services \\['trainr'\\]"):
        replace(config(tmp_path), settings={"trainr": {}})


async def test_a_stack_runs_says_so_and_leaves_nothing(home: Path, tmp_path: Path, infrastructure: None) -> None:
    async with Stack(config(tmp_path / "run")) as stack:
        run = running()
        assert run.pid == os.getpid()
        assert run.urls == stack.urls
        assert {process.state for process in run.processes.values()} == {"ready"}
        marks = {name: _mark(state.pid) for name, state in stack.processes().items()}
        assert set(marks.values()) == {str(tmp_path / "run")}
    with pytest.raises(CliError, match="no stack is running"):
        running()
    after = read_run(tmp_path / "run")
    assert {process.state for process in after.processes.values()} == {"stopped"}
    assert not any(psutil.pid_exists(process.pid or 0) for process in after.processes.values())


def _mark(pid: int | None) -> str | None:
    return psutil.Process(pid).environ().get(MARK)


async def test_a_second_stack_is_told_about_the_first(home: Path, tmp_path: Path, infrastructure: None) -> None:
    async with Stack(config(tmp_path / "first")):
        with pytest.raises(CliError, match="running already"):
            async with Stack(config(tmp_path / "second")):
                pytest.fail("two stacks ran")


async def test_a_continued_run_keeps_its_secret(home: Path, tmp_path: Path, infrastructure: None) -> None:
    secrets = []
    for _ in range(2):
        async with Stack(config(tmp_path)):
            secrets.append((tmp_path / "secret").read_text())
    assert secrets[0] == secrets[1]
    assert len(secrets[0]) == 64
    assert (tmp_path / "secret").stat().st_mode & 0o777 == 0o600


async def test_a_taken_proxy_port_stops_nothing_and_frees_the_lock(
    home: Path, tmp_path: Path, infrastructure: None
) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = replace(config(tmp_path), proxy_port=other.getsockname()[1])
        with pytest.raises(CliError, match="--port"):
            async with Stack(taken):
                pytest.fail("the port was taken")
    async with Stack(config(tmp_path)):
        pass


async def guarded_sleep(stack: Stack) -> None:
    async with stack.guard():
        await asyncio.sleep(30)


async def test_guarded_work_is_ended_by_a_failing_process(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, vllm_python: None
) -> None:
    dying = (
        sys.executable,
        "-c",
        f"import time, os\nwhile not os.path.exists({str(tmp_path / 'die')!r}): time.sleep(.01)\nraise SystemExit(2)",
    )
    only(monkeypatch, lambda found: [found[0], replace(found[1], command=dying, check=found[0].check)])
    async with Stack(config(tmp_path)) as stack:
        (tmp_path / "die").touch()
        with pytest.raises(ProcessFailed, match="valkey ended with status 2"):
            await guarded_sleep(stack)


async def test_guarded_work_that_ends_is_left_alone(home: Path, tmp_path: Path, infrastructure: None) -> None:
    async with Stack(config(tmp_path)) as stack:
        async with stack.guard():
            await asyncio.sleep(0)
        with pytest.raises(ValueError, match="of the work"):
            async with stack.guard():
                raise ValueError("of the work")


async def test_status_tells_who_answers(home: Path, tmp_path: Path, infrastructure: None) -> None:
    async with Stack(config(tmp_path)) as stack:
        seen = await observe(running())
        assert not any(service.live or service.ready for service in seen.services.values())
        assert seen.versions == {stack.urls.vllm: None}
        assert seen.streams == {}
        result = await asyncio.to_thread(CliRunner().invoke, app, ["status", "--json"])
        assert result.exit_code == 1
        assert json.loads(result.stdout)["run"]["policy"] == "default"
        table = (await asyncio.to_thread(CliRunner().invoke, app, ["status"])).stdout
        assert "does not answer" in table
        assert "nats" in table


def test_a_folder_without_a_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(CliError, match="holds no run file"):
        read_run(tmp_path)


def test_the_version_is_printed() -> None:
    result = CliRunner().invoke(app, ["--version"])
    assert result.exit_code == 0
    assert result.stdout.startswith("drivetrain ")
