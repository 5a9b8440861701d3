"""Changing a person's settings files so that the change can be taken back.

A record by harness names the files that were changed, what they hold since, and where the text from before lies.
"""

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from drivetrain.cli.errors import CliError
from drivetrain.common.harnesses import SettingsFile
from drivetrain.common.harnesses.documents import BadDocument, written

BACKUP = ".before-drivetrain"


class Change(msgspec.Struct, frozen=True):
    """One changed file. `backup` is None if there was no such file before; `digest` is of what was written."""

    path: str
    backup: str | None
    digest: str


def apply(files: Sequence[SettingsFile], record: Path) -> list[Change]:
    """Put the contents into their files, all of them or none. A second time keeps the backups of the first.

    Raises:
        CliError: a file is not what its format says, or cannot be written.
    """
    earlier = {change.path: change for change in _read(record)} if record.exists() else {}
    texts = [(Path(file.path), _text(file)) for file in files]
    changes = []
    for path, text in texts:
        known = earlier.get(str(path))
        backup = known.backup if known else _back_up(path)
        changes.append(Change(str(path), backup, _digest(text)))
    others = [change for path, change in earlier.items() if path not in {change.path for change in changes}]
    _write(record, msgspec.json.encode(others + changes).decode())
    for path, text in texts:
        _write(path, text)
    return changes


def undo(record: Path) -> list[Change]:
    """Put back what was there before.

    Raises:
        CliError: nothing was changed, or a file was edited since; then no file is touched.
    """
    if not record.exists():
        raise CliError("nothing to undo: no settings of it were written by `drivetrain connect --write`")
    changes = _read(record)
    for change in changes:
        path = Path(change.path)
        if path.exists() and _digest(path.read_text(encoding="utf-8")) != change.digest:
            before = f"what was there before is in {change.backup}" if change.backup else "there was none before"
            raise CliError(f"{path} was edited since: change it by hand ({before}), then delete {record}")
    for change in changes:
        if change.backup:
            os.replace(change.backup, change.path)
        else:
            Path(change.path).unlink(missing_ok=True)
    record.unlink()
    return changes


def _text(file: SettingsFile) -> str:
    path = Path(file.path)
    try:
        return written(file.format, file.content, path.read_text(encoding="utf-8") if path.exists() else "")
    except BadDocument as error:
        raise CliError(f"{path} is left as it is: {error}: correct or remove it") from error
    except (OSError, UnicodeDecodeError) as error:
        raise CliError(f"{path} cannot be read ({error}): correct or remove it") from error


def _back_up(path: Path) -> str | None:
    if not path.exists():
        return None
    backup = path.with_name(path.name + BACKUP)
    _write(backup, path.read_text(encoding="utf-8"))
    return str(backup)


def _write(path: Path, text: str) -> None:
    """Replace a file in one step; only its owner may read it, for it may hold a key."""
    fresh = path.with_name(path.name + ".new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(fresh, path)
    except OSError as error:
        raise CliError(f"{path} cannot be written ({error.strerror}): make its folder writable") from error


def _read(record: Path) -> list[Change]:
    try:
        return msgspec.json.decode(record.read_bytes(), type=list[Change])
    except msgspec.DecodeError as error:
        raise CliError(
            f"{record} cannot be read ({error}): restore the *{BACKUP} files by hand and delete it"
        ) from error


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
