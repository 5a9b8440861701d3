"""Running a script in a pod, over the API's exec channel (`v4.channel.k8s.io`: the first byte of a message names its
stream). The channel has no end of input: scripts are told how much will come."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

import aiohttp
from kubernetes_asyncio import client
from kubernetes_asyncio.stream import WsApiClient

from drivetrain.orchestrator.backends.base import BackendError
from drivetrain.orchestrator.backends.kubernetes.api import Api

IN, OUT, ERR, STATUS = 0, 1, 2, 3
CHUNK = 512 * 1024
CONTAINER = "sandbox"
HEARTBEAT_S = 20.0


class ChannelBroke(BackendError):
    """The channel ended before the script did; what became of the script is not known."""


class TooLarge(RuntimeError):
    """The script printed more than was asked for."""


@dataclass(frozen=True)
class Done:
    """How a script ended, and the end of what it said to stderr; what it printed went where it was asked to go."""

    status: int
    told: str


class Channel:
    """Scripts in pods, as many at a time as one likes."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._client = WsApiClient(api.configuration, heartbeat=HEARTBEAT_S)
        self._core = client.CoreV1Api(self._client)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def run(
        self, pod: str, script: str, *arguments: str, given: IO[bytes] | None = None, to: IO[bytes], limit: int
    ) -> Done:
        """Run a script with arguments in a pod; up to `limit` bytes of what it prints go to `to`.

        Raises:
            ChannelBroke: the connection did, or the pod ended.
            TooLarge: it printed more.
        """
        self._api.calls += 1
        try:
            opening = await self._core.connect_get_namespaced_pod_exec(
                pod,
                self._api.namespace,
                command=["/bin/sh", "-c", script, "sh", *arguments],  # type: ignore[arg-type]
                container=CONTAINER,
                stdin=given is not None,
                stdout=True,
                stderr=True,
                tty=False,
                _preload_content=False,
            )
            async with opening as socket:  # type: ignore[attr-defined]
                if given is not None:
                    for chunk in _chunks(given):
                        await socket.send_bytes(bytes([IN]) + chunk)
                return await _read(socket, to, limit)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise ChannelBroke(f"the channel to pod {pod} broke: {error}") from error


async def _read(socket: aiohttp.ClientWebSocketResponse, to: IO[bytes], limit: int) -> Done:
    told = b""
    async for message in socket:
        if message.type not in (aiohttp.WSMsgType.BINARY, aiohttp.WSMsgType.TEXT) or not message.data:
            continue
        data = message.data if isinstance(message.data, bytes) else message.data.encode()
        stream, content = data[0], data[1:]
        if stream == OUT:
            if (limit := limit - len(content)) < 0:
                raise TooLarge
            to.write(content)
        elif stream == ERR:
            told = (told + content)[-2000:]
        elif stream == STATUS:
            return Done(_status(content), told.decode(errors="replace").strip())
    raise ChannelBroke(f"the channel was closed (code {socket.close_code})")


def _chunks(source: IO[bytes]) -> Iterator[bytes]:
    while chunk := source.read(CHUNK):
        yield chunk


def _status(content: bytes) -> int:
    """The exit status in a `Status` object.

    Raises:
        ChannelBroke: the script was not run to its end.
    """
    told = json.loads(content)
    if told.get("status") == "Success":
        return 0
    causes = (told.get("details") or {}).get("causes") or []
    code = next((cause["message"] for cause in causes if cause.get("reason") == "ExitCode"), None)
    if code is None:
        raise ChannelBroke(f"the pod ran no script: {told.get('message', told)}")
    return int(code)
