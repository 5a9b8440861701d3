import json
from pathlib import Path

import pytest
from pydantic import Field, SecretStr

from drivetrain.common.settings import BadSettings, Section, Settings, load, resolve


class Limits(Section):
    rate: int = Field(10, ge=1)
    burst: int = 20


class ExampleSettings(Settings):
    """Settings of an example service."""

    policy: str = "default"
    replicas: list[str] = []
    limits: Limits = Limits()
    secret: SecretStr = Field(SecretStr("hush-hush-hush"), min_length=8)


def resolved(argv: list[str], environ: dict[str, str] | None = None) -> ExampleSettings:
    return resolve(ExampleSettings, "example", argv, environ or {})


@pytest.fixture
def toml(tmp_path: Path) -> Path:
    file = tmp_path / "example.toml"
    file.write_text('policy = "file"\n[limits]\nrate = 11\nburst = 21\n')
    return file


def test_flags_beat_environment_beats_file_beats_defaults(toml: Path) -> None:
    environ = {"DRIVETRAIN_EXAMPLE_LIMITS__RATE": "12", "DRIVETRAIN_EXAMPLE_LIMITS__BURST": "22"}
    settings = resolved(["--config", str(toml), "--limits.rate", "13"], environ)
    assert (settings.policy, settings.limits.rate, settings.limits.burst) == ("file", 13, 22)
    assert settings.bus.url == "nats://127.0.0.1:4222"


def test_the_file_may_be_named_by_the_environment(toml: Path) -> None:
    assert resolved([], {"DRIVETRAIN_EXAMPLE_CONFIG": str(toml)}).policy == "file"


def test_lists_come_from_repeated_flags_or_json() -> None:
    assert resolved(["--replicas", "http://a", "--replicas", "http://b"]).replicas == ["http://a", "http://b"]
    assert resolved([], {"DRIVETRAIN_EXAMPLE_REPLICAS": '["http://c"]'}).replicas == ["http://c"]


@pytest.mark.parametrize(
    ("argv", "environ", "message"),
    [
        (["--limits.rate", "many"], {}, "limits.rate: Input should be a valid integer.*'many'"),
        (["--limits.rate", "0"], {}, "limits.rate: Input should be greater than or equal to 1"),
        (["--polcy", "x"], {}, "--polcy"),
        ([], {"DRIVETRAIN_EXAMPLE_POLCY": "x"}, "DRIVETRAIN_EXAMPLE_POLCY; settings are .*POLICY"),
        ([], {"DRIVETRAIN_EXAMPLE_LIMITS__RTE": "1"}, "unknown setting limits.rte"),
        (["--config", "/nowhere.toml"], {}, "/nowhere.toml does not exist"),
        (["--config"], {}, "--config needs"),
    ],
)
def test_bad_settings_name_the_field(argv: list[str], environ: dict[str, str], message: str) -> None:
    with pytest.raises(BadSettings, match=message):
        resolved(argv, environ)


def test_an_unknown_key_in_the_file_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_text("[limits]\nrat = 1\n")
    with pytest.raises(BadSettings, match=r"unknown setting limits\.rat"):
        resolved(["--config", str(file)])


def test_dry_run_prints_what_was_resolved_and_masks_secrets(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        load(
            ExampleSettings, "example", ["--dry-run", "--policy", "p1"], {"DRIVETRAIN_EXAMPLE_SECRET": "deepest secret"}
        )
    printed = capsys.readouterr().out
    assert ended.value.code == 0
    assert json.loads(printed)["policy"] == "p1"
    assert "deepest" not in printed


def test_a_service_with_bad_settings_ends_with_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        load(ExampleSettings, "example", ["--limits.rate", "many"], {})
    assert ended.value.code == 2
    assert "limits.rate" in capsys.readouterr().err


def test_a_bad_secret_is_refused_without_being_shown() -> None:
    with pytest.raises(BadSettings, match="secret: ") as refused:
        resolved([], {"DRIVETRAIN_EXAMPLE_SECRET": "tiny"})
    assert "tiny" not in str(refused.value)
