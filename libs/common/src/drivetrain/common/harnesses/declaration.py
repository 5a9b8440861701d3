"""What a harness adapter declares. An adapter is a TOML file named after the harness.

Its strings are templates: they may use `PLACEHOLDERS` and the values of the chosen dialect; a literal brace is doubled.
"""

from collections.abc import Iterator, Mapping
from string import Formatter
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from drivetrain.common.declarations import BadDeclaration, declare

PLACEHOLDERS = {
    "proxy_url": "the proxy, without a path",
    "key": "the API key: a rollout's own, or a person's",
    "model": "the policy's name",
    "context": "the model's context window in tokens, a number",
    "reply": "the most tokens of a reply, a number",
    "home": "the home folder",
    "work": "the folder to work in",
    "instruction": "what to do",
    "command": "the task's shell command",
}
Dialect = Literal["chat", "responses", "messages", "gemini"]


class SettingsFile(msgspec.Struct, frozen=True, kw_only=True):
    """A settings file of a harness: what Drivetrain puts there, beside what is there already. A `text` is the whole
    file: the value of its one key `text`."""

    path: Annotated[str, Meta(pattern=r"^\{home\}/.")]
    format: Literal["json", "toml", "yaml", "env", "text"]
    content: dict[str, Any]


class Connection(msgspec.Struct, frozen=True, kw_only=True):
    """What points a harness at the proxy, whoever uses it. `commands` are for one that writes its settings itself."""

    environment: dict[str, str] = {}
    files: list[SettingsFile] = []
    commands: list[Annotated[list[str], Meta(min_length=1)]] = []


class End(msgspec.Struct, frozen=True, kw_only=True):
    """How the harness says that it came to an end of its own: any other exit status is a crash.

    `any_status` is for commands whose status says how well they did rather than whether they ran.
    """

    statuses: tuple[int, ...] = (0,)
    any_status: bool = False

    def is_regular(self, status: int) -> bool:
        """Whether an exit status is an end, not a crash. A negative status (killed by a signal) never is."""
        return status >= 0 and (self.any_status or status in self.statuses)


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """How it works on an instruction by itself, without a person; the connection's settings hold too."""

    argv: Annotated[list[str], Meta(min_length=1)]
    environment: dict[str, str] = {}
    files: list[SettingsFile] = []
    end: End = End()


class Installation(msgspec.Struct, frozen=True, kw_only=True):
    """How to get it. `command` installs into `{folder}`, whose folders `path` then hold its program and what that
    needs; `tested` is the version that was seen to work, and `version` the command that prints the one that is there.
    Without `tested` the adapter was written from documentation."""

    command: str
    path: list[str] = []
    version: list[str] = []
    tested: str | None = None


class Harness(msgspec.Struct, frozen=True, kw_only=True):
    """One harness. The first of `dialects` is used unless another is asked for; each brings values for templates."""

    name: Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$")]
    title: str
    install: Installation
    dialects: Annotated[dict[Dialect, dict[str, str]], Meta(min_length=1)]
    connect: Connection = Connection()
    run: Run
    note: str = ""

    @property
    def program(self) -> str:
        """The program's name, as it is looked for."""
        return self.install.version[0] if self.install.version else self.run.argv[0]

    @property
    def advice(self) -> str:
        """What to do where the program is missing."""
        version = f" {self.install.tested}" if self.install.tested else ""
        return (
            f"install {self.title}{version} (`drivetrain harness list` shows how) and name its folder in harness_path"
        )


def parse_harness(data: Mapping[str, Any], where: str) -> Harness:
    """A harness from the content of its file.

    Raises:
        BadDeclaration: an unknown key or placeholder, a missing key, a wrong type.
    """
    harness = declare(data, Harness, where)
    names = set(PLACEHOLDERS)
    for dialect, values in harness.dialects.items():
        _check_templates(values, f"dialects.{dialect}", where, names)
    shared = set.intersection(*(set(values) for values in harness.dialects.values()))
    for part in ("connect", "run"):
        _check_templates(msgspec.to_builtins(getattr(harness, part)), part, where, names | shared)
    return harness


def _check_templates(value: Any, key: str, where: str, names: set[str]) -> None:
    for place, template in _templates(value, key):
        try:
            fields = [found[1:] for found in Formatter().parse(template)]
        except ValueError as error:
            raise BadDeclaration(f"{where}: {place} is no template ({error}): double a literal brace") from error
        for name, spec, conversion in fields:
            if name is not None and (name not in names or spec or conversion):
                known = ", ".join(sorted(names))
                raise BadDeclaration(f"{where}: {place} uses {{{name}}}: use one of {known}, or double a literal brace")


def _templates(value: Any, key: str) -> Iterator[tuple[str, str]]:
    """Every string in a declaration, with where it stands; keys of mappings are templates too."""
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _templates(name, f"{key}.{name}")
            yield from _templates(inner, f"{key}.{name}")
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _templates(inner, f"{key}[{index}]")
