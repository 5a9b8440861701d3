"""How the replicas are: asked every so often, and at once when a request failed."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence

from drivetrain.common.telemetry.logs import get_logger
from drivetrain.proxy.engines.vllm import Vllm
from drivetrain.proxy.routing.replica import Replica

_log = get_logger("routing")


class Health:
    """Probes one policy's replicas; `changed` is called after each look at all of them."""

    def __init__(self, vllm: Vllm, replicas: Sequence[Replica], every_s: float, changed: Callable[[], None]) -> None:
        self._vllm, self._replicas, self._every_s, self._changed = vllm, replicas, every_s, changed
        self._doubted = asyncio.Event()
        self.context_tokens: int | None = None

    def doubt(self) -> None:
        """Look again at once: something failed."""
        self._doubted.set()

    async def run(self, stopping: Callable[[], bool]) -> None:
        """Probe until the service stops."""
        while not stopping():
            self._doubted.clear()
            await self.look()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._doubted.wait(), self._every_s)

    async def look(self) -> None:
        """Probe every replica once."""
        await asyncio.gather(*map(self._probe, tuple(self._replicas)))
        self._changed()

    async def _probe(self, replica: Replica) -> None:
        healthy = await self._vllm.healthy(replica.url)
        version = await self._vllm.version(replica.url) if healthy else replica.version
        if healthy and self.context_tokens is None:
            self.context_tokens = await self._vllm.context_tokens(replica.url)
        if healthy != replica.healthy:
            _log.info("replica is well" if healthy else "replica does not answer", replica=replica.url, version=version)
        replica.saw(healthy=healthy, version=version)
