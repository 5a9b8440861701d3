"""`compose.yaml` is valid, safe by our own rules, and starts every service with settings that it accepts."""

import stat
import tomllib
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from drivetrain.cli.models import DEFAULT_MODEL, RECIPE
from tests.deploy.policies import compose_objections
from tests.deploy.services import SECRET, SERVICES, dig, settings, written_folders
from tests.deploy.tools import ROOT, Document, compose, run, tool

CPU: tuple[str, ...] = ()
GPU = ("--env-file", "deploy/gpu.env")
ONE_SHOT = "nats-volume"


def services(*flags: str) -> dict[str, Document]:
    return dict(compose(*flags)["services"])


@pytest.fixture
def secret_file(tmp_path: Path) -> Path:
    file = tmp_path / "drivetrain.toml"
    file.write_text(f'secret = "{SECRET}"\n')
    return file


@pytest.mark.parametrize("flags", [CPU, GPU], ids=["cpu", "gpu"])
def test_docker_compose_accepts_the_file(flags: tuple[str, ...]) -> None:
    done = run(tool("docker-compose"), *flags, "config", "--quiet")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_docker_compose_refuses_a_key_that_it_does_not_know(tmp_path: Path) -> None:
    bad = tmp_path / "compose.yaml"
    bad.write_text((ROOT / "compose.yaml").read_text().replace("stop_grace_period:", "stop_grace_perod:"))
    done = run(tool("docker-compose"), "--file", str(bad), "config", "--quiet")
    assert done.returncode != 0
    assert "stop_grace_perod" in done.stderr


def test_vllm_runs_on_the_cpu_unless_the_gpu_is_asked_for() -> None:
    rest = {ONE_SHOT, "nats", "valkey", *SERVICES}
    assert set(services(*CPU)) == rest | {"vllm"}
    assert set(services(*GPU)) == rest | {"vllm-gpu"}


@pytest.mark.parametrize("flags", [CPU, GPU], ids=["cpu", "gpu"])
def test_every_service_obeys_our_rules(flags: tuple[str, ...]) -> None:
    objections = {name: compose_objections(service) for name, service in services(*flags).items() if name != ONE_SHOT}
    assert {name: found for name, found in objections.items() if found} == {}


@pytest.mark.parametrize(
    ("change", "objection"),
    [
        ({"image": "nats:latest"}, "has an image without a full version"),
        ({"image": "nats"}, "has an image without a full version"),
        ({"user": "0:0"}, "runs as root"),
        ({"read_only": False}, "may write to its root"),
        ({"cap_add": ["NET_ADMIN"]}, "keeps capabilities"),
        ({"security_opt": []}, "may gain privileges"),
        ({"deploy": {}}, "has no limits"),
        ({"network_mode": "host"}, "steps out of its networks"),
    ],
)
def test_our_rules_notice(change: dict[str, Any], objection: str) -> None:
    assert compose_objections({**services()["judge"], **change}) == [objection]


def test_the_one_container_that_is_root_has_no_network_and_one_capability() -> None:
    one_shot = services()[ONE_SHOT]
    assert one_shot["network_mode"] == "none"
    assert (one_shot["cap_drop"], one_shot["cap_add"]) == (["ALL"], ["CHOWN"])
    assert one_shot["read_only"] is True
    assert [mount["source"] for mount in one_shot["volumes"]] == ["nats"]


@pytest.mark.parametrize("flags", [CPU, GPU], ids=["cpu", "gpu"])
@pytest.mark.parametrize("name", SERVICES)
def test_a_service_accepts_its_settings_and_keeps_its_data_on_volumes(
    name: str, flags: tuple[str, ...], secret_file: Path
) -> None:
    service = services(*flags)[name]
    found = settings(name, service["environment"], secret_file)
    assert dig(found, "admin.host") == "0.0.0.0"
    assert dig(found, "bus.url") == "nats://nats:4222"
    mounts = {Path(mount["target"]): mount for mount in service.get("volumes", [])}
    for folder in written_folders(name, found):
        assert mounts[folder]["type"] == "volume"
        assert not mounts[folder].get("read_only")


