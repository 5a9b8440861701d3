"""Runs one rollout through its states on a backend: prepare, let the harness work, grade apart, clean up."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from drivetrain.common.harnesses import Harness, fill
from drivetrain.common.tasks import Task, fixed_places
from drivetrain.orchestrator.backends.base import (
    Access,
    Backend,
    BackendError,
    CannotExec,
    Command,
    Exit,
    Lease,
    Sandbox,
)
from drivetrain.orchestrator.grading import MAX_REWARD_BYTES, REWARD_FILES, Verdict, crash, ending, verdict
from drivetrain.orchestrator.preparing import after, beside_service, home_files, setup_script
from drivetrain.orchestrator.rollouts import Ending, State
from drivetrain.orchestrator.trees import TooMuch, remove, write_files

LOG_TAIL = 800
"""Characters of a command's output that an ending's detail quotes."""
SETUP_S = 60.0
"""How long a task's setup may take."""


@dataclass(frozen=True)
class Plan:
    """All that a rollout needs to run. `name` is unique among leases; `values` fill the harness's templates, except
    `work`, `home` and `proxy_url`, which the lease knows; `timeout_s` bounds the harness. `solution` are the
    files of the reference solution, where that is what runs."""

    name: str
    task: Task
    harness: Harness
    values: Mapping[str, str | int]
    timeout_s: float
    solution: Mapping[str, bytes] = field(default_factory=dict)
    access: Access | None = None


class Runner:
    """Runs plans on one backend. `staging` is a local folder for what is on its way into or out of a lease."""

    def __init__(self, backend: Backend, staging: Path) -> None:
        self._backend = backend
        self._staging = staging

    async def run(self, plan: Plan, moved: Callable[[State], None]) -> Ending:
        """Run a plan to its ending; `moved` is told each state that is reached. A backend's failure is an ending of
        its own; when cancelled, the leases are stopped first."""
        if why := self.why_not(plan.task):
            return Ending("cancelled", None, why)
        try:
            with self._staged() as tree:
                ran = await self._let_work(plan, moved, tree)
                if isinstance(ran, Ending):
                    return ran
                moved("grading")
                return ending(ran, await self._grade(plan, tree), plan.timeout_s)
        except BackendError as error:
            return Ending("infrastructure", None, str(error))

    def why_not(self, task: Task) -> str:
        """Why a task cannot run on this backend; empty if it can."""
        if task.container_only:
            return f"{task.name} needs a container: {'; '.join(task.container_only)}"
        if not self._backend.fixed_places and (place := fixed_places(task)):
            variable = "set `isolation` so that bubblewrap is used, or write ${TEST_DIR:-/tests} and the like"
            return f"{task.name} names {place}, and this backend has no such place: {variable}"
        if why := self._backend.refuses(_sandbox(task, task.name)):
            return f"{task.name} cannot have a sandbox here: {why}"
        return ""

    async def _let_work(self, plan: Plan, moved: Callable[[State], None], tree: Path) -> Exit | Ending:
        """Run the harness and copy what is to be graded to `tree`; an Ending if there is nothing to grade."""
        async with self._lease(_sandbox(plan.task, plan.name, plan.access)) as lease:
            await self._prepare(lease, plan.task)
            await self._put(lease, "solution", plan.solution)
            places = {"work": lease.places["work"], "home": lease.places["home"], "proxy_url": lease.proxy_url}
            filled = fill(plan.harness, {**plan.values, **places})
            await self._put(lease, "home", home_files(filled.files, places["home"]))
            argv = after(filled.commands, filled.argv)
            if service := plan.task.service:
                await self._put(lease, "service", service.files)
                argv = beside_service(service.command, argv)
            moved("running")
            try:
                ran = await lease.exec(Command(argv, plan.timeout_s, {**plan.task.environment, **filled.environment}))
            except CannotExec as error:
                return Ending("harness_crash", None, f"{error}: {plan.harness.advice}")
            log = (await lease.logs(LOG_TAIL)).replace(str(plan.values["key"]), "<key>")
            if plan.task.service and await lease.read("tmp/service-failed", 1) is not None:
                raise BackendError(f"the task's service did not start; its last lines: {log}")
            if crashed := crash(plan.harness, ran, log):
                return crashed
            try:
                for path in plan.task.artifacts or ("",):
                    await lease.download(f"work/{path}", tree / path)
            except TooMuch as error:
                return Ending("harness_crash", None, f"{plan.harness.name} left {error} in its work folder")
            return ran

    async def _grade(self, plan: Plan, tree: Path) -> Verdict:
        """Verify a copy of the work; the task's tests join it only here, where no agent runs any more."""
        verify = plan.task.verify
        async with self._lease(_sandbox(plan.task, f"{plan.name}.grade")) as lease:
            if plan.task.artifacts:
                await self._prepare(lease, plan.task)
            await lease.upload(tree, "work")
            await self._put(lease, "tests", verify.files)
            command = Command(
                ("/bin/sh", "-c", verify.command), verify.timeout_s, {**plan.task.environment, **verify.environment}
            )
            try:
                ran = await lease.exec(command)
            except CannotExec as error:
                return Verdict(fault="not_started", detail=f"the verifier did not start: {error}")
            return verdict(verify, ran, await _rewards(lease), await lease.logs(LOG_TAIL))

    async def _prepare(self, lease: Lease, task: Task) -> None:
        """Bring a lease's work folder to where the task begins.

        Raises:
            BackendError: a program is not there, or the setup failed.
        """
        await self._put(lease, "work", task.files)
        if not (script := setup_script(task.needs, task.setup)):
            return
        try:
            ran = await lease.exec(Command(("/bin/sh", "-c", script), SETUP_S, task.environment))
        except CannotExec as error:
            raise BackendError(f"the setup of {task.name} did not start: {error}") from error
        if ran.timed_out or ran.status != 0:
            how = f"did not end within {SETUP_S:g} s" if ran.timed_out else f"ended with status {ran.status}"
            raise BackendError(f"the setup of {task.name} {how}; its last lines: {await lease.logs(LOG_TAIL)}")

    async def _put(self, lease: Lease, place: str, files: Mapping[str, bytes]) -> None:
        if not files:
            return
        with self._staged() as folder:
            try:
                await asyncio.to_thread(write_files, folder, files)
            except OSError as error:
                raise BackendError(f"the task's files cannot be written: {error}") from error
            await lease.upload(folder, place)

    @asynccontextmanager
    async def _lease(self, sandbox: Sandbox) -> AsyncIterator[Lease]:
        lease = await self._backend.start(sandbox)
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


def _sandbox(task: Task, name: str, access: Access | None = None) -> Sandbox:
    return Sandbox(name, task.workdir, task.image, task.resources, access)


async def _rewards(lease: Lease) -> dict[str, bytes]:
    found = {name: await lease.read(f"logs/verifier/{name}", MAX_REWARD_BYTES + 1) for name in REWARD_FILES}
    return {name: content for name, content in found.items() if content is not None}
