"""The demo while it runs: one live table on a terminal, one line per new version elsewhere."""

import asyncio
import statistics
from collections.abc import Callable
from dataclasses import dataclass

from rich.console import Console, RenderableType
from rich.live import Live
from rich.table import Table

from drivetrain.cli.demo.pacing import Pace
from drivetrain.cli.demo.result import WINDOW
from drivetrain.cli.demo.sessions import Talk
from drivetrain.cli.demo.watch import Loop

REFRESH_S = 1.0


@dataclass(frozen=True)
class Standing:
    """The figures at one moment; None where nothing is known yet. Shares are between 0 and 1."""

    seconds: float
    sessions: int
    planned: int
    satisfaction: float | None
    words: float | None
    reward: float | None
    version: int
    updates: int
    ahead: int
    kl: float | None
    entropy: float | None
    problems: int


def standing(talk: Talk, loop: Loop, pace: Pace, planned: int, seconds: float, problems: int) -> Standing:
    """What there is to show now."""
    recent, rewards = talk.firsts[-WINDOW:], loop.rewards[-WINDOW:]
    return Standing(
        seconds=seconds,
        sessions=talk.done,
        planned=planned,
        satisfaction=statistics.fmean(first.fits for first in recent) if recent else None,
        words=statistics.median(first.length_words for first in recent) if recent else None,
        reward=statistics.fmean(rewards) if rewards else None,
        version=loop.version,
        updates=len(loop.updates),
        ahead=pace.ahead,
        kl=loop.metric("kl_reference"),
        entropy=loop.metric("entropy"),
        problems=problems,
    )


def rows(now: Standing) -> list[tuple[str, str]]:
    """The figures in words, with units."""
    return [
        ("time", f"{int(now.seconds) // 60}:{int(now.seconds) % 60:02d}"),
        ("sessions", f"{now.sessions} of at most {now.planned}"),
        (f"satisfied, last {WINDOW} first replies", _shown(now.satisfaction, "{:.0%}")),
        (f"words, median of the last {WINDOW}", _shown(now.words, "{:.0f}")),
        (f"reward, mean of the last {WINDOW}", _shown(now.reward, "{:+.2f}")),
        ("version served", f"{now.version} ({now.updates} updates)"),
        ("turns ahead of it", str(now.ahead)),
        ("KL to the base", _shown(now.kl, "{:.4f} nats a token")),
        ("entropy", _shown(now.entropy, "{:.2f} nats a token")),
        ("failed, cut or aborted requests", str(now.problems)),
    ]


def table(now: Standing) -> RenderableType:
    """The live table."""
    grid = Table.grid(padding=(0, 3))
    for name, value in rows(now):
        grid.add_row(f"[dim]{name}[/]", f"[bold]{value}[/]")
    return grid


def line(now: Standing) -> str:
    """All in one line, for logs."""
    names = ("time", "sessions", "satisfied", "words", "reward", "version", "ahead", "kl", "entropy", "problems")
    return "  ".join(f"{name} {value}" for name, (_, value) in zip(names, rows(now), strict=True))


async def show(console: Console, look: Callable[[], Standing]) -> None:
    """Keep showing what `look` returns, until cancelled."""
    await (_live if console.is_terminal else _log)(console, look)


async def _live(console: Console, look: Callable[[], Standing]) -> None:
    with Live(table(look()), console=console, auto_refresh=False) as live:
        while True:
            live.update(table(look()), refresh=True)
            await asyncio.sleep(REFRESH_S)


async def _log(console: Console, look: Callable[[], Standing]) -> None:
    shown = -1
    while True:
        now = look()
        if now.updates != shown:
            console.print(line(now), highlight=False, soft_wrap=True)
            shown = now.updates
        await asyncio.sleep(REFRESH_S)


def _shown(value: float | None, form: str) -> str:
    return "-" if value is None else form.format(value)
