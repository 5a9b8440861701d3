"""What a harness adapter declares, and how its templates are filled.

An adapter is a TOML file named after the harness. Its templates may use `PLACEHOLDERS`; a literal brace is doubled.
Values are inserted as they are: an instruction with braces in it is not a template.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from string import Formatter
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from drivetrain.common.declarations import BadDeclaration, declare, read_toml

PLACEHOLDERS = frozenset({"proxy_url", "key", "model", "instruction", "command", "work", "home"})
"""proxy_url: the proxy, without a path; key: the rollout's API key; model: the policy's name; work, home: folders."""


class HarnessEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How the harness says that it came to an end of its own: any other exit status is a crash.

    `any_status` is for commands whose status says how well they did rather than whether they ran.
    """

    statuses: tuple[int, ...] = (0,)
    any_status: bool = False

    def is_regular(self, status: int) -> bool:
        """Whether an exit status is an end, not a crash. A negative status (killed by a signal) never is."""
        return status >= 0 and (self.any_status or status in self.statuses)


class Harness(msgspec.Struct, frozen=True, kw_only=True):
    """One harness: the command that runs it on an instruction, and the environment that points it at the proxy."""

    name: Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$")]
    argv: Annotated[list[str], Meta(min_length=1)]
    install: str
    environment: dict[str, str] = {}
    end: HarnessEnd = HarnessEnd()

    def fill(self, values: Mapping[str, str]) -> tuple[tuple[str, ...], dict[str, str]]:
        """The command line and the environment, with every placeholder replaced; `values` holds all of them."""
        argv = tuple(part.format_map(values) for part in self.argv)
        return argv, {name: text.format_map(values) for name, text in self.environment.items()}


def parse_harness(data: Mapping[str, Any], where: str) -> Harness:
    """A harness from the content of its file.

    Raises:
        BadDeclaration: an unknown key or placeholder, a missing key, a wrong type.
    """
    harness = declare(data, Harness, where)
    for index, template in enumerate(harness.argv):
        _check_template(template, f"argv[{index}]", where)
    for name, template in harness.environment.items():
        _check_template(template, f"environment.{name}", where)
    return harness


def load_harnesses(folders: Iterable[Path]) -> dict[str, Harness]:
    """The harnesses in the `*.toml` files of some folders, by name; a later folder overrides an earlier one.

    Raises:
        BadDeclaration: a folder is missing, a file is bad, or its name is not its harness's.
    """
    found: dict[str, Harness] = {}
    for folder in folders:
        if not folder.is_dir():
            raise BadDeclaration(f"the harness folder {folder} does not exist: create it or correct harness_folders")
        for path in sorted(folder.glob("*.toml")):
            harness = parse_harness(read_toml(path), str(path))
            if harness.name != path.stem:
                raise BadDeclaration(f"{path}: name is {harness.name!r}: rename the file or the harness to agree")
            found[harness.name] = harness
    return found


def built_in_folder() -> Path:
    """Where the adapters that come with the orchestrator lie."""
    return Path(__file__).parent


def _check_template(template: str, key: str, where: str) -> None:
    try:
        fields = [(name, spec, conversion) for _, name, spec, conversion in Formatter().parse(template)]
    except ValueError as error:
        raise BadDeclaration(f"{where}: {key} is no template ({error}): double a literal brace") from error
    for name, spec, conversion in fields:
        if name is not None and (name not in PLACEHOLDERS or spec or conversion):
            known = ", ".join(sorted(PLACEHOLDERS))
            raise BadDeclaration(f"{where}: {key} uses {{{name}}}: use one of {known}, or double a literal brace")
