"""One policy's replicas: who they are, how they are, and the engine that they make together."""

import asyncio
from collections.abc import Callable, Sequence

from drivetrain.common.bus import Bus
from drivetrain.proxy.engines.vllm import Vllm
from drivetrain.proxy.routing.admission import Admission, Limits
from drivetrain.proxy.routing.courses import served, urls
from drivetrain.proxy.routing.health import Health
from drivetrain.proxy.routing.replica import Replica
from drivetrain.proxy.routing.rotation import Rotation
from drivetrain.proxy.routing.router import Router
from drivetrain.proxy.routing.staleness import Staleness


class Pool:
    """Routing for one policy, wired. `engine` is what a gateway asks."""

    def __init__(
        self, policy: str, listed: Sequence[str], vllm: Vllm, bus: Bus, limits: Limits, *, probe_s: float = 2.0
    ) -> None:
        self.replicas = [Replica(policy, url) for url in listed]
        self._probe_s = probe_s
        self._staleness = Staleness(bus, policy, self._served, limits.max_staleness)
        self._policy, self._urls = policy, tuple(listed)
        self._rotation = Rotation(bus, policy, self._apply)
        self._admission = Admission(policy, self.replicas, limits, self._staleness.held, self._rotation.wanted)
        self._health = Health(vllm, self.replicas, probe_s, self._admission.pump)
        self.engine = Router(vllm, self._admission, self._health.doubt, self._rotation)

    @property
    def ready(self) -> bool:
        """Whether a replica is known to be well."""
        return any(replica.healthy for replica in self.replicas)

    @property
    def context_tokens(self) -> int | None:
        """What the first replica that was asked allows for prompt and reply together."""
        return self._health.context_tokens

    async def look(self) -> None:
        """Look once at the replicas, and at what the bus says of the policy's versions."""
        await asyncio.gather(self._health.look(), self._staleness.look(), self._rotation.look())
        self._admission.pump()

    async def run(self, stopping: Callable[[], bool]) -> None:
        """Keep looking until the service stops."""
        await asyncio.gather(
            self._health.run(stopping),
            self._staleness.run(self._probe_s, self._admission.pump, stopping),
            self._rotation.run(self._probe_s, stopping),
        )

    def _apply(self, rotation: Rotation) -> None:
        """Take over what the weights service says: replicas that came or went, what each serves, who is out."""
        if rotation.said is None:
            return
        named = urls(rotation.said, self._urls)
        known = {replica.url: replica for replica in self.replicas}
        if list(known) != named:
            self.replicas[:] = [known.get(url) or Replica(self._policy, url) for url in named]
            self._health.doubt()
        for replica in self.replicas:
            post = rotation.post(replica.url)
            replica.posted(served(post) if post else frozenset(), post.out if post and rotation.holds else "")
        self._admission.pump()

    def _served(self) -> list[int]:
        seen = [replica.seen for replica in self.replicas]
        return [one.version for one in seen if one.healthy and one.version is not None]
