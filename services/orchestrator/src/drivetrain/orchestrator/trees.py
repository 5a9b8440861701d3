"""Copying folders in which an agent may have left anything: links are never followed, odd files are skipped."""

import os
import shutil
import stat
from collections.abc import Mapping
from pathlib import Path, PurePosixPath


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
    """Copy one file or folder below `root` to a local path; False when it is missing or reached through a link."""
    source = root / path
    if source.is_symlink() or not source.resolve().is_relative_to(root.resolve()):
        return False
    to.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        merge_tree(source, to)
    elif source.is_file():
        shutil.copy2(source, to)
    else:
        return False
    return True


def read_head(root: Path, path: str, limit: int) -> bytes | None:
    """The first bytes of a file below `root`, None when there is no regular file, or only through a link."""
    source = root / path
    if source.is_symlink() or not source.is_file() or not source.resolve().is_relative_to(root.resolve()):
        return None
    with source.open("rb") as file:
        return file.read(limit)


def remove(path: Path) -> None:
    """Remove a file, a link or a whole folder whatever its modes are; nothing there is fine."""
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return
    path.chmod(stat.S_IRWXU)
    for folder, names, _ in os.walk(path):
        for name in names:
            inner = Path(folder, name)
            if not inner.is_symlink():
                inner.chmod(stat.S_IRWXU)
    shutil.rmtree(path)


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
