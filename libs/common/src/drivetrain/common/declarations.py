"""Reading declarative data (tasks, harnesses) into typed structs: what is not understood is refused, by name."""

import re
import tomllib
from collections.abc import Callable, Hashable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar, get_args

import msgspec
import yaml

T = TypeVar("T", bound=msgspec.Struct)


class BadDeclaration(ValueError):
    """A task or harness that cannot be used; the message names the source, the key and the remedy."""


def read_toml(path: Path) -> dict[str, Any]:
    """The content of a TOML file.

    Raises:
        BadDeclaration: there is no such file, or it is not TOML.
    """
    content: dict[str, Any] = _read(path, "TOML", tomllib.loads, tomllib.TOMLDecodeError)
    return content


def read_yaml(path: Path) -> dict[str, Any]:
    """The content of a YAML file that is one mapping. A key that comes twice is refused.

    Raises:
        BadDeclaration: there is no such file, it is not YAML, or no mapping.
    """
    content = _read(path, "YAML", lambda text: yaml.load(text, _Loader), yaml.YAMLError)
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        raise BadDeclaration(f"{path} holds no keys: write `name: …`, `instruction: …` and so on")
    return content


def declare(data: Mapping[str, Any], kind: type[T], where: str) -> T:
    """Data as a struct of the given class; `where` names the source in messages.

    Raises:
        BadDeclaration: an unknown or missing key, or a value of a wrong type or out of bounds.
    """
    _refuse_unknown(data, kind, where, "")
    try:
        return msgspec.convert(dict(data), kind, builtin_types=(bytes,))
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


class _Loader(yaml.SafeLoader):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        if twice := next((key for key in keys if keys.count(key) > 1), None):
            raise yaml.constructor.ConstructorError(None, None, f"the key {twice} comes twice", node.start_mark)
        return super().construct_mapping(node, deep)


def _read(path: Path, kind: str, parse: Callable[[str], Any], bad: type[Exception]) -> Any:
    try:
        return parse(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadDeclaration(f"{path} cannot be read ({error.strerror}): name an existing {kind} file") from error
    except (bad, UnicodeDecodeError) as error:
        raise BadDeclaration(f"{path} is not valid {kind}: {error}") from error


def _refuse_unknown(data: Mapping[str, Any], kind: type[msgspec.Struct], where: str, prefix: str) -> None:
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    for key, value in data.items():
        if key not in fields:
            known = ", ".join(sorted(fields))
            raise BadDeclaration(f"{where}: unknown key {prefix}{key}: remove it, or use one of {known}")
        if nested := next(_structs(fields[key].type), None):
            for name, inner in _mappings(f"{prefix}{key}", value):
                _refuse_unknown(inner, nested, where, f"{name}.")


def _structs(annotation: Any) -> Iterator[type[msgspec.Struct]]:
    """The structs that a field's type mentions: `Verify`, `Service | None`, `list[Artifact]`."""
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        yield annotation
    for argument in get_args(annotation):
        yield from _structs(argument)


def _mappings(name: str, value: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if isinstance(value, Mapping):
        yield name, value
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _mappings(f"{name}[{index}]", item)


def _explain(message: str) -> str:
    """msgspec's message with the key in front: `verify.command: Expected str, got int`."""
    problem, _, at = message.partition(" - at `$")
    key = at.strip("`").lstrip(".")
    if missing := re.fullmatch(r"Object missing required field `(.+)`", problem):
        return f"{'.'.join(part for part in (key, missing[1]) if part)} is missing: add it"
    return f"{key}: {problem}" if key else problem
