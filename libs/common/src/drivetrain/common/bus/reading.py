"""Reading a stream with batched direct gets, which need no consumer on the server."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from nats.aio.msg import Msg
from nats.errors import Error as NatsError

from drivetrain.common.bus.base import BusError, Stored
from drivetrain.common.bus.letters import left_out, read, readable
from drivetrain.common.events import InvalidEvent

if TYPE_CHECKING:
    from drivetrain.common.bus.nats import NatsBus

BATCH = 256
BATCH_BYTES = 8 << 20
TIMEOUT_S = 10.0


async def last(bus: "NatsBus", stream: str, subject: str) -> list[Stored]:
    """See `Bus.last`."""
    found = []
    for message in await _batch(bus, stream, {"multi_last": [subject]}):
        headers, payload = await _content(bus, message)
        at = headers["Nats-Subject"]
        found.append(Stored(read(at, payload), at, int(headers["Nats-Sequence"]), headers))
    return sorted(found, key=lambda stored: stored.sequence)


async def replay(bus: "NatsBus", stream: str, subject: str, since: float) -> AsyncIterator[Stored]:
    """See `Bus.replay`."""
    try:
        end = (await bus.js.stream_info(stream)).state.last_seq
    except (NatsError, TimeoutError) as error:
        raise BusError(f"{stream} cannot be read again: {error!r}") from error
    start: dict[str, Any] = {"start_time": datetime.fromtimestamp(since, UTC).isoformat()} if since else {"seq": 1}
    bounds = {"batch": BATCH, "max_bytes": BATCH_BYTES, "next_by_subj": subject}
    while batch := await _batch(bus, stream, {**bounds, **start}):
        for message in batch:
            headers = dict(message.headers or {})
            sequence = int(headers["Nats-Sequence"])
            if sequence > end:
                return
            start = {"seq": sequence + 1}
            try:
                payload = await bus.payload_of(message.data, headers)
            except InvalidEvent as error:
                left_out(headers["Nats-Subject"], sequence, error)
                continue
            if stored := readable(headers["Nats-Subject"], payload, sequence, headers):
                yield stored


async def _batch(bus: "NatsBus", stream: str, request: dict[str, Any]) -> list[Msg]:
    """The messages that answer one request; none at the end of the stream."""
    inbox: asyncio.Queue[Msg] = asyncio.Queue()
    reply = bus.client.new_inbox()
    found: list[Msg] = []
    try:
        subscription = await bus.client.subscribe(reply, cb=inbox.put)
        try:
            await bus.client.publish(f"$JS.API.DIRECT.GET.{stream}", json.dumps(request).encode(), reply=reply)
            while True:
                message = await asyncio.wait_for(inbox.get(), TIMEOUT_S)
                headers = message.headers or {}
                if headers.get("Status") in ("204", "404"):
                    return found
                if headers.get("Status"):
                    raise BusError(f"{stream} cannot list that: {headers['Status']} {headers.get('Description', '')}")
                found.append(message)
        finally:
            await subscription.unsubscribe()
    except TimeoutError as error:
        raise BusError(f"{stream} did not answer within {TIMEOUT_S:g} s") from error
    except NatsError as error:
        raise BusError(f"{stream} could not be asked: {error!r}") from error


async def _content(bus: "NatsBus", message: Msg) -> tuple[dict[str, str], bytes]:
    headers = dict(message.headers or {})
    return headers, await bus.payload_of(message.data, headers)
