"""Reading a stream with batched direct gets, which need no consumer on the server."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from nats.aio.msg import Msg
from nats.errors import Error as NatsError

from drivetrain.common.bus.base import BusError, Stored
from drivetrain.common.bus.letters import left_out, readable
from drivetrain.common.events import InvalidEvent

if TYPE_CHECKING:
    from drivetrain.common.bus.nats import NatsBus

BATCH = 256
BATCH_BYTES = 8 << 20
TIMEOUT_S = 10.0


class TooMany(BusError):
    """More subjects match than the server lists at once."""


async def replay(bus: "NatsBus", stream: str, subject: str, since: float) -> AsyncIterator[Stored]:
    """See `Bus.replay`."""
    try:
        end = (await bus.js.stream_info(stream)).state.last_seq
    except (NatsError, TimeoutError) as error:
        raise BusError(f"{stream} cannot be read again: {error!r}") from error
    start: dict[str, Any] = {"start_time": datetime.fromtimestamp(since, UTC).isoformat()} if since else {"seq": 1}
    async for message in pages(bus, stream, subject, start):
        headers = dict(message.headers or {})
        sequence = int(headers["Nats-Sequence"])
        if sequence > end:
            return
        try:
            payload = await bus.payload_of(message.data, headers)
        except InvalidEvent as error:
            left_out(headers["Nats-Subject"], sequence, error)
            continue
        if stored := readable(headers["Nats-Subject"], payload, sequence, headers):
            yield stored


async def pages(bus: "NatsBus", stream: str, subject: str, start: dict[str, Any]) -> AsyncIterator[Msg]:
    """Every message of the subjects that match, in stream order, a batch at a time."""
    bounds = {"batch": BATCH, "max_bytes": BATCH_BYTES, "next_by_subj": subject}
    while batch := await ask(bus, stream, {**bounds, **start}):
        for message in batch:
            yield message
        start = {"seq": int((batch[-1].headers or {})["Nats-Sequence"]) + 1}


async def ask(bus: "NatsBus", stream: str, request: dict[str, Any]) -> list[Msg]:
    """The messages that answer one request; none at the end of the stream.

    Raises:
        TooMany: more subjects match than the server lists at once.
        BusError: it refused otherwise, or did not answer.
    """
    found: list[Msg] = []
    status: asyncio.Future[tuple[str, str]] = asyncio.get_running_loop().create_future()

    async def take(message: Msg) -> None:
        headers = message.headers or {}
        if "Status" not in headers:
            found.append(message)
        elif not status.done():
            status.set_result((headers["Status"], headers.get("Description", "")))

    reply = bus.client.new_inbox()
    try:
        subscription = await bus.client.subscribe(reply, cb=take)
        try:
            await bus.client.publish(f"$JS.API.DIRECT.GET.{stream}", json.dumps(request).encode(), reply=reply)
            code, why = await asyncio.wait_for(status, TIMEOUT_S)
        finally:
            await subscription.unsubscribe()
    except TimeoutError as error:
        raise BusError(f"{stream} did not answer within {TIMEOUT_S:g} s") from error
    except NatsError as error:
        raise BusError(f"{stream} could not be asked: {error!r}") from error
    if code not in ("204", "404"):
        raise (TooMany if code == "413" else BusError)(f"{stream} cannot list that: {code} {why}")
    return found
