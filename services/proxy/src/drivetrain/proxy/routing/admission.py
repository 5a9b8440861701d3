"""When a request may go, and to which replica: bounded load, a fair bounded queue, rollouts held when they must be."""

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Sequence

import msgspec

from drivetrain.proxy.engines.base import EngineBusy, Want
from drivetrain.proxy.metrics import BUSY, QUEUE, QUEUE_WAIT
from drivetrain.proxy.routing.choice import ranked
from drivetrain.proxy.routing.replica import Replica

LONGEST_RETRY_S = 10


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """`max_in_flight` is of one replica; `queue_s` is the longest wait of a request, `max_queued` the queue's length;
    for `max_lead` and `max_lag` see `ranked`; rollouts wait beyond `max_staleness` versions."""

    max_in_flight: int = 1024
    queue_s: float = 30.0
    max_queued: int = 1024
    max_lead: int = 8
    max_lag: int = 1
    max_staleness: int = 4


class Admission:
    """The door to one policy's replicas, which may come and go. `held` says why rollouts must wait, or is empty;
    `wanted` gives the version that a session is to get."""

    def __init__(
        self,
        policy: str,
        replicas: Sequence[Replica],
        limits: Limits,
        held: Callable[[], str] = lambda: "",
        wanted: Callable[[str], int | None] = lambda session: None,
    ) -> None:
        self.replicas = replicas
        self._wanted = wanted
        self._policy, self._limits, self._held = policy, limits, held
        self._lanes: OrderedDict[tuple[bool, str], deque[_Waiting]] = OrderedDict()
        self._queued = 0

    async def enter(self, want: Want, tried: Collection[Replica] = ()) -> Replica | None:
        """A replica for this request that was not tried yet, one of its places taken; `leave` gives the place back.
        None when all were tried.

        Raises:
            EngineBusy: none had room in time.
        """
        if self.replicas and all(replica in tried for replica in self.replicas):
            return None
        if (replica := self._place(want, tried)) is not None:
            return replica
        if self._queued >= self._limits.max_queued:
            raise self._busy("full", f"{self._queued} requests wait already")
        arrived = time.monotonic()
        try:
            return await self._wait(_Waiting(want, tried, asyncio.get_running_loop().create_future()))
        finally:
            QUEUE_WAIT.labels(self._policy).observe(time.monotonic() - arrived)

    def leave(self, replica: Replica) -> None:
        """A request has ended: the next may go."""
        replica.took(-1)
        self.pump()

    def pump(self) -> None:
        """Let go whoever can, the lanes in turn. To be called whenever places, health or holds have changed."""
        stuck: set[tuple[bool, str]] = set()
        while name := next((name for name in self._lanes if name not in stuck), None):
            lane = self._lanes[name]
            while lane and lane[0].place.done():
                lane.popleft()
            if not lane:
                del self._lanes[name]
            elif (replica := self._place(lane[0].want, lane[0].tried)) is None:
                stuck.add(name)
            else:
                lane.popleft().place.set_result(replica)
                self._lanes.move_to_end(name)

    async def _wait(self, waiting: "_Waiting") -> Replica:
        want, entered = waiting.want, False
        self._lanes.setdefault((want.rollout, want.lane), deque()).append(waiting)
        self._queue(+1)
        try:
            async with asyncio.timeout(self._limits.queue_s):
                replica = await waiting.place
                entered = True
                return replica
        except TimeoutError as error:
            why = (want.rollout and self._held()) or "every replica is busy"
            raise self._busy("waited", f"{why}, for {self._limits.queue_s:g} s now") from error
        finally:
            self._queue(-1)
            waiting.place.cancel()
            if not entered and not waiting.place.cancelled():
                # It came in the moment in which the caller left
                self.leave(waiting.place.result())

    def _place(self, want: Want, tried: Collection[Replica]) -> Replica | None:
        """Take a place, at the best replica that has one. Those out of rotation are never asked, unhealthy ones only
        when no other is left."""
        if want.rollout and self._held():
            return None
        left = {replica.url: replica for replica in self.replicas if replica not in tried and not replica.out}
        healthy = {url: replica for url, replica in left.items() if replica.healthy}
        open_to = [r for r in (healthy or left).values() if r.in_flight < self._limits.max_in_flight]
        if not open_to:
            return None
        seen = [replica.seen for replica in open_to]
        lead, lag = self._limits.max_lead, self._limits.max_lag
        best = ranked(want.session, seen, max_lead=lead, max_lag=lag, wanted=self._wanted(want.session))[0]
        left[best.url].took(+1)
        return left[best.url]

    def _queue(self, requests: int) -> None:
        self._queued += requests
        QUEUE.labels(self._policy).set(self._queued)

    def _busy(self, reason: str, message: str) -> EngineBusy:
        BUSY.labels(self._policy, reason).inc()
        return EngineBusy(message, retry_after=max(1, min(LONGEST_RETRY_S, round(self._limits.queue_s))))


class _Waiting(msgspec.Struct, frozen=True, eq=False):
    want: Want
    tried: Collection[Replica]
    place: "asyncio.Future[Replica]"
