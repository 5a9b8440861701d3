"""`python -m drivetrain.orchestrator`: run the service; `… check PATH`: check tasks; `… gc`: remove sandboxes;
`… check-cluster`: can it run in the cluster?"""

import sys

from drivetrain.common.lifecycle import Lifecycle, run
from drivetrain.common.settings import load
from drivetrain.orchestrator import collecting
from drivetrain.orchestrator.app import start
from drivetrain.orchestrator.checking import command as checking
from drivetrain.orchestrator.settings import OrchestratorSettings


def main() -> None:
    """Load the settings and run until told to stop, or check tasks."""
    if sys.argv[1:2] == ["check"]:
        checking.main(sys.argv[2:])
        return
    if sys.argv[1:2] == ["gc"]:
        collecting.main(load(OrchestratorSettings, "orchestrator", sys.argv[2:]))
        return
    if sys.argv[1:2] == ["check-cluster"]:
        from drivetrain.orchestrator.backends.kubernetes import checking as cluster

        cluster.main(load(OrchestratorSettings, "orchestrator", sys.argv[2:]))
        return
    settings = load(OrchestratorSettings, "orchestrator")

    async def begin(lifecycle: Lifecycle) -> None:
        await start(lifecycle, settings)

    run("orchestrator", settings, begin)


if __name__ == "__main__":
    main()
