"""Runs inside a sandbox without a network: port `argv[1]` of its loopback interface leads to the unix socket `argv[2]`.
The rest of the line is the command, which this becomes when the port is open.

It is given to the sandbox as a file, and started by whatever Python there is: only the standard library, and little of
that, as it is on the way of every command.
"""

import os
import signal
import socket
import sys
from _thread import start_new_thread
from contextlib import suppress

CHUNK = 65_536


def pump(source: socket.socket, target: socket.socket) -> None:
    """Everything that comes, until it ends; then the other side is told so."""
    with suppress(OSError):
        while data := source.recv(CHUNK):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def join(near: socket.socket, path: str) -> None:
    """Carry one connection; it ends when the far side has said everything."""
    with near, socket.socket(socket.AF_UNIX) as far, suppress(OSError):
        far.connect(path)
        start_new_thread(pump, (near, far))
        pump(far, near)
        near.shutdown(socket.SHUT_RDWR)


def serve(listener: socket.socket, path: str) -> None:
    """Accept for ever."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        near, _ = listener.accept()
        near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        start_new_thread(join, (near, path))


def main() -> None:
    port, path, program, *rest = sys.argv[1:]
    listener = socket.create_server(("127.0.0.1", int(port)), backlog=128)
    if os.fork() == 0:
        serve(listener, path)
    listener.close()
    os.execvp(program, [program, *rest])


main()
