"""One policy's replicas as one engine: admitted, sent to the right one, and to another if that fails at once."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from drivetrain.common.telemetry.logs import get_logger
from drivetrain.proxy.engines.base import AdapterGone, EngineBroke, EngineError, EngineUnavailable, Want
from drivetrain.proxy.engines.stream import VllmStream
from drivetrain.proxy.engines.vllm import Vllm
from drivetrain.proxy.engines.wire import request_body
from drivetrain.proxy.routing.admission import Admission
from drivetrain.proxy.routing.courses import Asked
from drivetrain.proxy.routing.replica import Replica
from drivetrain.proxy.routing.rotation import Rotation

Body = Callable[[Asked | None], bytes]

MOST_BROKEN = 3
"""How many replicas may break on one request before it is given up."""

_log = get_logger("routing")


class Router:
    """See `Engine`. `failed` is told whenever a replica did not do what it should; `rotation` knows what to ask of
    each."""

    def __init__(
        self,
        vllm: Vllm,
        admission: Admission,
        failed: Callable[[], None] = lambda: None,
        rotation: Rotation | None = None,
    ) -> None:
        self._vllm, self._admission, self._failed, self._rotation = vllm, admission, failed, rotation

    @asynccontextmanager
    async def generate(
        self, turn: str, want: Want, prompt: Sequence[int], parameters: dict[str, Any], images: Sequence[str] = ()
    ) -> AsyncIterator[VllmStream]:
        def body(asked: Asked | None) -> bytes:
            return request_body(turn, prompt, parameters, images, asked.name if asked else None)

        replica, stream = await self._open(want, body)
        try:
            yield stream
        except EngineBroke as error:
            self._note(replica, str(error), "replica failed in mid-reply")
            raise
        finally:
            stream.close()
            self._admission.leave(replica)

    async def _open(self, want: Want, body: Body) -> tuple[Replica, VllmStream]:
        """A stream whose first tokens are there. No replica is tried twice; those that break count, because the
        request itself may be what breaks them."""
        tried: dict[Replica, EngineError] = {}
        while sum(isinstance(error, EngineBroke) for error in tried.values()) < MOST_BROKEN:
            replica = await self._admission.enter(want, tried)
            if replica is None:
                break
            try:
                return replica, await self._started(replica, want, body)
            except (EngineBroke, EngineUnavailable) as error:
                self._note(replica, str(error), "replica failed before the first token")
                tried[replica] = error
        reasons = "; ".join(f"{replica.url}: {error}" for replica, error in tried.items())
        raise EngineUnavailable(f"no replica answered ({reasons})")

    async def _started(self, replica: Replica, want: Want, body: Body) -> VllmStream:
        """The stream, with the place kept; without a stream the place is given back."""
        try:
            asked = self._rotation.asked(replica.url, want.session) if self._rotation else None
            try:
                return await self._vllm.open(replica.url, body(asked), asked)
            except AdapterGone:
                # What the proxy knew was old: it was unloaded, and another has taken its place
                assert self._rotation
                await self._rotation.look()
                asked = self._rotation.asked(replica.url, want.session)
                return await self._vllm.open(replica.url, body(asked), asked)
        except BaseException:
            self._admission.leave(replica)
            raise

    def _note(self, replica: Replica, reason: str, what: str) -> None:
        # What the engine says, after the colon, may repeat what it was asked: callers are told it, logs are not.
        _log.warning(what, replica=replica.url, reason=reason.partition(": ")[0])
        replica.failed()
        self._failed()
