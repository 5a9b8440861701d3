"""Strict checks of what is sent: Kubernetes' own schemas, without room for unknown keys."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs

from tests.cluster.store import ApiError, Object

ROOT = Path(__file__).parents[2]
FILES = {("batch/v1", "Job"): "job-batch-v1", ("v1", "Secret"): "secret-v1"}
VERSION = "v1.36.0-local-strict"


def folder() -> Path | None:
    """Where the schemas lie; None where the tools are not installed."""
    pattern = f".venv-tools/lib/python3*/site-packages/kubernetes_validate/kubernetes-json-schema/{VERSION}"
    return next(iter(ROOT.glob(pattern)), None)


def check(item: Object) -> None:
    """
    Raises:
        ApiError: 422, with what is wrong and where.
    """
    kind = (item.get("apiVersion"), item.get("kind"))
    if kind not in FILES:
        raise ApiError(400, "BadRequest", f"no kind {kind} is known here")
    wrong = next(iter(_validator(FILES[kind]).iter_errors(item)), None)
    if wrong is not None:
        where = ".".join(map(str, wrong.instance_path))
        raise ApiError(422, "Invalid", f"{item['kind']} is invalid: {where}: {wrong.message}")


@cache
def _validator(name: str) -> jsonschema_rs.Draft202012Validator:
    found = folder()
    assert found is not None, "the schemas are not installed: `make .venv-tools/.ready`"
    definitions = json.loads((found / "_definitions.json").read_text())
    schema = json.loads((found / f"{name}.json").read_text())

    def retrieve(uri: str) -> Any:
        assert uri.endswith("_definitions.json"), uri
        return definitions

    schema["$id"] = "json-schema:///schema.json"
    return jsonschema_rs.Draft202012Validator(schema, retriever=retrieve)
