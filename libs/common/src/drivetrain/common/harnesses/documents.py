"""Settings files as text: read, merged and written in the four formats that harnesses use."""

import json
import tomllib
from collections.abc import Mapping, MutableMapping
from typing import Any

import tomlkit
import yaml


class BadDocument(ValueError):
    """A settings file that is not what its format says; the message says where."""


def merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Both contents; where they disagree `above` holds. Mappings are merged key by key, lists are replaced."""
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        merged[key] = merge(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return merged


def written(kind: str, content: Mapping[str, Any], before: str = "") -> str:
    """The text of a settings file with `content` in it, and everything else as it was `before`. Comments stay in TOML
    and env files.

    Raises:
        BadDocument: what was there before cannot be read.
    """
    try:
        return _WRITERS[kind](content, before)
    except (ValueError, yaml.YAMLError) as error:
        raise BadDocument(f"it is not valid {kind}: {error}") from error


def _json(content: Mapping[str, Any], before: str) -> str:
    return json.dumps(merge(_mapping(json.loads(before or "{}")), content), indent=2, ensure_ascii=False) + "\n"


def _yaml(content: Mapping[str, Any], before: str) -> str:
    merged = merge(_mapping(yaml.safe_load(before) or {}), content)
    return yaml.safe_dump(merged, sort_keys=False, allow_unicode=True)


def _toml(content: Mapping[str, Any], before: str) -> str:
    tomllib.loads(before)
    document = tomlkit.parse(before)
    _into(document, content)
    return tomlkit.dumps(document)


def _into(table: MutableMapping[str, Any], content: Mapping[str, Any]) -> None:
    for key, value in content.items():
        if isinstance(value, Mapping):
            if not isinstance(table.get(key), Mapping):
                table[key] = tomlkit.table()
            _into(table[key], value)
        else:
            table[key] = value


def _env(content: Mapping[str, Any], before: str) -> str:
    kept = [
        line for line in before.splitlines() if line.partition("=")[0].removeprefix("export ").strip() not in content
    ]
    return "".join(f"{line}\n" for line in [*kept, *(f"{key}={value}" for key, value in content.items())])


def _text(content: Mapping[str, Any], before: str) -> str:
    return str(content["text"])


def _mapping(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError("it holds no keys")
    return value


_WRITERS = {"json": _json, "yaml": _yaml, "toml": _toml, "env": _env, "text": _text}
