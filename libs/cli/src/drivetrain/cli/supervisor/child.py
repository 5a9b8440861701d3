"""One running process in a session of its own, so that its grandchildren can be ended with it."""

import asyncio
import contextlib
import os
import signal
from pathlib import Path

from drivetrain.cli.supervisor.logs import tail
from drivetrain.cli.supervisor.spec import ProcessSpec


class Child:
    """A started process; its output goes to the log file directly, so that nothing is lost when we die first."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path, log_start: int) -> None:
        self._process = process
        self._log = log
        self._log_start = log_start
        self._group_gone = False

    @classmethod
    async def start(cls, spec: ProcessSpec, log: Path) -> "Child":
        """Start the process with this process's environment plus the spec's.

        Raises:
            OSError: the program does not exist or cannot be run.
        """
        with log.open("ab") as output:
            begin = output.tell()
            process = await asyncio.create_subprocess_exec(
                *spec.command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=asyncio.subprocess.STDOUT,
                env={**os.environ, **spec.env},
                start_new_session=True,
            )
        return cls(process, log, begin)

    @property
    def pid(self) -> int:
        return self._process.pid

    def tail(self, lines: int = 20) -> str:
        """The last lines that this process wrote."""
        return tail(self._log, lines, self._log_start)

    async def wait(self) -> int:
        """The exit status (negative: the signal that ended it), once it and its process group are gone."""
        status = await self._process.wait()
        self.kill_group()
        return status

    async def stop(self, grace_s: float) -> None:
        """SIGTERM to the process, which ends its own children; what is left of its group after `grace_s` is killed."""
        if self._process.returncode is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(grace_s):
                await self._process.wait()
        except TimeoutError:
            pass
        finally:
            self.kill_group()
        await self._process.wait()

    def kill_group(self) -> None:
        """SIGKILL to whatever is left of the process's group; nothing once the group is gone (its number may be
        another's by then)."""
        if self._group_gone:
            return
        # Nobody left; macOS says EPERM for a group of zombies
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._group_gone = self._process.returncode is not None
