"""`python -m drivetrain.orchestrator check PATH…`: print what is wrong with tasks."""

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from drivetrain.common.declarations import BadDeclaration
from drivetrain.common.settings import LogSettings
from drivetrain.common.telemetry.logs import configure_logs
from drivetrain.orchestrator.backends.base import BackendError
from drivetrain.orchestrator.backends.making import confinement
from drivetrain.orchestrator.backends.process.backend import ProcessBackend
from drivetrain.orchestrator.backends.process.bubblewrap import readable_for
from drivetrain.orchestrator.checking.prove import Checked, Read, check, read
from drivetrain.orchestrator.running.runner import Runner
from drivetrain.orchestrator.work_folder import fresh


def main(arguments: Sequence[str]) -> None:
    """Check and print; ends the process with status 1 if a task has a problem, 2 if there is none to check."""
    options = _parser().parse_args(arguments)
    configure_logs("orchestrator", LogSettings())
    try:
        tasks = read(options.paths)
        found = asyncio.run(prove(tasks, options) if options.solution else check(tasks, None, options.jobs))
    except (BadDeclaration, BackendError) as error:
        sys.stderr.write(f"drivetrain task check: {error}\n")
        raise SystemExit(2) from None
    if not found:
        sys.stderr.write("drivetrain task check: no task there: a task is a folder with a task.toml, or a YAML file\n")
        raise SystemExit(2)
    shown = msgspec.json.format(msgspec.json.encode(found)).decode() if options.json else table(found)
    sys.stdout.write(f"{shown}\n")
    raise SystemExit(1 if any(checked.problems for checked in found) else 0)


async def prove(tasks: Sequence[Read], options: argparse.Namespace) -> list[Checked]:
    """Run solutions in sandboxes of this machine, in a folder that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="drivetrain-check-") as folder:
        leases = Path(folder) / "leases"
        path = tuple(entry.absolute() for entry in options.path)
        bubblewrap = confinement(options.isolation, leases, readable_for(path))
        backend = ProcessBackend(leases, path, bubblewrap=bubblewrap)
        return await check(tasks, Runner(backend, fresh(Path(folder) / "staging")), options.jobs)


def table(found: Sequence[Checked]) -> str:
    """A line for each task, its problems below it, and how many there are."""
    width = max(len(checked.task) for checked in found)
    lines: list[str] = []
    for checked in found:
        rewards = [("solution", checked.solution), ("untouched", checked.untouched)]
        told = [f"{name} {value:g}" for name, value in rewards if value is not None]
        told += [f"{checked.seconds:.1f} s"] if checked.seconds else []
        lines.append(f"{'bad' if checked.problems else 'ok ':4}{checked.task:{width}}  {'  '.join(told)}".rstrip())
        lines += [f"    {problem}" for problem in checked.problems]
    bad = sum(1 for checked in found if checked.problems)
    return "\n".join([*lines, f"{len(found)} checked, {bad} with problems"])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("drivetrain task check", description=__doc__)
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="a task, a folder of tasks, or a list")
    parser.add_argument("--solution", action="store_true", help="prove that the solution earns 1 and nothing does not")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time")
    parser.add_argument("--path", type=Path, action="append", default=[], help="a folder of programs that tasks need")
    parser.add_argument("--isolation", choices=("auto", "bubblewrap", "none"), default="auto", help="as in the service")
    return parser
