"""`python -m drivetrain.judge rerun …`: score recorded turns again, and print how that differs."""

import argparse
import asyncio
import hashlib
import importlib.metadata
import json
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack

import msgspec

from drivetrain.common.bus import connect
from drivetrain.common.bus.base import Bus, BusError
from drivetrain.common.events import NewerVersion
from drivetrain.common.settings import load
from drivetrain.judge.app import sources
from drivetrain.judge.chain import Chain
from drivetrain.judge.judge import Judge
from drivetrain.judge.meters import Meters
from drivetrain.judge.rerun.difference import difference
from drivetrain.judge.rerun.report import Report, report, table
from drivetrain.judge.rerun.run import Refused, Rerun, check
from drivetrain.judge.rerun.stored import scores_of
from drivetrain.judge.rerun.window import Window, moment
from drivetrain.judge.rubric import load_rubric
from drivetrain.judge.sessions import Sessions
from drivetrain.judge.settings import JudgeSettings

NOT_ABOUT_SCORES = {"bus", "admin", "log", "judge", "concurrency", "ack_wait_s", "turn_wait_s"}
PATIENCE_S = 30.0
"""How long a read is tried again while the bus is away."""
TURN_WAIT_S = 0.1
"""What is recorded is there already: no signal waits long for its turn."""
SEED = 0


def main(arguments: Sequence[str]) -> None:
    """Run and print. Ends with status 2 for options or settings that cannot be used, 1 where the bus says no."""
    options, flags = _parser().parse_known_args(arguments)
    settings = load(JudgeSettings, "judge", [*flags, *(["--judge", options.judge] if options.judge else [])])
    config = digest(settings)
    judge = options.judge or f"{settings.judge[:55]}-{config[:8]}"
    window = Window(options.policy, options.since, options.until)
    try:
        found = asyncio.run(_rerun(settings, window, judge, options))
    except* (Refused, BusError, NewerVersion) as group:
        sys.stderr.write(f"drivetrain judge rerun: {_first(group)}\n")
        raise SystemExit(1) from None
    shown = msgspec.json.format(msgspec.json.encode(found)).decode() if options.json else table(found)
    sys.stdout.write(f"{shown}\n")


async def _rerun(settings: JudgeSettings, window: Window, judge: str, options: argparse.Namespace) -> Report:
    async with AsyncExitStack() as stack:
        bus = await connect(settings.bus)
        stack.push_async_callback(bus.close)
        return await rerun(bus, settings, window, judge, options.against, dry=options.dry_run)


async def rerun(bus: Bus, settings: JudgeSettings, window: Window, judge: str, against: str, *, dry: bool) -> Report:
    """Score the window as these settings say, under the id `judge`, and compare with the scores of `against`.

    Raises:
        Refused: see `check`.
    """
    config = digest(settings)
    await check(bus, window, judge, known := await scores_of(bus, window.policy, judge), config)
    work = Rerun(bus, window, known, config)
    if dry:
        return report(judge, window, await work.count(), None)
    async with AsyncExitStack() as stack:
        chosen, _ = await sources(settings, stack)
        scorer = Judge(judge, Chain(chosen), Sessions(bus, PATIENCE_S), Meters(), TURN_WAIT_S, time.time)
        tally = await work.score(scorer, settings.concurrency)
    old, new = await scores_of(bus, window.policy, against), await scores_of(bus, window.policy, judge)
    return report(judge, window, tally, difference(against, tally.turns, old, new, SEED))


def digest(settings: JudgeSettings) -> str:
    """Names all in the settings that a score depends on, what the rubrics say, and this version of the judge.

    Raises:
        BadRubric: a rubric that cannot be used.
    """
    about = settings.model_dump(mode="json", exclude=NOT_ABOUT_SCORES)
    about["rubrics"] = {policy: msgspec.to_builtins(load_rubric(path)) for policy, path in settings.rubrics.items()}
    text = json.dumps([importlib.metadata.version("drivetrain-judge"), about], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _parser() -> argparse.ArgumentParser:
    now = time.time()

    def at(text: str) -> float:
        try:
            return moment(text, now)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    parser = argparse.ArgumentParser(
        prog="drivetrain judge rerun", description=__doc__, allow_abbrev=False,
        epilog="All other options are settings of the judge, such as --config FILE.",
    )  # fmt: skip
    parser.add_argument("--policy", required=True)
    parser.add_argument("--since", required=True, type=at, metavar="T", help="7d, 12h, 90m ago, or a date and time")
    parser.add_argument("--until", type=at, default=now, metavar="T", help="now, if not given")
    parser.add_argument("--judge", metavar="ID", help="the id of the new scores; by default one made of the settings")
    parser.add_argument("--against", default="rules", metavar="ID", help="the judge to compare with (rules)")
    parser.add_argument("--dry-run", action="store_true", help="count only")
    parser.add_argument("--json", action="store_true")
    return parser


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    one = group.exceptions[0]
    return _first(one) if isinstance(one, BaseExceptionGroup) else one
