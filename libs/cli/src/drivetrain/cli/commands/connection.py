"""Where a command finds the bus."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

import typer

from drivetrain.cli.stack import running
from drivetrain.common.bus.nats import NatsBus, connect
from drivetrain.common.settings import BusSettings

BusUrl = Annotated[
    str | None,
    typer.Option("--bus", help="NATS server; without it, that of the running stack.", envvar="DRIVETRAIN_BUS_URL"),
]


@asynccontextmanager
async def open_bus(url: str | None) -> AsyncIterator[NatsBus]:
    """The bus at the URL, or that of the stack that runs here.

    Raises:
        CliError: no URL, and no stack runs.
        BusError: nothing answers there.
    """
    bus = await connect(BusSettings(url=url or running().urls.nats))
    try:
        yield bus
    finally:
        await bus.close()
