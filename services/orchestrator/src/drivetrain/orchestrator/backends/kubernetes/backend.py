"""Makes sandboxes as Jobs, finds those that are there already, and removes them."""

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from drivetrain.common.telemetry.logs import get_logger
from drivetrain.orchestrator.backends.base import BackendError, Sandbox
from drivetrain.orchestrator.backends.kubernetes.api import CONFLICT, NOT_FOUND, Api, Refused, connect
from drivetrain.orchestrator.backends.kubernetes.exec import Channel
from drivetrain.orchestrator.backends.kubernetes.lease import KubernetesLease
from drivetrain.orchestrator.backends.kubernetes.names import INSTANCE, SANDBOX, job_name
from drivetrain.orchestrator.backends.kubernetes.objects import Object, job, secret
from drivetrain.orchestrator.backends.kubernetes.settings import KubernetesSettings
from drivetrain.orchestrator.backends.kubernetes.watching import Cluster

log = get_logger("kubernetes-backend")

GIVEN = (
    "it has no [metadata.drivetrain]",
    "it sets environment.gpus",
    "it sets environment.allow_internet = false",
    "it sets network_mode",
    "it sets allowed_hosts",
)
"""What only a container gives, and a pod does. It reaches the proxy and nothing else, whatever a task would allow."""
LOOK_S = 5.0
GONE_S = 30.0
CLEAN_S = 30.0


class KubernetesBackend:
    """See `Backend` for the contract. `open` comes before anything else, `close` in the end."""

    fixed_places = True
    outlives = True

    def __init__(self, api: Api, settings: KubernetesSettings) -> None:
        self.api, self._settings = api, settings
        self._cluster, self._channel = Cluster(api, settings.instance), Channel(api)
        self._left: dict[str, str] = {}
        self._janitor: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Learn what is there, and follow it.

        Raises:
            BackendError: the cluster refuses.
        """
        await self._cluster.start()
        self._janitor = asyncio.create_task(self._clean_up())

    async def close(self) -> None:
        """Follow no more. What runs in the cluster goes on."""
        if self._janitor is not None:
            self._janitor.cancel()
        await self._cluster.stop()
        await self._channel.close()
        await self.api.close()

    def lacks(self, needs: Sequence[str]) -> Sequence[str]:
        return [need for need in needs if not need.startswith(GIVEN)]

    def refuses(self, sandbox: Sandbox) -> str:
        if sandbox.image or self._settings.image:
            return ""
        return "it names no image: build its Dockerfile and set environment.docker_image, or set kubernetes.image"

    async def start(self, sandbox: Sandbox) -> KubernetesLease:
        made = await self._job(sandbox)
        name, uid = made["metadata"]["name"], made["metadata"]["uid"]
        self._cluster.saw(made)
        remove = partial(self._remove_soon, name, uid)
        try:
            if sandbox.access is not None:
                await self._create(
                    self.api.core.create_namespaced_secret, secret(sandbox, self._settings, made["metadata"])
                )
            pod = await self._running(name, uid)
        except BaseException:
            await asyncio.shield(remove())
            raise
        return KubernetesLease(sandbox, pod, self._channel, partial(self._cluster.standing, name, uid), remove)

    async def reap(self, keep: frozenset[str] = frozenset()) -> int:
        kept, ended = {job_name(name) for name in keep}, 0
        for name, found in list(self._cluster.jobs.items()):
            if name not in kept:
                await self._remove(name, found["metadata"]["uid"])
                ended += 1
        return ended

    async def _job(self, sandbox: Sandbox) -> Object:
        """The Job of a sandbox: made, or found where an earlier life made it."""
        wanted = job(sandbox, self._settings, await _hosts(sandbox))
        created = await self._create(self.api.batch.create_namespaced_job, wanted)
        if created is not None:
            return created
        name = wanted["metadata"]["name"]
        found: Object = await self.api.call(self.api.batch.read_namespaced_job, name, self.api.namespace)
        if found["metadata"].get("labels", {}).get(INSTANCE) != self._settings.instance:
            raise BackendError(f"Job {name} belongs to somebody else")
        log.info("a sandbox goes on", sandbox=found["metadata"]["annotations"][SANDBOX])
        return found

    async def _create(self, method: Callable[..., Awaitable[Any]], body: Object) -> Object | None:
        """Create an object; None where there is one of that name."""
        try:
            created: Object = await self.api.call(method, self.api.namespace, body)
        except Refused as refused:
            if refused.status == CONFLICT:
                return None
            raise
        return created

    async def _running(self, name: str, uid: str) -> str:
        """The name of a Job's pod, as soon as it runs.

        Raises:
            BackendError: it never will, or not in time; the cluster's own words say why.
        """
        deadline = time.monotonic() + self._settings.start_s
        while True:
            stands = self._cluster.standing(name, uid)
            if stands.running and (pod := self._cluster.pod(uid)):
                return str(pod["metadata"]["name"])
            if stands.over or stands.hopeless:
                raise BackendError(stands.why)
            left = deadline - time.monotonic()
            if left <= 0:
                raise BackendError(f"the sandbox did not run within {self._settings.start_s:g} s: {stands.why}")
            await self._cluster.next_change(min(LOOK_S, left))

    async def _remove_soon(self, name: str, uid: str) -> None:
        """Remove a sandbox, now or when the cluster lets us: what it did does not hang on that."""
        try:
            await self._remove(name, uid)
        except BackendError as error:
            log.warning("a sandbox is removed later", job=name, reason=str(error))
            self._left[name] = uid

    async def _clean_up(self) -> None:
        while True:
            await asyncio.sleep(CLEAN_S)
            for name, uid in list(self._left.items()):
                del self._left[name]
                await self._remove_soon(name, uid)

    async def _remove(self, name: str, uid: str) -> None:
        """Delete a Job, and with it its pod and its key; wait until the pod is gone."""
        body = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": "Background",
            "gracePeriodSeconds": 0,
            "preconditions": {"uid": uid},
        }
        try:
            await self.api.call(self.api.batch.delete_namespaced_job, name, self.api.namespace, body=body)
        except Refused as refused:
            if refused.status not in (NOT_FOUND, CONFLICT):
                raise
        deadline = time.monotonic() + GONE_S
        while self._cluster.pod(uid) is not None and time.monotonic() < deadline:
            await self._cluster.next_change(1.0)


async def _hosts(sandbox: Sandbox) -> dict[str, str]:
    """The proxy's name and address, as this process knows them: a pod reaches no name server."""
    name = urlsplit(sandbox.access.url).hostname if sandbox.access else None
    if name is None:
        return {}
    try:
        found = await asyncio.get_running_loop().getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except OSError as error:
        log.warning("the proxy has no address here: pods must find it themselves", host=name, reason=str(error))
        return {}
    address = str(found[0][4][0])
    return {} if address == name else {name: address}


async def open_backend(settings: KubernetesSettings) -> KubernetesBackend:
    """The backend of a cluster, which knows what is there.

    Raises:
        BackendError: no cluster, or it refuses.
    """
    backend = KubernetesBackend(await connect(settings), settings)
    try:
        await backend.open()
    except BaseException:
        await backend.close()
        raise
    return backend
