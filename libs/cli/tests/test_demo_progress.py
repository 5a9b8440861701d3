"""What is shown while the demo runs, and what is read from the bus for it."""

import asyncio
from io import StringIO
from typing import Any

from rich.console import Console

from drivetrain.cli.demo.corrections import Corrections
from drivetrain.cli.demo.pacing import Gate, Pace
from drivetrain.cli.demo.progress import line, rows, show, standing, table
from drivetrain.cli.demo.result import moving_share
from drivetrain.cli.demo.sessions import First, Talk, reply_limit
from drivetrain.cli.demo.taste import load_taste
from drivetrain.cli.demo.watch import Loop, Watcher, served_version
from drivetrain.common.bus import MemoryBus
from drivetrain.common.events import (
    TurnFollowed,
    TurnScored,
    WeightsCandidate,
    WeightsHeld,
    WeightsPromoted,
    WeightsRolledback,
)

PLACE: dict[str, Any] = {"tenant": "t", "policy": "default", "session": "s", "n": 0, "at": 0.0}
WEIGHTS: dict[str, Any] = {"policy": "default", "at": 0.0}


def followed(turn: str, kind: Any = "messages") -> TurnFollowed:
    return TurnFollowed(**PLACE, turn=turn, kind=kind, messages=[], before=[], reply={})


def scored(turn: str, reward: float | None, hints: list[str] | None = None) -> TurnScored:
    return TurnScored(**PLACE, turn=turn, judge="j", reward=reward, votes=[], hints=hints or [])


def candidate(version: int, **metrics: float) -> WeightsCandidate:
    return WeightsCandidate(
        **WEIGHTS, version=version, parent=version - 1, digest="d", step=version, metrics=dict(metrics)
    )


def promoted(version: int) -> WeightsPromoted:
    return WeightsPromoted(**WEIGHTS, version=version, replicas=["r"])


def watcher(limit: int = 32) -> Watcher:
    return Watcher(Loop(), Gate(Pace(limit)), Corrections(), batch_turns=16)


def test_follows_turns_from_reaction_to_version() -> None:
    seen = watcher()
    for event in (followed("a"), followed("b"), followed("c"), followed("d"), followed("idle", "idle")):
        seen.apply(event, 0.0)
    assert seen.gate.pace.ahead == 4
    for score in (scored("a", -1.0), scored("b", 0.0), scored("c", 0.0, ["Do it."]), scored("d", None)):
        seen.apply(score, 0.0)
    assert (seen.gate.pace.outstanding, seen.gate.pace.usable) == (0, 2)
    assert (seen.loop.rewards, seen.loop.unresolved) == ([-1.0, 0.0, 0.0], 1)
    seen.apply(candidate(1, turns=2.0, kl_reference=0.5), 1.0)
    seen.apply(promoted(1), 2.0)
    assert seen.gate.pace.ahead == 0
    assert seen.loop.metric("kl_reference") == 0.5


def test_a_version_without_word_of_its_turns_counts_as_one_batch() -> None:
    seen = watcher()
    seen.apply(promoted(3), 2.0)
    assert (seen.loop.version, seen.gate.pace.trained, seen.loop.updates[0].at) == (3, 16, 2.0)


def test_held_and_withdrawn_versions_are_told() -> None:
    seen = watcher()
    seen.apply(promoted(2), 0.0)
    seen.apply(WeightsHeld(**WEIGHTS, version=3, reason="KL too high"), 0.0)
    seen.apply(WeightsRolledback(**WEIGHTS, version=2, to=1, reason="replies too short"), 0.0)
    assert seen.loop.version == 1
    assert seen.loop.held == ["version 3: KL too high", "version 2 rolled back: replies too short"]


async def test_reads_only_what_is_new_and_of_its_policy() -> None:
    bus, seen, ready = MemoryBus(), watcher(), asyncio.Event()
    await bus.publish(promoted(1))
    task = asyncio.create_task(seen.watch(bus, "default", "run", ready.set))
    await asyncio.wait_for(ready.wait(), 5)
    other = WeightsPromoted(policy="other", at=0.0, version=9, replicas=[])
    for event in (other, followed("a"), scored("a", 1.0), promoted(2)):
        await bus.publish(event)
    async with asyncio.timeout(5):
        await seen.gate.until(lambda: bool(seen.loop.updates))
    task.cancel()
    assert [update.version for update in seen.loop.updates] == [2]
    assert await served_version(bus, "default") == 2
    assert await served_version(bus, "nobody") == 0


def test_shows_dashes_before_anything_is_known() -> None:
    now = standing(Talk(), Loop(), Pace(32), planned=200, seconds=0.0, problems=0)
    assert dict(rows(now))["satisfied, last 16 first replies"] == "-"
    assert dict(rows(now))["KL to the base"] == "-"


def test_shows_the_last_sixteen() -> None:
    talk = Talk(done=20, firsts=[First(0.0, fits, 20) for fits in [False] * 10 + [True] * 12])
    loop = Loop(version=4, rewards=[-1.0] * 20 + [1.0] * 8, candidates={4: {"kl_reference": 0.0123, "entropy": 2.0}})
    now = standing(talk, loop, Pace(32, usable=5), planned=200, seconds=125.0, problems=1)
    shown = dict(rows(now))
    assert shown["time"] == "2:05"
    assert shown["sessions"] == "20 of at most 200"
    assert shown["satisfied, last 16 first replies"] == "75%"
    assert shown["words, median of the last 16"] == "20"
    assert shown["reward, mean of the last 16"] == "+0.00"
    assert shown["KL to the base"] == "0.0123 nats a token"
    assert shown["turns ahead of it"] == "5"
    assert "satisfied 75%" in line(now)
    console = Console(file=StringIO(), width=100)
    console.print(table(now))
    assert "0.0123 nats" in console.file.getvalue()  # type: ignore[attr-defined]


class Screen(StringIO):
    """Output that tells when a line came."""

    def __init__(self) -> None:
        super().__init__()
        self.written = asyncio.Event()

    def write(self, text: str) -> int:
        self.written.set()
        return super().write(text)


async def test_without_a_terminal_each_version_is_one_line() -> None:
    screen = Screen()
    console, loop = Console(file=screen, width=200), Loop()
    task = asyncio.create_task(show(console, lambda: standing(Talk(), loop, Pace(32), 10, 0.0, 0)))
    await asyncio.wait_for(screen.written.wait(), 5)
    task.cancel()
    assert screen.getvalue().count("\n") == 1
    assert "version 0" in screen.getvalue()


def test_moving_share_grows_into_its_window() -> None:
    assert moving_share([True, False, False, True], window=2) == [1.0, 0.5, 0.0, 0.5]
    assert moving_share([]) == []


def test_the_limit_of_a_reply_follows_from_the_taste() -> None:
    taste = load_taste()
    assert reply_limit(taste) == 92
    free = taste.model_copy(update={"checks": taste.checks.model_copy(update={"max_words": None})})
    assert reply_limit(free) == 160
