"""`python -m drivetrain.weights`: run the service."""

from drivetrain.common.lifecycle import Lifecycle, run
from drivetrain.common.settings import load
from drivetrain.weights.app import start
from drivetrain.weights.settings import WeightsSettings


def main() -> None:
    """Load the settings and run until told to stop."""
    settings = load(WeightsSettings, "weights")

    async def begin(lifecycle: Lifecycle) -> None:
        await start(lifecycle, settings)

    run("weights", settings, begin)


if __name__ == "__main__":
    main()