@pytest.mark.parametrize("flags", [CPU, GPU], ids=["cpu", "gpu"])
def test_a_service_shares_a_network_with_everything_that_its_settings_name(flags: tuple[str, ...]) -> None:
    found = services(*flags)
    at: dict[str, set[str]] = {}
    for name, service in found.items():
        for network, options in service.get("networks", {}).items():
            for alias in (name, *(options or {}).get("aliases", [])):
                at.setdefault(alias, set()).add(network)
    checked = 0
    for name, service in found.items():
        for value in (service.get("environment") or {}).values():
            if (host := urlsplit(value.strip('[]"')).hostname) is not None:
                assert at[name] & at[host], f"{name} cannot reach {host}"
                checked += 1
    assert checked == 5 + 1 + 1 + 1 + 1  # the bus for five; proxy: engine, sessions; weights: replicas; rollouts: proxy


def test_only_the_proxy_is_seen_from_outside_and_only_on_loopback() -> None:
    found = compose()
    inside = {name for name, network in found["networks"].items() if network.get("internal")}
    outside = {name for name, service in found["services"].items() if set(service.get("networks", {})) - inside}
    assert outside == {"proxy"}
    published = {name: service["ports"] for name, service in found["services"].items() if "ports" in service}
    assert set(published) == {"proxy"}
    assert [(port["host_ip"], port["target"]) for port in published["proxy"]] == [("127.0.0.1", 8411)]


def test_vllms_development_endpoints_share_a_network_with_the_weights_service_and_the_proxy_alone() -> None:
    networks = set(services()["vllm"]["networks"])
    assert {n for n, s in services().items() if networks & set(s.get("networks", {}))} == {"vllm", "proxy", "weights"}


def test_a_service_starts_after_what_it_cannot_do_without() -> None:
    found = services()
    for name in SERVICES:
        assert found[name]["depends_on"]["nats"]["condition"] == "service_healthy"
    assert found["proxy"]["depends_on"]["valkey"]["condition"] == "service_healthy"
    assert found["orchestrator"]["depends_on"]["proxy"]["condition"] == "service_healthy"
    assert found["nats"]["depends_on"][ONE_SHOT]["condition"] == "service_completed_successfully"


def test_the_secret_is_made_once_and_both_services_accept_it(tmp_path: Path) -> None:
    file = tmp_path / "kept" / "drivetrain.toml"
    script = str(ROOT / "deploy" / "secret.sh")
    assert run(script, str(file)).returncode == 0
    first = tomllib.loads(file.read_text())["secret"]
    assert len(first) == 44  # base64 of 32 bytes
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert run(script, str(file)).returncode == 0
    assert tomllib.loads(file.read_text())["secret"] == first
    for name in ("proxy", "orchestrator"):
        found: Any = settings(name, services()[name]["environment"], file)
        assert found.secret.get_secret_value() == first


def test_no_environment_holds_a_secret_and_git_ignores_its_file() -> None:
    for name, service in services().items():
        assert [key for key in service.get("environment") or {} if key.endswith(("SECRET", "API_KEY"))] == [], name
    assert run("git", "check-ignore", compose()["secrets"]["drivetrain.toml"]["file"]).returncode == 0


def test_without_a_choice_the_model_is_the_one_that_the_command_makes() -> None:
    mounts = [m["source"] for s in services().values() for m in s.get("volumes", []) if m["target"] == "/models/base"]
    assert {Path(source).name for source in mounts} == {f"{DEFAULT_MODEL}-r{RECIPE}"}
    assert len(mounts) == 3  # proxy, trainer, vLLM: under one path, which checkpoints name as their base


@pytest.mark.parametrize(("profile", "replica"), [("cpu", "vllm"), ("gpu", "vllm-gpu")])
@pytest.mark.parametrize("chosen", ["", "float32", "bfloat16"])
def test_trainer_and_replica_agree_on_the_precision_of_checkpoints(
    profile: str, replica: str, chosen: str, tmp_path: Path, secret_file: Path
) -> None:
    choices = tmp_path / "env"
    choices.write_text(f"COMPOSE_PROFILES={profile}\n" + (f"DRIVETRAIN_PRECISION={chosen}\n" if chosen else ""))
    found = services("--env-file", str(choices))
    assert f"--dtype={chosen or 'float32'}" in found[replica]["command"]
    trainer = settings("trainer", found["trainer"]["environment"], secret_file)
    assert dig(trainer, "precision.checkpoint") == (chosen or "float32")
