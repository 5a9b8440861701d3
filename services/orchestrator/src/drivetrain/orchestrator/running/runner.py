"""Runs one attempt through its states on a backend: prepare, let the harness work, grade apart, clean up."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from drivetrain.common.events import RolloutState
from drivetrain.common.harnesses import Harness, fill
from drivetrain.common.tasks import Task, Verify, fixed_places
from drivetrain.orchestrator.backends.base import Access, Backend, BackendError, CannotExec, Command, Lease, Sandbox
from drivetrain.orchestrator.lifecycle.rollouts import Ending
from drivetrain.orchestrator.running.grading import (
    MAX_REWARD_BYTES,
    REWARD_FILES,
    Verdict,
    Work,
    crash,
    ending,
    verdict,
)
from drivetrain.orchestrator.running.preparing import after, beside_service, home_files, setup_script
from drivetrain.orchestrator.running.staging import Staging
from drivetrain.orchestrator.running.trees import TooMuch

LOG_TAIL = 800
"""Characters of a command's output that an ending's detail quotes."""
LOG_KEPT = 16_384
"""Characters of the harness's output that are kept with the rollout's end."""
SETUP_S = 60.0
"""How long a task's setup may take."""
MARGIN_S = 120.0
"""How much longer than the commands in it a sandbox may live: starting, copying, ending."""

Moved = Callable[[RolloutState], Awaitable[None]]


class NotPrepared(RuntimeError):
    """The task itself cannot be set up here: another attempt would end the same way."""


@dataclass(frozen=True)
class Plan:
    """All that an attempt needs to run. `name` is unique among leases; `values` fill the harness's templates, except
    `work`, `home` and `proxy_url`, which the lease knows; `timeout_s` bounds the harness. `solution` are the
    files of the reference solution, where that is what runs."""

    name: str
    task: Task
    harness: Harness
    values: Mapping[str, str | int]
    timeout_s: float
    solution: Mapping[str, bytes] = field(default_factory=dict)
    access: Access | None = None
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def work(self) -> Sandbox:
        """Where the harness works."""
        return self._sandbox(self.name, SETUP_S + self.timeout_s, self.access)

    @property
    def grade(self) -> Sandbox:
        """Where its work is graded."""
        verify_s = self.task.verify.timeout_s if self.task.verify else 0.0
        sandbox = self._sandbox(f"{self.name}.grade", SETUP_S + verify_s)
        return replace(sandbox, seeded=bool(self.task.artifacts))

    def _sandbox(self, name: str, commands_s: float, access: Access | None = None) -> Sandbox:
        task, lifetime_s = self.task, commands_s + MARGIN_S
        return Sandbox(
            name,
            task.workdir,
            task.image,
            task.resources,
            access,
            lifetime_s=lifetime_s,
            labels=self.labels,
        )


