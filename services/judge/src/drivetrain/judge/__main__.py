"""`python -m drivetrain.judge`: run the service; `… eval FILE`: measure it; `… rerun`: score again."""

import sys

from drivetrain.common.lifecycle import Lifecycle, run
from drivetrain.common.settings import load
from drivetrain.judge.app import start
from drivetrain.judge.evaluation import command as evaluation
from drivetrain.judge.rerun import command as rerun
from drivetrain.judge.settings import JudgeSettings

COMMANDS = {"eval": evaluation.main, "rerun": rerun.main}


def main() -> None:
    """Load the settings and run until told to stop, or do the one thing that the first argument names."""
    if chosen := COMMANDS.get("".join(sys.argv[1:2])):
        chosen(sys.argv[2:])
        return
    settings = load(JudgeSettings, "judge")

    async def begin(lifecycle: Lifecycle) -> None:
        await start(lifecycle, settings)

    run("judge", settings, begin)


if __name__ == "__main__":
    main()
