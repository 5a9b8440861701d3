"""Score the turns of a window again and store what comes out, each score once however often this is run."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field

from drivetrain.common.bus.base import Bus
from drivetrain.common.bus.handling import Unprocessable
from drivetrain.common.errors import CannotStart
from drivetrain.common.events import TurnFollowed, TurnScored
from drivetrain.judge.judge import Judge
from drivetrain.judge.rerun.stored import CONFIG_HEADER, Scores, Turn
from drivetrain.judge.rerun.window import Cause, Window


class Refused(CannotStart):
    """A rerun that cannot be; the message says why, and the remedy."""


@dataclass
class Tally:
    """What a rerun came to. `known` scores were stored by an earlier one; `left_out` counts by reason what can not be
    judged any more; `turns` are all that the window is about."""

    next_states: int = 0
    signals: int = 0
    stored: int = 0
    known: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    turns: set[Turn] = field(default_factory=set)

    def saw(self, cause: Cause) -> None:
        """Count a cause, and the turn that it names."""
        if isinstance(cause, TurnFollowed):
            self.next_states += 1
        else:
            self.signals += 1
        if cause.turn is not None:
            self.turns.add((cause.session, cause.turn))


class Rerun:
    """One judge over the window. `known` are its scores so far, `config` names its configuration."""

    def __init__(self, bus: Bus, window: Window, known: Scores, config: str) -> None:
        self._bus = bus
        self._window = window
        self._known = known
        self._headers = {CONFIG_HEADER: config}
        self.tally = Tally()

    async def count(self) -> Tally:
        """What there is to do, without doing it."""
        async for cause in self._window.causes(self._bus):
            self.tally.saw(cause)
            self.tally.known += self._is_known(cause)
        return self.tally

    async def score(self, judge: Judge, concurrency: int) -> Tally:
        """Do it, so many causes at a time. Only next states without a score are judged; a signal is always, because it
        may be about any number of turns, and what it led to before is refused by the bus.

        Raises:
            ExceptionGroup of BusError: the bus went away; run it again to go on.
        """
        slots = asyncio.Semaphore(concurrency)
        async with asyncio.TaskGroup() as group:
            async for cause in self._window.causes(self._bus):
                self.tally.saw(cause)
                if self._is_known(cause):
                    self.tally.known += 1
                    continue
                await slots.acquire()
                group.create_task(self._one(judge, cause)).add_done_callback(lambda _: slots.release())
        return self.tally

    def _is_known(self, cause: Cause) -> bool:
        return isinstance(cause, TurnFollowed) and (cause.session, cause.turn, cause.n) in self._known

    async def _one(self, judge: Judge, cause: Cause) -> None:
        try:
            results = await judge.results(cause)
        except Unprocessable as error:
            self.tally.left_out[_kind_of(error)] += 1
            return
        for result in results:
            new = await self._bus.publish(result, self._headers) is not None
            if isinstance(result, TurnScored):
                self.tally.turns.add((result.session, result.turn))
                self.tally.stored += new
                self.tally.known += not new


async def check(bus: Bus, window: Window, judge: str, known: Scores, config: str) -> None:
    """Raises Refused: the id is that of a judge that runs, or was used with another configuration, or the policy has no
    turns."""
    if any(name.startswith(f"judge-{judge}-turns-") for name in await bus.durables("TURNS")):
        raise Refused(
            f"{judge} is the id of a judge that scores live here: give the rerun an id of its own with --judge"
        )
    if known.configs - {config}:
        raise Refused(f"the judge {judge} has scores from another configuration: choose another id with --judge")
    if await bus.get("TURNS", f"turn.followed.*.{window.policy}.>") is None:
        raise Refused(f"the policy {window.policy} has no turns with a next state on this bus: is --policy right?")


def _kind_of(error: Unprocessable) -> str:
    """Its reason without the ids in it, so that the same reason is counted once."""
    return str(error).rpartition(": ")[2]
