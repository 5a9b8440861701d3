"""Strict validation of Kubernetes objects: `python validate.py VERSION…`, run with the tools' Python, reads YAML from
its input and writes one line for each objection. An object without a schema is an objection, not a warning.
"""

import sys
from collections.abc import Iterator
from functools import cache
from typing import Any

import yaml
from kubernetes_validate import utils

# Every object of a version is held against the same large definitions: read them once
utils.schema_contents = cache(utils.schema_contents)


def objections(item: dict[str, Any], version: str) -> Iterator[str]:
    """What a version of Kubernetes has against an object: nothing, or one line."""
    name = f"{version} {item.get('kind')}/{item.get('metadata', {}).get('name')}"
    try:
        utils.validate(item, version, strict=True)
    except utils.ValidationError as error:
        yield f"{name}: {'.'.join(str(part) for part in error.path)}: {error.message}"
    except (utils.SchemaNotFoundError, utils.InvalidSchemaError, utils.VersionNotSupportedError) as error:
        yield f"{name}: {error.message}"


def main() -> int:
    """0 if there is nothing to object to, 1 if there is, 2 if there was nothing to look at."""
    items = [item for item in yaml.safe_load_all(sys.stdin) if item]
    found = [line for version in sys.argv[1:] for item in items for line in objections(item, version)]
    sys.stdout.writelines(f"{line}\n" for line in found)
    return 2 if not items or not sys.argv[1:] else int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
