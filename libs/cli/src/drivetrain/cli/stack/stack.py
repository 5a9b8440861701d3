"""A running stack: takes the lock, finds ports, supervises, and leaves nothing running."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import ExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from drivetrain.cli.lock import hold_lock
from drivetrain.cli.paths import data_dir
from drivetrain.cli.ports import free_ports, require_free
from drivetrain.cli.stack.config import SERVICES, StackConfig
from drivetrain.cli.stack.leftovers import MARK, end_marked
from drivetrain.cli.stack.processes import Ports, process_list
from drivetrain.cli.stack.runfile import Run, RunProcess, StackUrls
from drivetrain.cli.supervisor import ProcessEvent, ProcessSpec, ProcessState, Supervisor
from drivetrain.common.identity import new_secret

OnEvent = Callable[[ProcessEvent], None]


class Stack:
    """Entering starts everything and returns when all is ready; leaving ends everything within 10 seconds.

    Entering raises CliError: another stack runs, a port is taken, a program is missing, or a process was given up
    (the message then holds the end of its log).
    """

    def __init__(self, config: StackConfig, on_event: OnEvent = lambda event: None) -> None:
        self.config = replace(config, run_dir=config.run_dir.absolute())
        self._on_event = on_event
        self._held = ExitStack()
        self._started_at = time.time()
        self._supervisor: Supervisor
        self.urls: StackUrls

    @property
    def run_dir(self) -> Path:
        """The folder of this run."""
        return self.config.run_dir

    def log(self, process: str) -> Path:
        """The log file of a process."""
        return self.run_dir / "logs" / f"{process}.log"

    def processes(self) -> Mapping[str, ProcessState]:
        """How every process stands now."""
        return self._supervisor.states()

    async def __aenter__(self) -> Self:
        left = self._held.enter_context(hold_lock(data_dir(), self.run_dir))
        try:
            if left:
                await asyncio.to_thread(end_marked, left.run_dir)
            self._supervisor = Supervisor(self._prepare(), self.run_dir / "logs", self._changed)
            await self._start()
        except BaseException:
            self._held.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._held:
            await self._stop()

    async def wait(self) -> None:
        """Wait until a process is given up, and raise its CliError."""
        await self._supervisor.wait()

    @asynccontextmanager
    async def guard(self) -> AsyncIterator[None]:
        """Work that needs the stack: cancelled, with the process's CliError raised, when a process is given up."""
        task = asyncio.current_task()
        assert task is not None
        watch = asyncio.create_task(self.wait())
        watch.add_done_callback(lambda done: None if done.cancelled() else task.cancel())
        try:
            yield
        except asyncio.CancelledError:
            if watch.done() and (failure := watch.exception()):
                task.uncancel()
                raise failure from None
            raise
        finally:
            watch.cancel()

    def _prepare(self) -> list[ProcessSpec]:
        ports = _choose_ports(self.config.proxy_port)
        self.urls = ports.urls()
        for folder in ("logs", "nats", "valkey"):
            (self.run_dir / folder).mkdir(parents=True, exist_ok=True)
        specs = process_list(self.config, ports, _secret(self.run_dir))
        return [replace(spec, env={**spec.env, MARK: str(self.run_dir)}) for spec in specs]

    async def _start(self) -> None:
        try:
            await self._supervisor.start()
        except BaseException:
            await self._stop()
            raise

    async def _stop(self) -> None:
        try:
            await self._supervisor.stop()
        finally:
            end_marked(str(self.run_dir), grace_s=0.5)
            self._write()

    def _changed(self, event: ProcessEvent) -> None:
        self._write()
        self._on_event(event)

    def _write(self) -> None:
        states = self._supervisor.states()
        Run(
            pid=os.getpid(),
            started_at=self._started_at,
            run_dir=str(self.run_dir),
            model=self.config.model,
            policy=self.config.policy,
            method=self.config.method,
            urls=self.urls,
            processes={n: RunProcess(s.pid, s.state, s.restarts, str(s.log)) for n, s in states.items()},
        ).write()


def _choose_ports(proxy_port: int) -> Ports:
    if proxy_port:
        require_free(proxy_port, "127.0.0.1", "--port")
    proxy, nats, monitor, valkey, vllm, *admin = free_ports(5 + len(SERVICES))
    return Ports(proxy_port or proxy, nats, monitor, valkey, vllm, dict(zip(SERVICES, admin, strict=True)))


def _secret(run_dir: Path) -> str:
    """The secret behind session ids and rollout keys: a continued run needs the same one."""
    file = run_dir / "secret"
    if not file.exists():
        file.touch(mode=0o600)
        file.write_text(new_secret())
    return file.read_text()
