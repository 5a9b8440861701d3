"""The bus as the services see it: publish an event once, consume with explicit acks, read the last of a subject.

Two implementations keep one contract (tests/contract): `NatsBus` on JetStream and `MemoryBus` for unit tests.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol

from drivetrain.common.errors import CannotStart
from drivetrain.common.events import Event


class BusError(CannotStart):
    """The bus refused or could not be reached; the message says which and what to do."""


@dataclass(frozen=True)
class Consumer:
    """A durable consumer. `ack_wait_s` must exceed the longest work on one message (in-progress acks extend it);
    `max_deliver` bounds poison only, timers never live here."""

    stream: str
    durable: str
    subjects: tuple[str, ...]
    ack_wait_s: float = 60.0
    max_deliver: int = 5
    max_ack_pending: int = 256
    start_at_new: bool = False


class Delivery(Protocol):
    """One message handed to a consumer. `sequence` is its place in the stream, `attempt` counts from 1."""

    @property
    def event(self) -> Event: ...
    @property
    def subject(self) -> str: ...
    @property
    def sequence(self) -> int: ...
    @property
    def attempt(self) -> int: ...
    @property
    def headers(self) -> Mapping[str, str]: ...

    async def ack(self, *, confirm: bool = True) -> None:
        """Done: the result is stored. Waits for the server's confirmation, unless told not to; without one the message
        comes again."""

    async def nak(self) -> None:
        """Not done: deliver again at once, to any replica."""

    async def in_progress(self) -> None:
        """Still working: start `ack_wait_s` anew."""

    async def dead(self, reason: str) -> None:
        """Cannot be done: keep it in the dead-letter stream with the reason, and deliver it no more."""


class Subscription(Protocol):
    """A consumer that is being read."""

    async def fetch(self, count: int, timeout_s: float) -> Sequence[Delivery]:
        """Up to `count` deliveries; returns as soon as one is there, empty after `timeout_s`. Undecodable payloads
        are dead-lettered on the way.

        Raises:
            NewerVersion: a payload of a newer schema; it stays in the stream.
        """

    async def rest(self) -> Sequence[Delivery]:
        """What earlier fetches asked for and did not return yet; asks for nothing more. Empty once all of it came."""

    async def pending(self) -> int:
        """Messages of this consumer that were not yet delivered.

        Raises:
            BusError: the server did not say.
        """


@dataclass(frozen=True)
class Stored:
    """An event as it lies in its stream."""

    event: Event
    subject: str
    sequence: int
    headers: Mapping[str, str] = field(default_factory=dict)


class Bus(Protocol):
    """What a service may ask of the bus. `shards` is the number of shards in session subjects."""

    shards: int

    async def publish(self, event: Event, headers: Mapping[str, str] | None = None) -> int | None:
        """Store an event under its own subject, once: a copy is refused however late. Large payloads travel through
        the object store.

        Returns: its stream sequence, or None when the subject was stored already.
        Raises:
            BusError: the stream is full, missing, or the server did not confirm in time. Nothing was lost: retry.
        """

    def consume(self, consumer: Consumer) -> AbstractAsyncContextManager[Subscription]:
        """Create the durable consumer if it is missing and read from it."""
        ...

    async def last(self, stream: str, subject: str) -> list[Stored]:
        """The last event of every subject that matches (wildcards allowed), in stream order. What
        this code can never read is left out. Not read-your-writes on a cluster: a caller that misses an event asks
        `get` for it.

        Raises:
            NewerVersion: an event of a newer schema is among them.
            BusError: the bus is away.
        """

    async def get(self, stream: str, subject: str) -> Stored | None:
        """The last event of one subject, or the newest of all that match (wildcards allowed), from the leader.

        Raises:
            InvalidEvent, NewerVersion: there is one, and this code cannot read it.
            BusError: the bus is away.
        """

    def replay(self, stream: str, subject: str, since: float = 0.0) -> AsyncIterator[Stored]:
        """Every event of the subjects that match (wildcards allowed), in stream order, from the first one stored at
        `since` (unix seconds) to the one that was the last when the reading began. What this code cannot read is left
        out. Not read-your-writes on a cluster.

        Raises:
            BusError: the bus went away; what was yielded until then is good.
        """
        ...

    def watch(self, subject: str) -> AbstractAsyncContextManager[asyncio.Event]:
        """An event that is set whenever something is published under a subject (wildcards allowed). A hint to look at
        once: what is published while the bus is away sets nothing, so who watches looks every so often, too.

        Raises:
            BusError: the bus was never there.
        """
        ...

    async def durables(self, stream: str) -> list[str]:
        """The names of a stream's durable consumers.

        Raises:
            BusError: the server did not say.
        """

    async def close(self) -> None:
        """Finish pending publishes and disconnect."""
