"""One way to configure a service: defaults < TOML file < environment < flags, typed, unknown keys refused.

A service declares a subclass of `Settings` and calls `load`. For a service named `proxy` the setting `bus.url` is
`[bus] url = …` in the file named by `--config`, `DRIVETRAIN_PROXY_BUS__URL` in the environment, and `--bus.url` on
the command line. `--dry-run` prints the resolved settings as TOML-like JSON, secrets masked, and exits.
"""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_settings import (
    BaseSettings,
    CliSettingsSource,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
    TomlConfigSettingsSource,
)


class Section(BaseModel):
    """A nested group of settings: unknown keys are errors, values never change after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class BusSettings(Section):
    """Where JetStream is, and how many shards its session subjects have."""

    url: str = Field("nats://127.0.0.1:4222", description="NATS server, or several separated by commas")
    shards: int = Field(1, ge=1, le=1024, description="shards in session subjects; the same for every service")


class AdminSettings(Section):
    """The listener for /livez, /readyz and /metrics; harnesses never reach it."""

    host: str = "127.0.0.1"
    port: int = Field(0, ge=0, le=65535, description="0 picks a free port")


class LogSettings(Section):
    """Structured logs: `json` for machines, `text` for a terminal."""

    level: str = Field("info", pattern="^(debug|info|warning|error)$")
    format: str = Field("text", pattern="^(json|text)$")


class Settings(BaseSettings):
    """Base of every service's settings."""

    model_config = SettingsConfigDict(extra="forbid", frozen=True, env_nested_delimiter="__", validate_default=True)

    bus: BusSettings = BusSettings()
    admin: AdminSettings = AdminSettings()
    log: LogSettings = LogSettings()


S = TypeVar("S", bound=Settings)


class BadSettings(ValueError):
    """Settings that cannot be used; the message names each field and what is wrong with it."""


def load(kind: type[S], service: str, argv: Sequence[str] | None = None, environ: Mapping[str, str] | None = None) -> S:
    """Resolve a service's settings, or end the process with a message: status 0 after `--dry-run`, 2 for bad input."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    dry_run = "--dry-run" in arguments
    try:
        settings = resolve(kind, service, [a for a in arguments if a != "--dry-run"], environ)
    except BadSettings as error:
        print(f"drivetrain {service}: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    if dry_run:
        print(json.dumps(settings.model_dump(mode="json"), indent=2))
        raise SystemExit(0)
    return settings


def resolve(kind: type[S], service: str, argv: Sequence[str] = (), environ: Mapping[str, str] | None = None) -> S:
    """The settings that files, environment and flags add up to.

    Raises:
        BadSettings: an unknown key, a wrong type, or a configuration file that cannot be read.
    """
    environ = os.environ if environ is None else environ
    prefix = f"DRIVETRAIN_{service.upper()}_"
    config, flags = _split_config(argv, environ.get(f"{prefix}CONFIG"))
    _refuse_unknown_environment(kind, prefix, environ)
    bound = _bind(kind, service, prefix, environ, config, flags)
    try:
        return bound()
    except ValidationError as error:
        raise BadSettings(_explain(error)) from error
    except SettingsError as error:
        raise BadSettings(str(error)) from error


def _split_config(argv: Sequence[str], default: str | None) -> tuple[Path | None, list[str]]:
    config, flags, rest = default, [], iter(argv)
    for argument in rest:
        if argument == "--config":
            config = next(rest, None)
            if config is None:
                raise BadSettings("--config needs the path of a TOML file")
        elif argument.startswith("--config="):
            config = argument.partition("=")[2]
        else:
            flags.append(argument)
    if config is not None and not Path(config).is_file():
        raise BadSettings(f"the configuration file {config} does not exist: give --config an existing TOML file")
    return (Path(config) if config else None), flags


def _bind(
    kind: type[S], service: str, prefix: str, environ: Mapping[str, str], config: Path | None, flags: list[str]
) -> type[S]:
    """A subclass of the settings bound to this call's file, prefix and flags, so that no global is touched."""

    class Bound(kind):  # type: ignore[valid-type, misc]
        model_config = SettingsConfigDict(env_prefix=prefix, title=kind.__name__)

        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,
            file_secret_settings: PydanticBaseSettingsSource,
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            cli: CliSettingsSource[Any] = CliSettingsSource(
                settings_cls, cli_parse_args=flags, cli_prog_name=f"drivetrain {service}", cli_exit_on_error=False
            )
            environment = EnvSettingsSource(settings_cls)
            environment.env_vars = {name.lower(): value for name, value in environ.items()}
            file = [TomlConfigSettingsSource(settings_cls, toml_file=config)] if config else []
            return (cli, environment, *file)

    Bound.__doc__ = kind.__doc__
    return Bound


def _refuse_unknown_environment(kind: type[Settings], prefix: str, environ: Mapping[str, str]) -> None:
    known = {name.upper() for name in kind.model_fields} | {"CONFIG"}
    for variable in environ:
        if variable.upper().startswith(prefix):
            field = variable[len(prefix) :].split("__")[0].upper()
            if field not in known:
                raise BadSettings(f"unknown environment variable {variable}; settings are {', '.join(sorted(known))}")


def _explain(error: ValidationError) -> str:
    lines = []
    for problem in error.errors():
        where = ".".join(str(part) for part in problem["loc"])
        if problem["type"] == "extra_forbidden":
            lines.append(f"unknown setting {where}")
        else:
            # What was given for a secret must not end up in a log.
            given = "" if "secret" in where or "password" in where else f" (got {problem['input']!r})"
            lines.append(f"{where}: {problem['msg']}{given}")
    return "; ".join(lines)
