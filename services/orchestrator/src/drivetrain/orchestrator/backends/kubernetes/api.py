"""The part of the cluster's API that sandboxes need: a few verbs, each repeated while the cluster asks for patience."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any

import aiohttp
from kubernetes_asyncio import client, config, watch
from kubernetes_asyncio.client.exceptions import ApiException
from kubernetes_asyncio.client.rest import RESTResponse

from drivetrain.common.telemetry.logs import get_logger
from drivetrain.orchestrator.backends.base import BackendError
from drivetrain.orchestrator.backends.kubernetes.objects import Object
from drivetrain.orchestrator.backends.kubernetes.settings import KubernetesSettings

log = get_logger("kubernetes-backend")

CONFLICT, GONE, THROTTLED, NOT_FOUND = 409, 410, 429, 404
PATIENCE = (0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
"""Seconds between attempts while the API is away or busy, unless it names its own."""
CALL_S = 30.0
WATCH_S = 300


class Refused(BackendError):
    """The API refused for good; the message has its words."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status


class Api:
    """Calls in one namespace. `calls` counts every request that was sent."""

    def __init__(self, configuration: client.Configuration, namespace: str) -> None:
        self.configuration, self.namespace, self.calls = configuration, namespace, 0
        self._client = client.ApiClient(configuration)
        self.core, self.batch = client.CoreV1Api(self._client), client.BatchV1Api(self._client)
        self.authorization = client.AuthorizationV1Api(self._client)
        self.nodes = client.NodeV1Api(self._client)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def call(self, method: Callable[..., Awaitable[Any]], *arguments: Any, **more: Any) -> Any:
        """Call one method of a client, and again while the API is away or too busy. The answer is taken as it comes,
        without the client's models: those refuse objects of servers that are newer than they are.

        Raises:
            Refused: the API said no.
            BackendError: it could not be reached, or stayed too busy.
        """
        pauses: list[float | None] = [*PATIENCE, None]
        for pause_s in pauses:
            self.calls += 1
            try:
                response = await method(*arguments, _request_timeout=CALL_S, _preload_content=False, **more)
                body = await response.read()
                if response.status >= HTTPStatus.MULTIPLE_CHOICES:
                    raise ApiException(http_resp=RESTResponse(response, body))  # type: ignore[arg-type]
                return json.loads(body)
            except ApiException as error:
                if not _passing(error.status) or pause_s is None:
                    raise Refused(error.status or 0, words(error)) from error
                pause_s = _asked(error) or pause_s
            except (aiohttp.ClientError, TimeoutError) as error:
                if pause_s is None:
                    raise BackendError(f"the cluster's API cannot be reached: {error!r}") from error
            await asyncio.sleep(pause_s)
        raise AssertionError

    async def watch(self, listing: Callable[..., Awaitable[Any]], version: str, **more: Any) -> AsyncIterator[Object]:
        """What changes from a version on, as the API sends it, for up to `WATCH_S` seconds. Bookmarks are among it.

        Raises:
            Refused: 410 when the version is too old.
            BackendError: the connection broke.
        """
        self.calls += 1
        options = {"resource_version": version, "allow_watch_bookmarks": True, "timeout_seconds": WATCH_S, **more}
        stream = watch.Watch(return_type="object")
        try:
            async with stream.stream(listing, self.namespace, **options) as changes:
                async for change in changes:
                    yield {"type": change["type"], "object": change["raw_object"]}
        except ApiException as error:
            raise Refused(error.status or 0, words(error)) from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise BackendError(f"a watch broke: {error!r}") from error


async def connect(settings: KubernetesSettings) -> Api:
    """The API of the cluster that the settings, KUBECONFIG, or the pod that this runs in names.

    Raises:
        BackendError: there is none.
    """
    configuration = client.Configuration()
    path = str(settings.kubeconfig) if settings.kubeconfig else None
    try:
        await config.load_config(config_file=path, context=settings.context, client_configuration=configuration)
    except (config.ConfigException, OSError) as error:
        raise BackendError(f"no cluster: {error}: set kubernetes.kubeconfig, or KUBECONFIG") from error
    return Api(configuration, settings.namespace)


def words(error: ApiException) -> str:
    """What the API says, in its own words."""
    try:
        told: Mapping[str, Any] = json.loads(error.body or "")
        return f"{error.status} {told['reason']}: {told['message']}"
    except (ValueError, KeyError, TypeError):
        return f"{error.status} {error.reason}"


def _passing(status: int | None) -> bool:
    """Whether a refusal may pass. A full quota says 403, and an admission webhook that is away 500."""
    return status == THROTTLED or (status is not None and status >= 500)


def _asked(error: ApiException) -> float | None:
    """The seconds that the API asks for."""
    asked = str(error.headers.get("Retry-After", "")) if error.headers else ""
    return float(asked) if asked.isdecimal() else None
