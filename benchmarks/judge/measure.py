"""What is measured: turns a second of one or two replicas, the delay of one, and CPU time by part."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import datetime
from itertools import islice
from pathlib import Path

import msgspec

from benchmarks.judge.workload import events_of, sessions
from benchmarks.judge.world import judges, server
from benchmarks.proxy.processes import cost
from drivetrain.common.bus import NatsBus
from drivetrain.common.events import Event, TurnFollowed, TurnScored, decode, encode
from drivetrain.judge.app import sources
from drivetrain.judge.chain import Chain
from drivetrain.judge.evaluation.labelled import Labelled
from drivetrain.judge.settings import JudgeSettings

AT_ONCE = 256
EDGE = 0.1
"""The first and the last share of the turns, which are not timed: replicas start and end one after the other."""


class Rate(msgspec.Struct, frozen=True):
    """Turns scored in `seconds` of the clock, with the CPU seconds of the judges and of the NATS server."""

    turns: int
    seconds: float
    judge_cpu_s: float
    server_cpu_s: float

    @property
    def per_s(self) -> float:
        return self.turns / self.seconds

    def since(self, start: "Rate") -> "Rate":
        """What came after an earlier reading of the same counters."""
        return Rate(
            self.turns - start.turns,
            self.seconds - start.seconds,
            self.judge_cpu_s - start.judge_cpu_s,
            self.server_cpu_s - start.server_cpu_s,
        )


async def rate(folder: Path, turns: Sequence[Labelled], count: int, replicas: int) -> Rate:
    """How fast replicas score turns that are all there already."""
    async with server(folder) as (bus, url, nats):
        recorded, followed = _events(turns, count)
        await _publish(bus, recorded)
        await _publish(bus, followed)
        with judges(url, folder, replicas) as pids:
            first = await _reached(bus, int(count * EDGE), pids, nats)
            last = await _reached(bus, int(count * (1 - EDGE)), pids, nats)
            await _reached(bus, count, pids, nats)
    return last.since(first)


async def delays(folder: Path, turns: Sequence[Labelled], count: int, per_s: float) -> list[float]:
    """Seconds from each next state stored to its score stored, by the server's clock, at so many turns a second. The
    first one finds out that the judge is there, and is not counted."""
    async with server(folder) as (bus, url, _):
        recorded, followed = _events(turns, count)
        await _publish(bus, recorded)
        with judges(url, folder, 1):
            await bus.publish(followed[0])
            while await _scored(bus) < 1:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
            began = time.monotonic()
            for number, event in enumerate(followed[1:]):
                await asyncio.sleep(max(0.0, began + number / per_s - time.monotonic()))
                await bus.publish(event)
            while await _scored(bus) < count:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        asked = await _stored_at(bus, "TURNS", "turn.followed.>")
        told = await _stored_at(bus, "SCORES", "turn.scored.>")
    return [told[session] - asked[session] for session in asked if session != followed[0].session]


async def parts(turns: Sequence[Labelled], rounds: int) -> dict[str, float]:
    """CPU seconds a turn of what one replica does in its own process, apart from talking to the bus."""
    async with AsyncExitStack() as stack:
        chain = Chain((await sources(JudgeSettings(), stack))[0])
        cases = [turn.case(chain.looks_back(turn.case(with_history=False))) for turn in turns]
        began = time.process_time()
        for _ in range(rounds):
            judged = [await chain.judge(case) for case in cases]
        rules = time.process_time() - began
    payloads = [encode(events_of(turn, "s", 0.0)[1]) for turn in turns]
    scores = [
        TurnScored(tenant="t", policy="p", session="s", turn="t", n=0, judge="rules", reward=j.reward,
                   votes=list(j.votes), hints=list(j.hints), at=0.0)
        for j in judged
    ]  # fmt: skip
    began = time.process_time()
    for _ in range(rounds):
        for payload, score in zip(payloads, scores, strict=True):
            decode(payload, TurnFollowed)
            encode(score)
    codec = time.process_time() - began
    return {"rules": rules / rounds / len(turns), "codec": codec / rounds / len(turns)}


def _events(turns: Sequence[Labelled], count: int) -> tuple[list[Event], list[TurnFollowed]]:
    recorded: list[Event] = []
    followed: list[TurnFollowed] = []
    for labelled, session in sessions(turns, count):
        before, state = events_of(labelled, session, time.time())
        recorded += before
        followed.append(state)
    return recorded, followed


async def _publish(bus: NatsBus, events: Sequence[Event]) -> None:
    waiting = iter(events)
    while some := list(islice(waiting, AT_ONCE)):
        await asyncio.gather(*map(bus.publish, some))


async def _reached(bus: NatsBus, count: int, pids: Sequence[int], nats: int) -> Rate:
    """Once so many scores are stored: how many, when, and what was used until then."""
    while (scored := await _scored(bus)) < count:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    return Rate(scored, time.monotonic(), sum(cost(pid).cpu_s for pid in pids), cost(nats).cpu_s)


async def _scored(bus: NatsBus) -> int:
    return int((await bus.js.stream_info("SCORES")).state.messages)


async def _stored_at(bus: NatsBus, stream: str, subject: str) -> dict[str, float]:
    """By session, which the fifth token of both subjects names."""
    return {stored.subject.split(".")[4]: _time(stored.headers) async for stored in bus.replay(stream, subject)}


def _time(headers: Mapping[str, str]) -> float:
    """When the server stored a message; it gives nanoseconds, of which the microseconds are kept."""
    whole, _, rest = headers["Nats-Time-Stamp"].rstrip("Z").partition(".")
    return datetime.fromisoformat(f"{whole}.{rest[:6]:0<6}+00:00").timestamp()
