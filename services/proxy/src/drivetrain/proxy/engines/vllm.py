"""vLLM's `/inference/v1/generate`: tokens in, tokens out, streamed, with logprobs and weight-version spans."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Literal

import aiohttp
import msgspec

from drivetrain.common.telemetry.logs import get_logger
from drivetrain.proxy.engines.base import EngineBroke, EngineRefused, EngineUnavailable, LabelSpan, Sampled

_NO_LOGPROB = -9999.0
"""What vLLM writes where it has no logprob."""

_REFUSALS = frozenset({400, 404, 413, 422})
_log = get_logger("engine")


class _Logprob(msgspec.Struct):
    token_id: int
    logprob: float


class _Logprobs(msgspec.Struct):
    content: list[_Logprob] | None = None


class _Choice(msgspec.Struct):
    token_ids: list[int] | None = None
    logprobs: _Logprobs | None = None
    finish_reason: Literal["stop", "length", "abort", "error"] | None = None
    weight_versions: list[LabelSpan] | None = None


class _Cached(msgspec.Struct):
    cached_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens_details: _Cached | None = None


class _Chunk(msgspec.Struct):
    choices: list[_Choice] | None = None
    usage: _Usage | None = None


_chunk_decoder = msgspec.json.Decoder(_Chunk)


class VllmStream:
    """One reply of one replica; see `EngineStream`."""

    def __init__(self, replica: str, response: aiohttp.ClientResponse, stall_s: float) -> None:
        self.replica = replica
        self._response = response
        self._stall_s = stall_s
        self._first: Sampled | None = None

    async def start(self) -> None:
        """Wait for the first tokens."""
        self._first = await self._next()

    async def __aiter__(self) -> AsyncIterator[Sampled]:
        sampled = self._first
        while sampled is not None:
            yield sampled
            sampled = await self._later()

    async def _later(self) -> Sampled | None:
        try:
            async with asyncio.timeout(self._stall_s):
                return await self._next()
        except TimeoutError as error:
            raise EngineBroke(f"the engine was silent for {self._stall_s:g} s in mid-reply") from error
        except (aiohttp.ClientError, ConnectionError, ValueError) as error:
            raise EngineBroke(f"the connection to the engine broke in mid-reply ({type(error).__name__})") from error

    async def _next(self) -> Sampled | None:
        """The next event of the stream; None after its regular end."""
        async for line in self._response.content:
            data = line.strip()
            if not data.startswith(b"data:"):
                continue
            data = data[5:].strip()
            return None if data == b"[DONE]" else read_chunk(data)
        raise EngineBroke("the engine closed the connection in mid-reply")


class Vllm:
    """Several replicas of one policy. A session goes to the same replica while that one answers."""

    def __init__(
        self, replicas: Sequence[str], *, connect_s: float = 5.0, first_byte_s: float = 300.0, stall_s: float = 120.0
    ) -> None:
        self.replicas = list(replicas)
        self._first_byte_s = first_byte_s
        self._stall_s = stall_s
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=connect_s)
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=3)
        self._http = aiohttp.ClientSession(timeout=timeout, connector=connector, read_bufsize=1 << 20)

    async def close(self) -> None:
        """Close all connections."""
        await self._http.close()

    @asynccontextmanager
    async def generate(
        self, turn: str, session: str, prompt: Sequence[int], parameters: dict[str, Any]
    ) -> AsyncIterator[VllmStream]:
        body = msgspec.json.encode(
            {
                "request_id": turn,
                "token_ids": prompt,
                "sampling_params": parameters,
                "stream": True,
                "stream_options": {"include_usage": True},
            }
        )
        stream = await self._open(session, body)
        try:
            yield stream
        finally:
            stream._response.close()

    async def context_tokens(self) -> int | None:
        for replica in self.replicas:
            try:
                async with self._http.get(f"{replica}/v1/models", timeout=aiohttp.ClientTimeout(total=5)) as response:
                    models = (await response.json())["data"]
                    return int(models[0]["max_model_len"])
            except (aiohttp.ClientError, TimeoutError, ValueError, KeyError, IndexError, TypeError) as error:
                _log.debug("replica does not answer", replica=replica, reason=type(error).__name__)
        return None

    async def _open(self, session: str, body: bytes) -> VllmStream:
        """A stream whose first tokens are there, from the first replica in the session's order that gives any."""
        reasons = []
        for replica in order_for(session, self.replicas):
            try:
                return await self._try_twice(replica, body)
            except (aiohttp.ClientError, ConnectionError, TimeoutError, ValueError, EngineBroke) as error:
                reason = str(error) or type(error).__name__
                _log.warning("replica failed before the first token", replica=replica, reason=reason)
                reasons.append(f"{replica}: {reason}")
        raise EngineUnavailable("no replica answered (" + "; ".join(reasons) + ")")

    async def _try_twice(self, replica: str, body: bytes) -> VllmStream:
        """A pooled connection may have been closed by the server meanwhile: that is no failure of the replica."""
        try:
            return await self._try(replica, body)
        except aiohttp.ClientConnectorError:
            raise
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
            return await self._try(replica, body)

    async def _try(self, replica: str, body: bytes) -> VllmStream:
        headers = {"Content-Type": "application/json"}
        async with asyncio.timeout(self._first_byte_s):
            response = await self._http.post(f"{replica}/inference/v1/generate", data=body, headers=headers)
            try:
                await _check(response)
                stream = VllmStream(replica, response, self._stall_s)
                await stream.start()
            except BaseException:
                response.close()
                raise
        return stream


def read_chunk(data: bytes) -> Sampled:
    """One event of the generate stream.

    Raises:
        EngineBroke: it is an error of the engine, or not of the known form.
    """
    try:
        chunk = _chunk_decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise EngineBroke(f"the engine sent what cannot be read: {_words(data)}") from error
    if chunk.choices is None:
        raise EngineBroke(f"the engine reports: {_words(data)}")
    cached = chunk.usage.prompt_tokens_details if chunk.usage else None
    if not chunk.choices:
        return Sampled([], [], cached=cached.cached_tokens if cached else None)
    choice = chunk.choices[0]
    ids = choice.token_ids or []
    finish = choice.finish_reason
    if finish == "abort" or finish == "error":
        raise EngineBroke(f"the engine ended the reply with {finish!r}")
    return Sampled(ids, _logprobs(ids, choice.logprobs), finish, choice.weight_versions)


def order_for(session: str, replicas: Sequence[str]) -> list[str]:
    """The replicas in this session's order of preference (rendezvous hashing: stable when others come and go)."""
    return sorted(replicas, key=lambda replica: hashlib.blake2b(f"{session}\0{replica}".encode()).digest())


def _logprobs(ids: Sequence[int], logprobs: _Logprobs | None) -> list[float | None]:
    entries = (logprobs.content if logprobs else None) or []
    if [entry.token_id for entry in entries] != list(ids):
        return [None] * len(ids)
    return [entry.logprob if entry.logprob > _NO_LOGPROB else None for entry in entries]


async def _check(response: aiohttp.ClientResponse) -> None:
    if response.status == 200:
        return
    words = _words(await response.read())
    if response.status in _REFUSALS:
        raise EngineRefused(f"the engine refuses the request: {words}")
    raise EngineBroke(f"the engine answered {response.status}: {words}")


def _words(data: bytes) -> str:
    """The message in an error of the engine, or the beginning of what it sent."""
    try:
        error = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return data[:200].decode(errors="replace")
    inner = error.get("error", error) if isinstance(error, dict) else error
    return str(inner.get("message", inner) if isinstance(inner, dict) else inner)[:500]
