"""`drivetrain connect`: the settings that point a harness at the proxy, printed, or put into its files."""

import shlex
import subprocess
from pathlib import Path
from typing import Annotated

import typer

from drivetrain.cli.connecting.files import apply, undo
from drivetrain.cli.connecting.values import resolve
from drivetrain.cli.errors import CliError
from drivetrain.cli.paths import data_dir
from drivetrain.common.declarations import BadDeclaration
from drivetrain.common.harnesses import Filled, Harness, fill_connection, load_harnesses
from drivetrain.common.harnesses.documents import written

Dialect = Annotated[str | None, typer.Option(help="chat, responses, messages or gemini; without it, its first.")]
Folder = Annotated[list[Path] | None, typer.Option("--harnesses", help="A folder with more harness files.")]


def connect(
    name: Annotated[str, typer.Argument(help="The harness; `drivetrain harness list` names them.", metavar="HARNESS")],
    dialect: Annotated[
        str | None, typer.Option(help="chat, responses, messages or gemini; its first if left out.")
    ] = None,
    proxy: Annotated[str | None, typer.Option(help="The proxy's URL; without it, that of the running stack.")] = None,
    key: Annotated[str | None, typer.Option(help="The API key.", envvar="DRIVETRAIN_API_KEY")] = None,
    model: Annotated[str | None, typer.Option(help="The policy; without it, that of the running stack.")] = None,
    context: Annotated[int | None, typer.Option(help="The context window in tokens, as it is told.", min=256)] = None,
    reply: Annotated[int | None, typer.Option(help="The most tokens of a reply, as it is told.", min=16)] = None,
    write: Annotated[bool, typer.Option("--write", help="Put them into its settings files, with a backup.")] = False,
    back: Annotated[bool, typer.Option("--undo", help="Take back what --write did.")] = False,
    harnesses: Folder = None,
) -> None:
    """Point a harness at the proxy: print its settings, or write them."""
    harness = find_harness(name, harnesses)
    record = data_dir() / "connected" / f"{name}.json"
    if back:
        for change in undo(record):
            print(f"{change.path}: {'as it was before' if change.backup else 'removed'}")
        return
    try:
        filled = fill_connection(harness, resolve(proxy, key, model, context, reply), dialect)
    except BadDeclaration as error:
        raise CliError(str(error), status=2) from error
    if not write:
        print(settings_text(harness, filled))
        return
    for command in filled.commands:
        _run(command, harness)
    for change in apply(filled.files, record):
        print(f"{change.path}: written" + (f", what was there before is in {change.backup}" if change.backup else ""))
    if filled.environment:
        print(f"{harness.title} takes the rest from its environment; in the shell that starts it:")
        print(_exports(filled))


def find_harness(name: str, folders: list[Path] | None) -> Harness:
    """A harness by its name.

    Raises:
        CliError: there is no such one, or an adapter file is bad.
    """
    try:
        known = load_harnesses(folders or [])
    except BadDeclaration as error:
        raise CliError(str(error), status=2) from error
    if name not in known:
        raise CliError(f"the harness {name!r} is unknown: use one of {', '.join(sorted(known))}", status=2)
    return known[name]


def settings_text(harness: Harness, filled: Filled) -> str:
    """The settings for a person to copy: each file with what belongs in it, commands, the environment."""
    parts = [f"# {file.path}\n{written(file.format, file.content).rstrip()}" for file in filled.files]
    parts += [shlex.join(command) for command in filled.commands]
    parts += [_exports(filled)] if filled.environment else []
    parts += [f"# {harness.note}"] if harness.note else []
    return "\n\n".join(parts)


def _exports(filled: Filled) -> str:
    return "\n".join(f"export {name}={shlex.quote(value)}" for name, value in filled.environment.items())


def _run(command: tuple[str, ...], harness: Harness) -> None:
    try:
        status = subprocess.run(command, stdin=subprocess.DEVNULL, check=False).returncode
    except FileNotFoundError as error:
        raise CliError(f"{command[0]} is not there: install {harness.title} first") from error
    if status != 0:
        raise CliError(f"{command[0]} ended with status {status}: its settings are as they were")
