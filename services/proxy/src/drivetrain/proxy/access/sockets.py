"""Unix sockets: made whole before they can be seen, for whom they are meant, and gone when their owner ends."""

import os
import socket
import tempfile
from pathlib import Path

from drivetrain.common.errors import CannotStart

_LONGEST = 107
"""Bytes of a path that the kernel takes."""


class SocketPath:
    """A listening unix socket at a path. `listener` accepts; `close` removes the path if it is still this socket's."""

    def __init__(self, path: Path, mode: int) -> None:
        """
        Raises:
            CannotStart: something else is at the path, or another process listens there, or it cannot be made.
        """
        self.path = path.absolute()
        if len(os.fsencode(self.path)) > _LONGEST:
            raise CannotStart(f"the socket's path {self.path} is longer than {_LONGEST} bytes: choose a shorter folder")
        try:
            _require_free(self.path)
            self.listener = _bound(self.path, mode)
            self._inode = self.path.stat().st_ino
        except OSError as error:
            raise CannotStart(f"cannot listen on {self.path} ({error.strerror or error}): set another path") from error

    def close(self) -> None:
        """Stop listening."""
        self.listener.close()
        try:
            if self.path.stat().st_ino == self._inode:
                self.path.unlink()
        except FileNotFoundError:
            return


def _bound(path: Path, mode: int) -> socket.socket:
    """Bind in a folder that nobody else can enter, so that the socket never has other permissions than its own."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with tempfile.TemporaryDirectory(prefix=".", dir=path.parent) as folder:
            made = Path(folder) / "s"
            listener.bind(str(made))
            made.chmod(mode)
            listener.listen(2048)
            made.replace(path)
    except OSError:
        listener.close()
        raise
    return listener


def _require_free(path: Path) -> None:
    """Whatever a killed predecessor left may be replaced; a socket that answers and other files may not."""
    if not path.exists():
        return
    if not path.is_socket():
        raise CannotStart(f"{path} is there and is no socket: set another path, or move that file away")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return
    raise CannotStart(f"another process listens on {path}: end it, or set another path")
