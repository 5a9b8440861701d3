"""A policy's replicas: those of the settings and those that announce themselves, and what the proxy may ask of each."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass

from drivetrain.common.bus.base import Bus, BusError
from drivetrain.common.events import Post, ReplicaRotation, ReplicaSeen
from drivetrain.common.telemetry.logs import get_logger
from drivetrain.weights import metrics
from drivetrain.weights.replica import Replica
from drivetrain.weights.rollout import Outcome
from drivetrain.weights.target import Target

log = get_logger("weights")

GONE_S = 15.0
"""A replica that announced itself and is not heard of for so long is gone."""
REPEAT_S = 5.0
"""The rotation is published again after so long, so that the proxy knows that it still holds."""


@dataclass(frozen=True)
class Course:
    """What requests are to get: the promoted version, and for a share of the sessions a candidate."""

    version: int = 0
    canary: int | None = None
    share: float = 0.0


class Fleet:
    """`make` gives the replica at a URL with a name; without it only the `listed` ones count. `clock` is unix time."""

    def __init__(
        self,
        bus: Bus,
        policy: str,
        listed: Sequence[Replica],
        clock: Callable[[], float],
        *,
        make: Callable[[str, str], Replica] | None = None,
        max_unavailable: int = 1,
        sticky: bool = False,
    ) -> None:
        self.replicas = list(listed)
        self.course = Course()
        self.turn = asyncio.Semaphore(max_unavailable)
        self._bus, self._policy, self._clock, self._make = bus, policy, clock, make
        self._listed = {replica.url for replica in listed}
        self._max_unavailable, self._sticky = max_unavailable, sticky
        self._published: tuple[Course, list[Post]] | None = None
        self._published_at = 0.0
        for replica in listed:
            replica.changed = self.publish

    def __iter__(self) -> Iterator[Replica]:
        return iter(self.replicas)

    @property
    def serving(self) -> bool:
        """Whether at least one replica serves what is promoted."""
        return any(replica.up for replica in self.replicas)

    async def discover(self) -> None:
        """Take in the replicas that announce themselves for this policy, and let go of those that fell silent."""
        if self._make is None:
            return
        try:
            found = [stored.event for stored in await self._bus.last("REPLICAS", "replica.seen.*")]
        except BusError as error:
            log.warning("replicas cannot be looked up", reason=str(error))
            return
        now = self._clock()
        seen = {e.url: e for e in found if isinstance(e, ReplicaSeen) and self._policy in e.policies}
        here = {url: event for url, event in seen.items() if now - event.at < GONE_S}
        for url in here.keys() - {replica.url for replica in self.replicas}:
            log.info("replica announced", replica=here[url].name, url=url)
            self.replicas.append(self._take_in(here[url], self._make))
        for replica in [r for r in self.replicas if r.url not in self._listed | here.keys()]:
            log.warning("replica gone", replica=replica.name, url=replica.url)
            self.replicas.remove(replica)
            metrics.UP.labels(replica.name).set(0)
            await replica.engine.close()

    def _take_in(self, seen: ReplicaSeen, make: Callable[[str, str], Replica]) -> Replica:
        replica = make(seen.url, seen.name)
        replica.changed = self.publish
        return replica

    async def stage(self, target: Target) -> Outcome | None:
        """Let all replicas that are up read and check a version beside their requests; the first objection."""
        ready = [replica for replica in self.replicas if replica.up]
        objections = await asyncio.gather(*(replica.stage(target) for replica in ready))
        return next((objection for objection in objections if objection), None)

    async def waves(self, target: Target) -> AsyncIterator[list[tuple[Replica, Outcome]]]:
        """Bring the replicas to a version, `max_unavailable` at a time: those that are up first, of them one alone
        first, so that what is wrong with a version is seen on one. An adapter makes nobody unavailable: then all others
        follow at once."""
        order = sorted(self.replicas, key=lambda replica: not replica.up)
        size = len(order) if target.weights.name else self._max_unavailable
        for wave in [order[:1], *(order[at : at + size] for at in range(1, len(order), size))]:
            # A replica that is down is tried once: it must not hold up the others
            brought = [replica.bring(target, None if replica.up else 1) for replica in wave]
            yield list(zip(wave, await asyncio.gather(*brought), strict=True))

    async def set(self, course: Course) -> None:
        """From now on requests get this."""
        self.course = course
        await self.publish()

    async def publish(self) -> None:
        """Tell the proxy, when something changed or was not said for a while."""
        now, state = self._clock(), (self.course, [replica.post(self._policy) for replica in self.replicas])
        if state == self._published and now - self._published_at < REPEAT_S:
            return
        course, posts = state
        rotation = ReplicaRotation(
            policy=self._policy,
            version=course.version,
            canary=course.canary,
            share=course.share,
            sticky=self._sticky,
            posts=posts,
            at=now,
        )
        try:
            await self._bus.publish(rotation)
        except BusError as error:
            log.warning("the rotation was not published", reason=str(error))
            return
        self._published, self._published_at = state, now