class Runner:
    """Runs plans on one backend. `staging` is a local folder for what is on its way into or out of a lease; with
    `salvage` the work of a harness that ran out of time or context is graded as it is."""

    def __init__(self, backend: Backend, staging: Path, salvage: bool = True) -> None:
        self._backend, self._staging, self._salvage = backend, Staging(staging), salvage

    async def run(self, plan: Plan, moved: Moved) -> Ending:
        """Run a plan to its ending; `moved` is told each state that is reached. A backend's failure is an ending of
        its own; when cancelled, the leases are stopped first."""
        if why := self.why_not(plan):
            return Ending("cancelled", None, why)
        await moved("starting")
        try:
            with self._staging.tree() as tree:
                work = await self._let_work(plan, moved, tree)
                if isinstance(work, Ending):
                    return work
                if plan.task.verify is None or (work.cut and not self._salvage):
                    return ending(work, None)
                await moved("grading")
                return ending(work, await self._grade(plan, plan.task.verify, tree))
        except NotPrepared as error:
            return Ending("infrastructure", None, str(error))
        except BackendError as error:
            return Ending("infrastructure", None, str(error), again=True)

    def why_not(self, plan: Plan) -> str:
        """Why a plan cannot run on this backend; empty if it can."""
        task = plan.task
        if lacks := self._backend.lacks(task.container_only):
            return f"{task.name} needs a container: {'; '.join(lacks)}"
        if not self._backend.fixed_places and (place := fixed_places(task)):
            variable = "set `isolation` so that bubblewrap is used, or write ${TEST_DIR:-/tests} and the like"
            return f"{task.name} names {place}, and this backend has no such place: {variable}"
        if why := self._backend.refuses(plan.work):
            return f"{task.name} cannot have a sandbox here: {why}"
        return ""

    async def _let_work(self, plan: Plan, moved: Moved, tree: Path) -> Work | Ending:
        """Run the harness and copy what is to be graded to `tree`; an Ending if there is nothing to grade."""
        async with self._lease(plan.work) as lease:
            command = await self._command(plan, lease)
            await moved("running")
            try:
                ran = await lease.exec(command)
            except CannotExec as error:
                return Ending("harness_crash", None, f"{error}: {plan.harness.advice}")
            log = (await lease.logs(LOG_KEPT)).replace(str(plan.values["key"]), "<key>")
            if plan.task.service and await lease.read("tmp/service-failed", 1) is not None:
                raise NotPrepared(f"the task's service did not start; its last lines: {log[-LOG_TAIL:]}")
            work = Work(plan.harness, ran, log, plan.timeout_s)
            if crashed := crash(work):
                return crashed
            try:
                for path in plan.task.artifacts or ("",):
                    await lease.download(f"work/{path}", tree / path)
            except TooMuch as error:
                return Ending("harness_crash", None, f"{plan.harness.name} left {error} in its work folder", log=log)
            return work

    async def _command(self, plan: Plan, lease: Lease) -> Command:
        """The harness's command line, with everything that it needs in place, unless it began in an earlier life: then
        its work lies there."""
        task, begun = plan.task, await lease.began("harness")
        places = {"work": lease.places["work"], "home": lease.places["home"], "proxy_url": lease.proxy_url}
        filled = fill(plan.harness, {**plan.values, **places})
        argv = after(filled.commands, filled.argv)
        if not begun:
            await self._prepare(lease, task)
            await self._staging.put(lease, "solution", plan.solution)
            await self._staging.put(lease, "home", home_files(filled.files, places["home"]))
            await self._staging.put(lease, "service", task.service.files if task.service else {})
        if task.service:
            argv = beside_service(task.service.command, argv)
        return Command(argv, plan.timeout_s, {**task.environment, **filled.environment}, id="harness")

    async def _grade(self, plan: Plan, verify: Verify, tree: Path) -> Verdict:
        """Verify a copy of the work; the task's tests join it only here, where no agent runs any more."""
        task = plan.task
        async with self._lease(plan.grade) as lease:
            if not await lease.began("verify"):
                if task.artifacts:
                    await self._prepare(lease, task)
                await lease.upload(tree, "work")
                await self._staging.put(lease, "tests", verify.files)
            environment = {**task.environment, **verify.environment}
            argv = ("/bin/sh", "-c", verify.command)
            try:
                ran = await lease.exec(Command(argv, verify.timeout_s, environment, id="verify"))
            except CannotExec as error:
                return Verdict(fault="not_started", detail=f"the verifier did not start: {error}")
            return verdict(verify, ran, await _rewards(lease), await lease.logs(LOG_TAIL))

    async def _prepare(self, lease: Lease, task: Task) -> None:
        """Bring a lease's work folder to where the task begins.

        Raises:
            NotPrepared: a program is not there, or the setup failed.
        """
        await self._staging.put(lease, "work", task.files)
        if not (script := setup_script(task.needs, task.setup)):
            return
        try:
            ran = await lease.exec(Command(("/bin/sh", "-c", script), SETUP_S, task.environment, id="setup"))
        except CannotExec as error:
            raise NotPrepared(f"the setup of {task.name} did not start: {error}") from error
        if ran.timed_out or ran.status != 0:
            how = f"did not end within {SETUP_S:g} s" if ran.timed_out else f"ended with status {ran.status}"
            raise NotPrepared(f"the setup of {task.name} {how}; its last lines: {await lease.logs(LOG_TAIL)}")

    @asynccontextmanager
    async def _lease(self, sandbox: Sandbox) -> AsyncIterator[Lease]:
        lease = await self._backend.start(sandbox)
        try:
            yield lease
        finally:
            await lease.stop()


async def _rewards(lease: Lease) -> dict[str, bytes]:
    found = {name: await lease.read(f"logs/verifier/{name}", MAX_REWARD_BYTES + 1) for name in REWARD_FILES}
    return {name: content for name, content in found.items() if content is not None}
