"""TCP ports on the loopback interface."""

import socket
from contextlib import ExitStack

from drivetrain.cli.errors import CliError


def free_ports(count: int, host: str = "127.0.0.1") -> list[int]:
    """Ports that nothing listens on, all different. Another program may still take one before it is used."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for listener in sockets:
            listener.bind((host, 0))
        return [listener.getsockname()[1] for listener in sockets]


def require_free(port: int, host: str, option: str) -> None:
    """Check that a port the user named can be listened on.

    Raises:
        CliError: another program has it, or this user may not listen there.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise CliError(
                f"port {port} on {host} cannot be used ({error.strerror}): stop the program that has it, "
                f"or give another one with {option} (0 takes a free one)"
            ) from error
