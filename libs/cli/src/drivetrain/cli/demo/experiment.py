"""The demo from beginning to end on a running stack: measure, talk until it is enough, measure again."""

import asyncio
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from drivetrain.cli.demo.chat import Chat, Problems
from drivetrain.cli.demo.evaluate import Heldout, evaluate
from drivetrain.cli.demo.pacing import Gate, Pace
from drivetrain.cli.demo.progress import Standing, show, standing
from drivetrain.cli.demo.questions import heldout_questions, training_questions
from drivetrain.cli.demo.result import Result, delay_of, first_replies_of, moments_of, trouble_of
from drivetrain.cli.demo.sessions import Sessions
from drivetrain.cli.demo.taste import Taste
from drivetrain.cli.demo.watch import Loop, Watcher, served_version
from drivetrain.cli.stack import StackUrls
from drivetrain.common.bus import Bus

BATCH_TURNS = 16
"""Turns of a training batch, as long as the trainer does not say how many it took."""
SETTLE_S = 45.0
"""Longest wait after the last session for a batch that is complete but not served yet."""


@dataclass(frozen=True)
class Plan:
    """What a demo is asked to do. It asks the first `heldout` held-out questions before and after. Between them it
    opens sessions until `sessions` were held, `updates` versions (None: any number) were promoted, or as late as leaves
    time for the last measurement before `deadline` (of `time.monotonic`)."""

    taste: Taste
    seed: int
    sessions: int
    updates: int | None
    heldout: int
    deadline: float
    method: str
    model: str
    policy: str
    run_dir: Path


class Experiment:
    """One demo. `began` is when the command was called, of `time.monotonic`."""

    def __init__(self, plan: Plan, urls: StackUrls, bus: Bus, console: Console, began: float) -> None:
        self.plan, self._urls, self._bus, self._console, self._began = plan, urls, bus, console, began
        self._problems = Problems()
        self._chat = Chat(f"{urls.proxy}/v1", plan.policy, self._problems)
        self._gate = Gate(Pace(limit=3 * BATCH_TURNS // 2))
        self._loop = Loop()
        self._sessions = Sessions(self._chat, plan.taste, self._gate, f"demo-{plan.run_dir.name}")

    async def run(self) -> Result:
        """Everything, in order.

        Raises:
            ProbeFailed: the engine did not score the probe text.
        """
        started = time.monotonic()
        self._console.print("Asking the held-out questions before any training.")
        before = await self._evaluate()
        last_opening = self.plan.deadline - 1.5 * (time.monotonic() - started) - 15
        talked = time.monotonic()
        await self._talk(last_opening)
        self._console.print("Asking the held-out questions again.")
        after = await self._evaluate()
        await self._chat.close()
        return self._result(before, after, started, talked)

    async def _evaluate(self) -> Heldout:
        return await evaluate(self._chat, self.plan.taste, heldout_questions()[: self.plan.heldout], self._urls.vllm)

    async def _talk(self, last_opening: float) -> None:
        """Hold the sessions while the loop is watched and shown."""
        questions = training_questions(self.plan.sessions, random.Random(self.plan.seed))
        async with self._watched(), _until(last_opening, self._gate):
            await self._sessions.hold_all(questions, self.plan.seed, self._enough)
            if not self._enough():
                await self._settle(last_opening)

    def _enough(self) -> bool:
        wanted = self.plan.updates
        return self._gate.closed or (wanted is not None and len(self._loop.updates) >= wanted)

    async def _settle(self, last_opening: float) -> None:
        """Let the trainer finish what it has, so that the second measurement sees all that was learnt."""
        try:
            async with asyncio.timeout(max(0.0, min(SETTLE_S, last_opening - time.monotonic()))):
                await self._gate.caught_up(BATCH_TURNS - 1)
        except TimeoutError:
            self._console.print("The last turns were not trained in time; measuring what is served.")

    @asynccontextmanager
    async def _watched(self) -> AsyncIterator[None]:
        """Follow the bus, and show what comes of it, inside the block."""
        self._loop.version = await served_version(self._bus, self.plan.policy)
        watcher = Watcher(self._loop, self._gate, self._sessions.talk.corrections, BATCH_TURNS)
        ready, began = asyncio.Event(), time.monotonic()

        def look() -> Standing:
            seconds = time.monotonic() - began
            talk, pace = self._sessions.talk, self._gate.pace
            return standing(talk, self._loop, pace, self.plan.sessions, seconds, self._problems.total)

        async with asyncio.TaskGroup() as group:
            watching = group.create_task(watcher.watch(self._bus, self.plan.policy, self.plan.run_dir.name, ready.set))
            await ready.wait()
            showing = group.create_task(show(self._console, look))
            try:
                yield
            finally:
                watching.cancel()
                showing.cancel()

    def _result(self, before: Heldout, after: Heldout, started: float, talked: float) -> Result:
        now, talk = time.monotonic(), self._sessions.talk
        return Result(
            taste=self.plan.taste.name,
            seed=self.plan.seed,
            method=self.plan.method,
            model=self.plan.model,
            run_dir=str(self.plan.run_dir),
            minutes=(now - started) / 60,
            total_minutes=(now - self._began) / 60,
            sessions=talk.done,
            objections=talk.objections,
            thanks=talk.thanks,
            given_up=talk.given_up,
            version=self._loop.version,
            before=before,
            after=after,
            trouble=trouble_of(self._problems),
            delay=delay_of(talk),
            updates=moments_of(self._loop, talked),
            firsts=first_replies_of(talk, talked),
            held=list(self._loop.held),
            stalls=self._gate.forgiven,
        )


@asynccontextmanager
async def _until(moment: float, gate: Gate) -> AsyncIterator[None]:
    """Close the gate at a moment of `time.monotonic`, unless the block ends before."""

    async def close_in(seconds: float) -> None:
        await asyncio.sleep(seconds)
        await gate.close()

    left = moment - time.monotonic()
    if left <= 0:
        await gate.close()
    closing = asyncio.create_task(close_in(max(0.0, left)))
    try:
        yield
    finally:
        closing.cancel()
