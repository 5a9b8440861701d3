"""Runs one rollout through its states on a backend: prepare, let the harness work, grade in a fresh copy, clean up."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from drivetrain.orchestrator.backends.base import Backend, BackendError, CannotExec, Command, Exit, Lease
from drivetrain.orchestrator.grading import Verdict, crash, ending, verdict
from drivetrain.orchestrator.harnesses import Harness
from drivetrain.orchestrator.rollouts import Ending, State
from drivetrain.orchestrator.tasks import Task
from drivetrain.orchestrator.trees import discard, read_small, remove, write_files

LOG_TAIL = 800
"""Characters of a command's output that an ending's detail quotes."""


@dataclass(frozen=True)
class Plan:
    """All that a rollout needs to run. `name` is unique among leases; `values` fill the harness's templates, except
    `work` and `home`, which the lease knows; `timeout_s` bounds the harness."""

    name: str
    task: Task
    harness: Harness
    values: Mapping[str, str]
    timeout_s: float

    @property
    def key(self) -> str:
        return self.values["key"]


class Runner:
    """Runs plans on one backend. `staging` is a local folder for what is on its way into or out of a lease."""

    def __init__(self, backend: Backend, staging: Path) -> None:
        self._backend = backend
        self._staging = staging

    async def run(self, plan: Plan, moved: Callable[[State], None]) -> Ending:
        """Run a plan to its ending; `moved` is told each state that is reached. A backend's failure is an ending of
        its own; when cancelled, the leases are stopped first."""
        try:
            with self._staged() as tree:
                ran = await self._let_work(plan, moved, tree)
                if isinstance(ran, Ending):
                    return ran
                moved("grading")
                return ending(ran, await self._grade(plan, tree), plan.timeout_s)
        except BackendError as error:
            return Ending("infrastructure", None, str(error))

    async def _let_work(self, plan: Plan, moved: Callable[[State], None], tree: Path) -> Exit | Ending:
        """Run the harness and copy its work folder to `tree`; an Ending if there is nothing to grade."""
        async with self._lease(plan.name) as lease:
            await self._put(lease, plan.task.files)
            argv, environment = plan.harness.fill({**plan.values, "work": lease.work, "home": lease.home})
            moved("running")
            try:
                ran = await lease.exec(Command(argv, plan.timeout_s, environment))
            except CannotExec as error:
                return Ending("harness_crash", None, f"{error}: {plan.harness.install}")
            log = (await lease.logs(LOG_TAIL)).replace(plan.key, "<key>")
            if crashed := crash(plan.harness, ran, log):
                return crashed
            await lease.download("work", tree)
            return ran

    async def _grade(self, plan: Plan, tree: Path) -> Verdict:
        """Verify a copy of the work; the task's tests join it only here, where no agent runs any more."""
        verify = plan.task.verify
        if verify.reward_file is not None:
            discard(tree, verify.reward_file)
        async with self._lease(f"{plan.name}.grade") as lease:
            await lease.upload(tree, "work")
            await self._put(lease, verify.files)
            try:
                ran = await lease.exec(Command(("/bin/sh", "-c", verify.command), verify.timeout_s))
            except CannotExec as error:
                raise BackendError(f"the verifier did not start: {error}") from error
            reward = await self._reward(lease, verify.reward_file)
            return verdict(verify, ran, reward, await lease.logs(LOG_TAIL))

    async def _reward(self, lease: Lease, name: str | None) -> str | None:
        if name is None:
            return None
        with self._staged() as folder:
            await lease.download(f"work/{name}", folder / "reward")
            return read_small(folder / "reward")

    async def _put(self, lease: Lease, files: Mapping[str, str]) -> None:
        if not files:
            return
        with self._staged() as folder:
            try:
                await asyncio.to_thread(write_files, folder, files)
            except OSError as error:
                raise BackendError(f"the task's files cannot be written: {error}") from error
            await lease.upload(folder, "work")

    @asynccontextmanager
    async def _lease(self, name: str) -> AsyncIterator[Lease]:
        lease = await self._backend.start(name)
        try:
            yield lease
        finally:
            await lease.stop()

    @contextmanager
    def _staged(self) -> Iterator[Path]:
        """A temporary local folder.

        Raises:
            BackendError: the disk refuses it.
        """
        try:
            folder = Path(tempfile.mkdtemp(dir=self._staging))
        except OSError as error:
            raise BackendError(f"no temporary folder in {self._staging}: {error.strerror}") from error
        try:
            yield folder
        finally:
            remove(folder)
