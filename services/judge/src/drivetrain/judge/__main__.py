"""`python -m drivetrain.judge`: run the service; `python -m drivetrain.judge eval FILE`: measure it."""

import sys

from drivetrain.common.lifecycle import Lifecycle, run
from drivetrain.common.settings import load
from drivetrain.judge.app import start
from drivetrain.judge.evaluation import command
from drivetrain.judge.settings import JudgeSettings


def main() -> None:
    """Load the settings and run until told to stop, or measure the judge on labelled turns."""
    if sys.argv[1:2] == ["eval"]:
        command.main(sys.argv[2:])
        return
    settings = load(JudgeSettings, "judge")

    async def begin(lifecycle: Lifecycle) -> None:
        await start(lifecycle, settings)

    run("judge", settings, begin)


if __name__ == "__main__":
    main()
