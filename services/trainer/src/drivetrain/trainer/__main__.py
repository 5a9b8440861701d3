"""`python -m drivetrain.trainer`: run the service."""

from drivetrain.common.lifecycle import Lifecycle, run
from drivetrain.common.settings import load
from drivetrain.trainer.app import start
from drivetrain.trainer.settings.settings import TrainerSettings


def main() -> None:
    """Load the settings and run until told to stop."""
    settings = load(TrainerSettings, "trainer")

    async def begin(lifecycle: Lifecycle) -> None:
        await start(lifecycle, settings)

    run("trainer", settings, begin)


if __name__ == "__main__":
    main()
