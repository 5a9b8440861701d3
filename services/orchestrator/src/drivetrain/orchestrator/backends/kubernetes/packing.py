"""Folders as streams of tar: what an agent left in one is untrusted, and no link in it is followed."""

import copy
import tarfile
from pathlib import Path
from typing import IO

from drivetrain.orchestrator.backends.base import BackendError
from drivetrain.orchestrator.running.trees import MAX_DEPTH, MAX_ENTRIES, TooMuch, check_size, copy_out, merge_tree


def pack(tree: Path, to: IO[bytes]) -> int:
    """Write a folder's content; returns the bytes. The stream is left at its beginning."""
    with tarfile.open(fileobj=to, mode="w|") as archive:
        for entry in sorted(tree.iterdir()):
            archive.add(entry, entry.name, filter=_plain)
    size = to.tell()
    to.seek(0)
    return size


def unpack(source: IO[bytes], by_way_of: Path, to: Path) -> None:
    """Copy what a stream holds to a local path: one file becomes that file, a folder's content goes over that folder.

    Raises:
        TooMuch: it is more than may be copied.
        BackendError: it is no archive, or one that leads out of its folder.
    """
    whole = True
    try:
        with tarfile.open(fileobj=source, mode="r|") as archive:
            for count, member in enumerate(archive):
                if count > MAX_ENTRIES:
                    raise TooMuch(f"more than {MAX_ENTRIES} files")
                if member.name.count("/") > MAX_DEPTH:
                    raise TooMuch(f"folders more than {MAX_DEPTH} deep")
                whole = whole and (member.name == "." or count > 0)
                if member.isdir() or member.isreg() or member.issym():
                    archive.extract(member, by_way_of, set_attrs=not member.isdir(), filter=_safe)
    except (tarfile.TarError, OSError) as error:
        raise BackendError(f"copying out of the sandbox failed: {error}") from error
    check_size(by_way_of)
    if whole:
        merge_tree(by_way_of, to)
    else:
        copy_out(by_way_of, next(by_way_of.iterdir()).name, to)


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Only what a task is made of, and nobody's in particular."""
    if not (member.isdir() or member.isreg() or member.issym()):
        return None
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def _safe(member: tarfile.TarInfo, path: str) -> tarfile.TarInfo:
    """A link is kept as it is, wherever it leads; nothing is written through one."""
    if member.issym():
        place = copy.copy(member)
        place.type, place.linkname = tarfile.REGTYPE, ""
        tarfile.data_filter(place, path)
        return member
    return tarfile.data_filter(member, path)
