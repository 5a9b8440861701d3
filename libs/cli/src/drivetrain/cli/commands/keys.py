"""`drivetrain keys`: make API keys for people and tools, see which there are, take them back."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from filelock import FileLock
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from drivetrain.cli.errors import CliError
from drivetrain.common.keys import BadKeys, KeyEntry, hash_of, new_key, read_keys, write_keys

keys = typer.Typer(help="API keys of the proxy: add, list, revoke.", no_args_is_help=True)

File = Annotated[
    Path, typer.Option("--file", help="The keys file, `access.keys` of the proxy.", envvar="DRIVETRAIN_KEYS_FILE")
]
DEFAULT = Path("keys.toml")
_UNITS = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1)}


@keys.command()
def add(
    name: Annotated[str, typer.Option(help="Whose key it is, for people to read.")] = "",
    tenant: Annotated[str, typer.Option(help="Who shares conversations with this key.")] = "local",
    role: Annotated[str, typer.Option(help="person, rollout or admin.")] = "person",
    policy: Annotated[list[str] | None, typer.Option(help="A policy it is good for; repeat it. Without: all.")] = None,
    consent: Annotated[str | None, typer.Option(help="The most that may be kept: off, record or train.")] = None,
    requests: Annotated[int | None, typer.Option("--requests-per-minute", help="Over all replicas.")] = None,
    tokens: Annotated[int | None, typer.Option("--tokens-per-minute", help="Prompt and reply together.")] = None,
    expires: Annotated[str | None, typer.Option(help="Its end: 90d, 12h, 30m, or a time such as 2030-01-31.")] = None,
    file: File = DEFAULT,
) -> None:
    """Make a key and print it. It is shown this once: the file keeps only its hash."""
    now = datetime.now(UTC)
    key, key_id = new_key()
    fields = {
        "hash": hash_of(key),
        "name": name,
        "tenant": tenant,
        "role": role,
        "policies": policy or None,
        "consent": consent,
        "requests_per_minute": requests,
        "tokens_per_minute": tokens,
        "created": now.replace(microsecond=0),
        "expires": moment(expires, now) if expires else None,
    }
    try:
        entry = msgspec.convert(fields, KeyEntry)
        with _changing(file) as entries:
            entries[key_id] = entry
            read_keys(write_keys(entries))  # what the proxy would refuse is not written
    except (msgspec.ValidationError, BadKeys) as error:
        raise CliError(f"no such key can be made: {error}", status=2) from error
    print(key)


@keys.command("list")
def list_keys(file: File = DEFAULT) -> None:
    """Show the keys that are good, and those that have expired."""
    entries, now = _read(file), datetime.now(UTC).timestamp()
    table = Table("id", "name", "tenant", "role", "policies", "consent", "limits", "expires")
    for key_id, entry in entries.items():
        words = [key_id, entry.name, entry.tenant, entry.role, ", ".join(entry.policies or ["all"])]
        words += [entry.consent or "as the service", _limits(entry), _end(entry, now)]
        table.add_row(*map(escape, words))
    Console().print(table if entries else "No keys.")


@keys.command()
def revoke(key_id: Annotated[str, typer.Argument(help="From `drivetrain keys list`.")], file: File = DEFAULT) -> None:
    """Take a key back: the proxy refuses it within a second."""
    with _changing(file) as entries:
        if key_id not in entries:
            raise CliError(f"{file} has no key {key_id!r}: see `drivetrain keys list`", status=2)
        del entries[key_id]
    print(f"Revoked {key_id}.")


def moment(text: str, now: datetime) -> datetime:
    """A point in time: so long after `now`, or as written (UTC unless it says otherwise).

    Raises:
        CliError: it is neither, or not in the future.
    """
    if matched := re.fullmatch(r"(\d{1,5})([mhd])", text):
        found = now + int(matched[1]) * _UNITS[matched[2]]
    else:
        try:
            found = datetime.fromisoformat(text)
        except ValueError as error:
            raise CliError(f"--expires {text}: give 90d, 12h, 30m or a time such as 2030-01-31", status=2) from error
    found = (found if found.tzinfo else found.replace(tzinfo=UTC)).replace(microsecond=0)
    if found <= now:
        raise CliError(f"--expires {text}: that is over already", status=2)
    return found


def _read(file: Path) -> dict[str, KeyEntry]:
    try:
        return read_keys(file.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise CliError(f"{file}: {error}", status=2) from error


@contextmanager
def _changing(file: Path) -> Iterator[dict[str, KeyEntry]]:
    """The file's entries; what is done to them is written when the block ends without an error."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{file}.lock"):
        entries = _read(file)
        yield entries
        _replace(file, write_keys(entries))


def _replace(file: Path, text: str) -> None:
    """Write a file whole or not at all, for its owner alone; a mode that was given to it stays."""
    mode = file.stat().st_mode & 0o777 if file.exists() else 0o600
    new = file.with_name(file.name + ".new")
    new.unlink(missing_ok=True)
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as opened:
        opened.write(text)
        os.fchmod(opened.fileno(), mode)
    new.replace(file)


def _limits(entry: KeyEntry) -> str:
    both = [(entry.requests_per_minute, "requests"), (entry.tokens_per_minute, "tokens")]
    return ", ".join(f"{limit} {what}/min" for limit, what in both if limit) or "none"


def _end(entry: KeyEntry, now: float) -> str:
    if entry.expires is None:
        return "never"
    return "expired" if entry.expired(now) else entry.expires.isoformat(timespec="minutes")
