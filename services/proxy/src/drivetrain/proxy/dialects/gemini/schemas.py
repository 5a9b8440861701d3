"""Gemini's own form of schemas as JSON Schema."""

from typing import Any

_TYPES = {"STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL"}


def as_json_schema(schema: Any) -> Any:
    """A schema with Gemini's names of types (`STRING`) and `nullable`, as JSON Schema. What is that already stays."""
    if isinstance(schema, list):
        return [as_json_schema(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: _values(key, value) for key, value in schema.items() if key not in ("nullable", "propertyOrdering")}
    kind = found.get("type")
    if isinstance(kind, str) and kind in _TYPES:
        found["type"] = kind.lower()
    if schema.get("nullable") is True and isinstance(found.get("type"), str):
        found["type"] = [found["type"], "null"]
    return found


def _values(key: str, value: Any) -> Any:
    """Values under `properties` are schemas by names, which may be those of keywords."""
    if key in ("properties", "$defs", "definitions") and isinstance(value, dict):
        return {name: as_json_schema(inner) for name, inner in value.items()}
    if key in ("enum", "required", "default", "example", "const"):
        return value
    return as_json_schema(value)
