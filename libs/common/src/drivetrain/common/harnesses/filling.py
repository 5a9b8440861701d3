"""Filling an adapter's templates with the values of one use."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import Formatter
from typing import Any

from drivetrain.common.declarations import BadDeclaration
from drivetrain.common.harnesses.declaration import Harness, SettingsFile
from drivetrain.common.harnesses.documents import merge

Values = Mapping[str, str | int]


@dataclass(frozen=True)
class Filled:
    """An adapter without placeholders. `files` have absolute paths, each once; `commands` run before `argv`."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    files: tuple[SettingsFile, ...]
    commands: tuple[tuple[str, ...], ...] = ()


def fill(harness: Harness, values: Values, dialect: str | None = None) -> Filled:
    """How to run a harness: its connection and what it takes to work by itself. `values` holds every placeholder.

    Raises:
        BadDeclaration: the harness does not speak that dialect.
    """
    known = _with_dialect(harness, values, dialect)
    connect, run = harness.connect, harness.run
    environment = {**connect.environment, **run.environment}
    return _fill(run.argv, environment, connect.files + run.files, connect.commands, known)


def fill_connection(harness: Harness, values: Values, dialect: str | None = None) -> Filled:
    """What points a harness at the proxy, without a command line.

    Raises:
        BadDeclaration: the harness does not speak that dialect.
    """
    connect = harness.connect
    known = _with_dialect(harness, values, dialect)
    return _fill([], connect.environment, connect.files, connect.commands, known)


def _fill(
    argv: Sequence[str],
    environment: Mapping[str, str],
    files: Sequence[SettingsFile],
    commands: Sequence[Sequence[str]],
    values: Values,
) -> Filled:
    return Filled(
        _words(argv, values),
        {name: str(_filled(text, values)) for name, text in environment.items()},
        _merged(files, values),
        tuple(_words(command, values) for command in commands),
    )


def _words(argv: Sequence[str], values: Values) -> tuple[str, ...]:
    return tuple(str(_filled(word, values)) for word in argv)


def _with_dialect(harness: Harness, values: Values, dialect: str | None) -> Values:
    dialects: dict[str, dict[str, str]] = {str(name): own for name, own in harness.dialects.items()}
    if (chosen := dialect or next(iter(dialects))) not in dialects:
        known = ", ".join(dialects)
        raise BadDeclaration(f"{harness.name} does not speak the dialect {chosen!r}: use one of {known}")
    return {**values, **{name: str(_filled(text, values)) for name, text in dialects[chosen].items()}}


def _merged(files: Sequence[SettingsFile], values: Values) -> tuple[SettingsFile, ...]:
    found: dict[str, SettingsFile] = {}
    for file in files:
        path = str(_filled(file.path, values))
        content = _filled(file.content, values)
        if path in found:
            content = merge(found[path].content, content)
        found[path] = SettingsFile(path=path, format=file.format, content=content)
    return tuple(found.values())


def _filled(value: Any, values: Values) -> Any:
    """A template that is one placeholder and nothing else becomes the value itself, so that numbers stay numbers.
    Values are inserted as they are: an instruction with braces in it is not a template."""
    if isinstance(value, str):
        parts = list(Formatter().parse(value))
        if len(parts) == 1 and parts[0][0] == "" and parts[0][1] is not None:
            return values[parts[0][1]]
        return value.format_map(values)
    if isinstance(value, Mapping):
        return {_filled(key, values): _filled(inner, values) for key, inner in value.items()}
    if isinstance(value, list):
        return [_filled(inner, values) for inner in value]
    return value
