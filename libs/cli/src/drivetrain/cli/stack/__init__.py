"""The whole product on one machine, as a library: `async with Stack(config) as stack`."""

from drivetrain.cli.stack.config import StackConfig
from drivetrain.cli.stack.runfile import Run, StackUrls, read_run, running
from drivetrain.cli.stack.stack import Stack
from drivetrain.cli.supervisor import ProcessEvent, ProcessState

__all__ = ["ProcessEvent", "ProcessState", "Run", "Stack", "StackConfig", "StackUrls", "read_run", "running"]
