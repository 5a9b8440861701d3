"""Runs the processes of a stack: in order of health, with a log each, restarted within bounds, ended together.

Libraries that were looked at: honcho ends everything when one process ends and knows neither health nor restarts;
circus and supervisor restart, but order by priority instead of health, give no hook for "this exit status is
final", and are daemons with a control socket and a configuration file of their own; process-compose has it all but is
a Go program without a package on PyPI. What is needed here is small enough to be written on asyncio's subprocesses.
"""

from drivetrain.cli.supervisor.health import Check, HttpCheck, PongCheck
from drivetrain.cli.supervisor.spec import EventKind, ProcessEvent, ProcessFailed, ProcessSpec, ProcessState, Restarts
from drivetrain.cli.supervisor.supervisor import Supervisor

__all__ = [
    "Check",
    "EventKind",
    "HttpCheck",
    "PongCheck",
    "ProcessEvent",
    "ProcessFailed",
    "ProcessSpec",
    "ProcessState",
    "Restarts",
    "Supervisor",
]
