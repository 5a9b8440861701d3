"""Reading declarative data (tasks, harnesses) into typed structs: what is not understood is refused, by name."""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

import msgspec

T = TypeVar("T", bound=msgspec.Struct)


class BadDeclaration(ValueError):
    """A task or harness that cannot be used; the message names the source, the key and the remedy."""


def read_toml(path: Path) -> dict[str, Any]:
    """The content of a TOML file.

    Raises:
        BadDeclaration: there is no such file, or it is not TOML.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadDeclaration(f"{path} cannot be read ({error.strerror}): name an existing TOML file") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadDeclaration(f"{path} is not valid TOML: {error}") from error


def declare(data: Mapping[str, Any], kind: type[T], where: str) -> T:
    """Data as a struct of the given class; `where` names the source in messages.

    Raises:
        BadDeclaration: an unknown or missing key, or a value of a wrong type or out of bounds.
    """
    _refuse_unknown(data, kind, where, "")
    try:
        return msgspec.convert(dict(data), kind)
    except msgspec.ValidationError as error:
        raise BadDeclaration(f"{where}: {_explain(str(error))}") from error


def check_path(path: str, key: str, where: str) -> None:
    """Refuse a path that is empty, absolute or leaves its folder.

    Raises:
        BadDeclaration: with the key that holds the path.
    """
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or ".." in parts or "\0" in path:
        raise BadDeclaration(f"{where}: {key} names {path!r}: give a path inside the work folder, without '..'")


def _refuse_unknown(data: Mapping[str, Any], kind: type[msgspec.Struct], where: str, prefix: str) -> None:
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    for key, value in data.items():
        if key not in fields:
            known = ", ".join(sorted(fields))
            raise BadDeclaration(f"{where}: unknown key {prefix}{key}: remove it, or use one of {known}")
        nested = fields[key].type
        if isinstance(nested, type) and issubclass(nested, msgspec.Struct) and isinstance(value, Mapping):
            _refuse_unknown(value, nested, where, f"{prefix}{key}.")


def _explain(message: str) -> str:
    """msgspec's message with the key in front: `verify.command: Expected str, got int`."""
    problem, _, at = message.partition(" - at `$")
    key = at.strip("`").lstrip(".")
    if missing := re.fullmatch(r"Object missing required field `(.+)`", problem):
        return f"{'.'.join(part for part in (key, missing[1]) if part)} is missing: add it"
    return f"{key}: {problem}" if key else problem
