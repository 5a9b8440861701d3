"""`python -m drivetrain.judge`: run the service."""

from drivetrain.common.lifecycle import Lifecycle, run
from drivetrain.common.settings import load
from drivetrain.judge.app import start
from drivetrain.judge.settings import JudgeSettings


def main() -> None:
    """Load the settings and run until told to stop."""
    settings = load(JudgeSettings, "judge")

    async def begin(lifecycle: Lifecycle) -> None:
        await start(lifecycle, settings)

    run("judge", settings, begin)


if __name__ == "__main__":
    main()
