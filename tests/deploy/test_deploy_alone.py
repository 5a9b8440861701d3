"""Each service starts with what it declares and nothing else, as in its own image."""

import json
import subprocess
import sys

import pytest

from tests.deploy.services import SERVICES, package_closure

# Everything that the project's environment holds beyond the given packages cannot be found
ALONE = """
import importlib, importlib.machinery as machinery, json, sys
from importlib.metadata import packages_distributions

service, allowed = sys.argv[1], set(json.loads(sys.argv[2]))
normal = lambda name: name.lower().replace("_", "-").replace(".", "-")
owners = {module: {normal(name) for name in names} for module, names in packages_distributions().items()}

class Alone(machinery.PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        parts = name.split(".")
        foreign = parts[0] != "drivetrain" and owners.get(parts[0], allowed).isdisjoint(allowed)
        other = parts[0] == "drivetrain" and len(parts) > 1 and parts[1] not in ("common", service)
        return None if foreign or other else super().find_spec(name, path, target)

sys.meta_path[:] = [Alone if finder is machinery.PathFinder else finder for finder in sys.meta_path]
importlib.import_module(f"drivetrain.{service}.__main__")
print("starts")
"""


# torch takes its time to import
CASES = [pytest.param(name, marks=[pytest.mark.slow] if name == "trainer" else []) for name in SERVICES]


@pytest.mark.parametrize("name", CASES)
def test_a_service_starts_with_only_the_packages_that_it_declares(name: str) -> None:
    packages = json.dumps(sorted(package_closure(name)))
    done = subprocess.run(
        [sys.executable, "-c", ALONE, name, packages], capture_output=True, text=True, timeout=110, check=False
    )
    assert done.stdout == "starts\n", done.stderr


def test_a_package_that_is_not_declared_is_noticed() -> None:
    packages = json.dumps(sorted(package_closure("weights") - {"aiohttp"}))
    done = subprocess.run(
        [sys.executable, "-c", ALONE, "weights", packages], capture_output=True, text=True, timeout=110, check=False
    )
    assert "No module named 'aiohttp'" in done.stderr
