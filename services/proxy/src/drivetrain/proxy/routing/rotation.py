"""What the weights service says of a policy's replicas: what each may be asked for, and who must not be asked."""

import asyncio
import contextlib
import time
from collections import OrderedDict
from collections.abc import Callable

from drivetrain.common.bus import Bus
from drivetrain.common.bus.base import BusError
from drivetrain.common.events import InvalidEvent, NewerVersion, Post, ReplicaRotation
from drivetrain.common.telemetry.logs import get_logger
from drivetrain.proxy.routing import courses
from drivetrain.proxy.routing.courses import Asked

_log = get_logger("routing")

HOLDS_S = 30.0
"""A rotation that is not said again for so long excludes nobody: the weights service is away, and people come first."""
SESSIONS = 100_000
"""Sessions whose version is remembered, where they keep theirs."""


class Rotation:
    """Watches one policy's rotation; `changed` is called after each new one."""

    def __init__(self, bus: Bus, policy: str, changed: Callable[["Rotation"], None] = lambda rotation: None) -> None:
        self.said: ReplicaRotation | None = None
        self._bus, self._subject, self._changed = bus, f"replica.rotation.{policy}", changed
        self._heard_at = 0.0
        self._kept: OrderedDict[str, int] = OrderedDict()

    def post(self, url: str) -> Post | None:
        """What is said of a replica; None where nothing is."""
        return next((post for post in self.said.posts if post.url == url), None) if self.said else None

    @property
    def holds(self) -> bool:
        """Whether the rotation was said lately."""
        return self.said is not None and time.monotonic() - self._heard_at < HOLDS_S

    def wanted(self, session: str) -> int | None:
        """The version that a session's next request is to get; None where nothing is said of versions."""
        if self.said is None:
            return None
        kept = self._kept.get(session) if self.said.sticky else None
        version = (
            kept if kept is not None and courses.available(self.said, kept) else courses.wanted(self.said, session)
        )
        if self.said.sticky:
            self._keep(session, version)
        return version

    def asked(self, url: str, session: str) -> Asked | None:
        """The adapter that a session's request asks a replica for; None for its full weights."""
        post, version = self.post(url), self.wanted(session)
        return courses.asked(self.said, post, version) if self.said and post and version is not None else None

    async def look(self) -> None:
        """Ask the bus once. While it is away, what was known stays."""
        try:
            stored = await self._bus.get("REPLICAS", self._subject)
        except (BusError, InvalidEvent, NewerVersion) as error:
            _log.warning("the rotation cannot be read", reason=str(error))
            return
        if stored and isinstance(stored.event, ReplicaRotation) and stored.event != self.said:
            self.said, self._heard_at = stored.event, time.monotonic()
        self._changed(self)

    async def run(self, every_s: float, stopping: Callable[[], bool]) -> None:
        """Look whenever one is published, and every so often, until the service stops."""
        while not stopping():
            try:
                async with self._bus.watch(self._subject) as published:
                    while not stopping():
                        published.clear()
                        await self.look()
                        with contextlib.suppress(TimeoutError):
                            await asyncio.wait_for(published.wait(), every_s)
            except BusError:
                await asyncio.sleep(every_s)

    def _keep(self, session: str, version: int) -> None:
        self._kept[session] = version
        self._kept.move_to_end(session)
        if len(self._kept) > SESSIONS:
            self._kept.popitem(last=False)
