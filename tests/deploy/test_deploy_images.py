"""The Dockerfiles are clean, build on any engine, and put torch into the images that compute with it alone."""

from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.deploy.services import SERVICES, instructions, package_closure, project
from tests.deploy.tools import KUSTOMIZATIONS, ROOT, compose, of_kind, run, tool

PLUGIN = ROOT / "services/weights/vllm-plugin"
DOCKERFILES = [*(ROOT / "services" / name / "Dockerfile" for name in SERVICES), *sorted(PLUGIN.glob("Dockerfile*"))]
IDS = [str(file.relative_to(ROOT / "services")) for file in DOCKERFILES]
CONSTRAINTS = (ROOT / "constraints.txt").read_text().splitlines()
PINS = {canonicalize_name(line.split("==")[0]) for line in CONSTRAINTS if "==" in line}


def last(file: Path, name: str) -> str:
    return [argument for instruction, argument in instructions(file) if instruction == name][-1]


@pytest.mark.parametrize("file", DOCKERFILES, ids=IDS)
def test_hadolint_is_content(file: Path) -> None:
    done = run(tool("hadolint"), str(file))
    assert (done.returncode, done.stdout) == (0, "")


def test_hadolint_notices_an_image_without_a_version(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM python:latest\n")
    assert run(tool("hadolint"), str(tmp_path / "Dockerfile")).returncode != 0


@pytest.mark.parametrize("file", DOCKERFILES, ids=IDS)
def test_a_plain_engine_builds_it_from_a_base_of_ones_choice(file: Path) -> None:
    text, steps = file.read_text(), instructions(file)
    assert steps[0] == ("ARG", "BASE=python:3.11-slim-bookworm")
    assert ("FROM", "${BASE} AS build") in steps
    for unsupported in ("# syntax=", "<<", "--link", ":latest", "@sha256"):
        assert unsupported not in text
    for argument in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_TRUSTED_HOST"):
        assert ("ARG", argument) in steps


@pytest.mark.parametrize("file", DOCKERFILES, ids=IDS)
def test_an_image_runs_as_a_user_and_says_whether_it_lives(file: Path) -> None:
    assert last(file, "USER") == "10001:10001"
    path = "/health" if file.is_relative_to(PLUGIN) else "/livez"
    assert f"{path}'" in last(file, "HEALTHCHECK")


@pytest.mark.parametrize("name", SERVICES)
def test_an_image_starts_the_service_by_the_command_that_its_package_installs(name: str) -> None:
    scripts = project(ROOT / "services" / name)["scripts"]
    assert scripts == {f"drivetrain-{name}": f"drivetrain.{name}.__main__:main"}
    assert last(ROOT / "services" / name / "Dockerfile", "ENTRYPOINT") == f'["drivetrain-{name}"]'


@pytest.mark.parametrize("name", SERVICES)
def test_only_the_trainers_image_has_torch(name: str) -> None:
    assert ("torch" in package_closure(name)) is (name == "trainer")


@pytest.mark.parametrize("name", SERVICES)
def test_every_direct_dependency_is_pinned(name: str) -> None:
    listed = project(ROOT / "services" / name)["dependencies"]
    assert isinstance(listed, list)
    wanted = {canonicalize_name(Requirement(line).name) for line in listed} - {"drivetrain-common"}
    assert wanted - PINS == set()
    assert "hatchling" in PINS


def test_images_carry_the_version_of_what_is_in_them() -> None:
    services = compose()["services"] | compose("--env-file", "deploy/gpu.env")["services"]
    built = {name: service for name, service in services.items() if "build" in service}
    assert set(built) == {*SERVICES, "vllm", "vllm-gpu"}
    for name, service in built.items():
        file = ROOT / service["build"]["dockerfile"]
        image = {"vllm": "vllm-cpu"}.get(name, name)
        assert file in DOCKERFILES
        assert service["image"] == f"drivetrain/{image}:{project(file.parent)['version']}"


@pytest.mark.parametrize("folder", KUSTOMIZATIONS[:2])
def test_kubernetes_runs_the_images_that_compose_builds(folder: str) -> None:
    known = {service["image"] for service in compose()["services"].values()}
    for item in of_kind(folder, "Deployment", "StatefulSet").values():
        assert item["spec"]["template"]["spec"]["containers"][0]["image"] in known


def test_the_build_sees_no_virtual_environment_and_no_secret() -> None:
    allowed = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    assert sorted(allowed) == ["!constraints-vllm.txt", "!constraints.txt", "!libs/common", "!services"]
