"""A client of vLLM servers: it opens replies and asks how a server is. Which server to ask is decided elsewhere."""

import asyncio
from typing import Any

import aiohttp
import msgspec

from drivetrain.proxy.engines.base import AdapterGone, EngineBroke, EngineRefused, EngineUnavailable
from drivetrain.proxy.engines.stream import Relabel, VllmStream
from drivetrain.proxy.engines.wire import REFUSALS, words

_BOMB = "decompression bomb"
"""In vLLM's words on an image that is too large to be read, which it calls an error of its own."""

NOT_FOUND = 404

_KEEP_ALIVE_S = 3
"""vLLM closes an idle connection after 5 s by default: ours are gone before."""


class Vllm:
    """One pool of at most `connections` connections to all servers."""

    def __init__(
        self,
        *,
        connect_s: float = 5.0,
        first_byte_s: float = 300.0,
        stall_s: float = 120.0,
        connections: int = 1024,
    ) -> None:
        self._connect_s, self._first_byte_s, self._stall_s = connect_s, first_byte_s, stall_s
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=connect_s)
        connector = aiohttp.TCPConnector(limit=connections, keepalive_timeout=_KEEP_ALIVE_S)
        self._http = aiohttp.ClientSession(timeout=timeout, connector=connector, read_bufsize=1 << 20)

    async def close(self) -> None:
        """Close all connections."""
        await self._http.close()

    async def open(self, replica: str, body: bytes, asked: Relabel | None = None) -> VllmStream:
        """A reply of this replica whose first tokens are there; the caller closes it. `asked` is the adapter that the
        body names.

        Raises:
            AdapterGone: the replica does not have it.
            EngineRefused: the request itself is refused.
            EngineUnavailable: it cannot be reached.
            EngineBroke: it gives no first token; the message says why.
        """
        try:
            return await self._try_twice(replica, body, asked)
        except TimeoutError as error:
            raise EngineBroke(f"no first token within {self._first_byte_s:g} s") from error
        except aiohttp.ClientConnectorError as error:
            raise EngineUnavailable(str(error)) from error
        except (aiohttp.ClientError, ConnectionError) as error:
            raise EngineBroke(str(error) or type(error).__name__) from error

    async def healthy(self, replica: str) -> bool:
        """Whether the server says within `connect_s` that its engine lives."""
        try:
            async with self._get(f"{replica}/health") as response:
                return int(response.status) == 200
        except (aiohttp.ClientError, ConnectionError, TimeoutError):
            return False

    async def version(self, replica: str) -> int | None:
        """The weight version that the server serves, or None where it does not say or it is no integer."""
        label = str((await self._ask(f"{replica}/weight_info") or {}).get("weight_version"))
        return int(label) if label.isdecimal() else None

    async def context_tokens(self, replica: str) -> int | None:
        """How many tokens prompt and reply may have together, or None while the server does not say."""
        models = (await self._ask(f"{replica}/v1/models") or {}).get("data")
        first = models[0] if isinstance(models, list) and models else None
        tokens = first.get("max_model_len") if isinstance(first, dict) else None
        return tokens if isinstance(tokens, int) and tokens > 0 else None

    def _get(self, url: str) -> Any:
        return self._http.get(url, timeout=aiohttp.ClientTimeout(total=self._connect_s))

    async def _ask(self, url: str) -> dict[str, Any] | None:
        try:
            async with self._get(url) as response:
                return (
                    msgspec.json.decode(await response.read(), type=dict[str, Any]) if response.status == 200 else None
                )
        except (aiohttp.ClientError, ConnectionError, TimeoutError, msgspec.MsgspecError):
            return None

    async def _try_twice(self, replica: str, body: bytes, asked: Relabel | None) -> VllmStream:
        """A pooled connection may have been closed by the server meanwhile: that is no failure of the replica."""
        try:
            return await self._try(replica, body, asked)
        except aiohttp.ClientConnectorError:
            raise
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
            return await self._try(replica, body, asked)

    async def _try(self, replica: str, body: bytes, asked: Relabel | None) -> VllmStream:
        headers = {"Content-Type": "application/json"}
        async with asyncio.timeout(self._first_byte_s):
            response = await self._http.post(f"{replica}/inference/v1/generate", data=body, headers=headers)
            try:
                if asked and response.status == NOT_FOUND:
                    raise AdapterGone(words(await response.read()))
                await _check(response)
                stream = VllmStream(replica, response, self._stall_s, asked)
                await stream.start()
            except BaseException:
                response.close()
                raise
        return stream


async def _check(response: aiohttp.ClientResponse) -> None:
    if response.status == 200:
        return
    said = words(await response.read())
    if response.status in REFUSALS or _BOMB in said:
        raise EngineRefused(f"the engine refuses the request: {said}")
    raise EngineBroke(f"the engine answered {response.status}: {said}")
