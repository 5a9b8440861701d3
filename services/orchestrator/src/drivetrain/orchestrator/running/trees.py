"""Copying folders in which an agent may have left anything: links are never followed, odd files are skipped."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

MAX_BYTES = 1024**3
MAX_ENTRIES = 100_000
MAX_DEPTH = 100


class TooMuch(ValueError):
    """A tree that is too large to be copied; the message says in what."""


def write_files(root: Path, files: Mapping[str, bytes]) -> None:
    """Write files under a folder; scripts (`#!`) can be run. Paths are relative, without '..'."""
    for name, content in files.items():
        target = _real_parent(root, name) / PurePosixPath(name).name
        remove(target)
        target.write_bytes(content)
        if content.startswith(b"#!"):
            target.chmod(0o755)


def merge_tree(source: Path, target: Path) -> None:
    """Copy a folder's content over another folder: same-named entries are replaced, links in the target included."""
    make_real(target)
    for entry in os.scandir(source):
        into = target / entry.name
        if entry.is_symlink():
            remove(into)
            into.symlink_to(os.readlink(entry.path))
        elif entry.is_dir():
            merge_tree(Path(entry.path), into)
        elif entry.is_file():
            remove(into)
            shutil.copy2(entry.path, into)


def copy_out(root: Path, path: str, to: Path) -> bool:
    """Copy one file or folder below `root` to a local path; False when it is missing or reached through a link.

    Raises:
        TooMuch: before anything is copied.
    """
    source = root / path
    if source.is_symlink() or not source.resolve().is_relative_to(root.resolve()):
        return False
    if not (source.is_dir() or source.is_file()):
        return False
    check_size(source)
    to.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        merge_tree(source, to)
    else:
        shutil.copy2(source, to)
    return True


def read_head(root: Path, path: str, limit: int) -> bytes | None:
    """The first bytes of a file below `root`, None when there is no regular file, or only through a link."""
    source = root / path
    if source.is_symlink() or not source.is_file() or not source.resolve().is_relative_to(root.resolve()):
        return None
    with source.open("rb") as file:
        return file.read(limit)


def check_size(path: Path) -> None:
    """Look at a file or folder before it is copied. A sparse file counts in full: so would its copy.

    Raises:
        TooMuch: beyond `MAX_BYTES`, `MAX_ENTRIES` or `MAX_DEPTH`.
    """
    size = entries = 0
    waiting = [(path, 0)]
    while waiting:
        at, depth = waiting.pop()
        entries += 1
        if at.is_dir() and not at.is_symlink():
            waiting += ((Path(entry.path), depth + 1) for entry in os.scandir(at))
        else:
            size += at.lstat().st_size
        if size > MAX_BYTES:
            raise TooMuch(f"more than {MAX_BYTES // 1024**2} MiB")
        if entries + len(waiting) > MAX_ENTRIES:
            raise TooMuch(f"more than {MAX_ENTRIES} files")
        if depth > MAX_DEPTH:
            raise TooMuch(f"folders more than {MAX_DEPTH} deep")


def remove(path: Path) -> None:
    """Remove a file, a link or a whole folder, whatever its modes and however deep it is; nothing there is fine."""
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return
    try:
        shutil.rmtree(path)
    except (OSError, RecursionError):
        subprocess.run(["chmod", "-R", "u+rwx", "--", path], check=False, capture_output=True)
        subprocess.run(["rm", "-rf", "--", path], check=False, capture_output=True)
        if path.exists():
            raise


def make_real(folder: Path) -> None:
    """Make sure that a folder is one, not a link or a file in its place."""
    if folder.is_symlink() or not folder.is_dir():
        remove(folder)
        folder.mkdir(parents=True)


def _real_parent(root: Path, name: str) -> Path:
    folder = root
    make_real(folder)
    for part in PurePosixPath(name).parent.parts:
        folder = folder / part
        make_real(folder)
    return folder
