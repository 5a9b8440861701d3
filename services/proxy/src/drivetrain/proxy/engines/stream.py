"""One reply of one vLLM replica as it arrives: server-sent events in, sampled tokens out, silence noticed."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from itertools import takewhile
from typing import Protocol

import aiohttp

from drivetrain.proxy.engines.base import Candidate, EngineBroke, Sampled
from drivetrain.proxy.engines.wire import read_chunk, read_first

_LONGEST_LINE = 16 << 20
_END = b"[DONE]"


class Relabel(Protocol):
    """Knows the version of tokens whose labels tell of the weights below an adapter alone."""

    def relabelled(self, sampled: Sampled) -> Sampled:
        """The tokens with their own version."""
        ...


class VllmStream:
    """See `EngineStream`. `stall_s` bounds each silence after the first tokens; a slow reader is no silence. `asked` is
    the adapter that the reply comes from, if any."""

    def __init__(
        self, replica: str, response: aiohttp.ClientResponse, stall_s: float, asked: Relabel | None = None
    ) -> None:
        self.replica = replica
        self._asked = asked
        self._response = response
        self._silence = _Silence(stall_s, response.close)
        self._rest = b""
        self._events: list[bytes] = []

    async def start(self) -> None:
        """Wait for the first tokens.

        Raises:
            EngineRefused: the engine finds the request itself wrong.
            EngineBroke: another error comes instead, or the stream ends before it.
            aiohttp.ClientError, ConnectionError: the connection breaks.
        """
        first, *self._events = await self._read()
        if first == _END:
            raise EngineBroke("the engine's reply is empty")
        self._first = read_first(first)

    @property
    def prompt_ids(self) -> list[int] | None:
        return self._first.prompt_ids

    async def __aiter__(self) -> AsyncIterator[Sampled]:
        self._silence.watch()
        try:
            yield self._asked.relabelled(self._first) if self._asked else self._first
            while True:
                for sampled in together(self._events):
                    yield self._asked.relabelled(sampled) if self._asked else sampled
                if _END in self._events:
                    return
                self._events = await self._read_on()
        finally:
            self._silence.end()

    def close(self) -> None:
        """Let go of the connection; the engine aborts what it still samples."""
        self._response.close()

    async def _read_on(self) -> list[bytes]:
        self._silence.begins()
        try:
            return await self._read()
        except (aiohttp.ClientError, ConnectionError) as error:
            if self._silence.too_long:
                raise EngineBroke(f"the engine was silent for {self._silence.limit_s:g} s in mid-reply") from error
            raise EngineBroke(f"the connection to the engine broke in mid-reply ({type(error).__name__})") from error
        finally:
            self._silence.ends()

    async def _read(self) -> list[bytes]:
        """All events that have arrived, at least one. One wait for many tokens when the engine is faster than we are.

        Raises:
            EngineBroke: the stream ends, or what comes is no stream of events.
        """
        while True:
            data = await self._response.content.readany()
            if not data:
                raise EngineBroke("the engine closed the connection in mid-reply")
            lines = (self._rest + data).split(b"\n")
            self._rest = lines.pop()
            if len(self._rest) > _LONGEST_LINE:
                raise EngineBroke(f"the engine sent a line of more than {_LONGEST_LINE} bytes")
            if events := [line[5:].strip() for line in lines if line.startswith(b"data:")]:
                return events


def together(events: Iterable[bytes]) -> Iterator[Sampled]:
    """Tokens that have arrived together, as one: under load what is handled at once is sent at once. Whatever comes
    before the stream's end or an error is given first.

    Raises:
        EngineBroke: as `read_chunk` does.
    """
    arrived: list[Sampled] = []
    broke: EngineBroke | None = None
    for event in takewhile(lambda event: event != _END, events):
        try:
            arrived.append(read_chunk(event))
        except EngineBroke as error:
            broke = error
            break
    if arrived:
        yield joined(arrived)
    if broke:
        raise broke


def joined(parts: Sequence[Sampled]) -> Sampled:
    """Consecutive parts of one reply as one."""
    if len(parts) == 1:
        return parts[0]
    return Sampled(
        [token for part in parts for token in part.ids],
        [logprob for part in parts for logprob in part.logprobs],
        next((part.finish for part in reversed(parts) if part.finish), None),
        next((part.spans for part in reversed(parts) if part.spans is not None), None),
        next((part.cached for part in reversed(parts) if part.cached is not None), None),
        _tops(parts) if any(part.tops for part in parts) else None,
    )


def _tops(parts: Sequence[Sampled]) -> list[list[Candidate]]:
    return [top for part in parts for top in part.tops or [[]] * len(part.ids)]


class _Silence:
    """Calls `on_too_long` when one wait exceeds the limit. Needs one timer a limit, not one a token."""

    def __init__(self, limit_s: float, on_too_long: Callable[[], object]) -> None:
        self.limit_s, self.too_long = limit_s, False
        self._loop = asyncio.get_running_loop()
        self._on_too_long = on_too_long
        self._since: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    def watch(self) -> None:
        self._timer = self._loop.call_later(self.limit_s, self._look)

    def end(self) -> None:
        if self._timer:
            self._timer.cancel()

    def begins(self) -> None:
        self._since = self._loop.time()

    def ends(self) -> None:
        self._since = None

    def _look(self) -> None:
        waited = 0.0 if self._since is None else self._loop.time() - self._since
        # The loop's timers may be early by their resolution
        if waited > self.limit_s - 0.002:
            self.too_long = True
            self._on_too_long()
        else:
            self._timer = self._loop.call_later(self.limit_s - waited, self._look)
