"""What goes on in the namespace, held in memory: our Jobs, their pods, and what the cluster says about either."""

import asyncio
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from drivetrain.common.telemetry.logs import get_logger
from drivetrain.orchestrator.backends.base import BackendError
from drivetrain.orchestrator.backends.kubernetes.api import GONE, Api, Refused
from drivetrain.orchestrator.backends.kubernetes.names import selector
from drivetrain.orchestrator.backends.kubernetes.objects import Object
from drivetrain.orchestrator.backends.kubernetes.state import Standing, standing

log = get_logger("kubernetes-backend")

PAUSE_S = 1.0
EVENTS_KEPT = 8


@dataclass
class Seen:
    """One kind of object. `items` are by name; `apply` is told each change."""

    listing: Callable[..., Awaitable[Any]]
    apply: Callable[[str, Object], None]
    options: dict[str, str] = field(default_factory=dict)
    version: str = ""


class Cluster:
    """A cache that follows the API. Whoever waits for something is told of every change."""

    def __init__(self, api: Api, instance: str) -> None:
        self._api = api
        self.jobs: dict[str, Object] = {}
        self._pods: dict[str, Object] = {}
        self._events: defaultdict[str, deque[Object]] = defaultdict(lambda: deque(maxlen=EVENTS_KEPT))
        self._changed = asyncio.Event()
        ours = {"label_selector": selector(instance)}
        self._kinds = (
            Seen(api.batch.list_namespaced_job, self._job, ours),
            Seen(api.core.list_namespaced_pod, self._pod, ours),
            Seen(api.core.list_namespaced_event, self._event),
        )
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Read everything once, then follow.

        Raises:
            BackendError: the API refuses; the message says what.
        """
        for kind in self._kinds:
            await self._list(kind)
        self._tasks = [asyncio.create_task(self._follow(kind)) for kind in self._kinds]

    async def stop(self) -> None:
        """Follow no more."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def standing(self, name: str, uid: str) -> Standing:
        """Where the sandbox of a Job stands, as far as is known. A Job of the same name with another uid is another."""
        job = self.jobs.get(name)
        if job is not None and job["metadata"]["uid"] != uid:
            job = None
        pod = self.pod(uid)
        about = [*self._events[uid], *(self._events[pod["metadata"]["uid"]] if pod else ())]
        return standing(job, pod, about)

    def pod(self, uid: str) -> Object | None:
        """The pod of a Job."""
        return self._pods.get(uid)

    async def next_change(self, timeout_s: float) -> None:
        """Wait for any change, but not longer than this."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), timeout_s)

    def saw(self, job: Object) -> None:
        """A Job that the API just answered with: the watch may be behind that."""
        self.jobs[job["metadata"]["name"]] = job

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _job(self, change: str, job: Object) -> None:
        name = job["metadata"]["name"]
        if change != "DELETED":
            self.jobs[name] = job
        elif name in self.jobs and self.jobs[name]["metadata"]["uid"] == job["metadata"]["uid"]:
            del self.jobs[name]
            self._events.pop(job["metadata"]["uid"], None)

    def _pod(self, change: str, pod: Object) -> None:
        owner = next((one["uid"] for one in pod["metadata"].get("ownerReferences") or [] if one["kind"] == "Job"), None)
        if owner is None:
            return
        if change == "DELETED":
            self._pods.pop(owner, None)
            self._events.pop(pod["metadata"]["uid"], None)
        else:
            self._pods[owner] = pod

    def _event(self, change: str, event: Object) -> None:
        if change != "DELETED" and (uid := event.get("involvedObject", {}).get("uid")):
            self._events[uid].append(event)

    async def _list(self, kind: Seen) -> None:
        """Begin anew: what is not in the list is gone."""
        found = await self._api.call(kind.listing, self._api.namespace, **kind.options)
        kind.version = found["metadata"]["resourceVersion"]
        if kind.apply == self._job:
            self.jobs.clear()
        if kind.apply == self._pod:
            self._pods.clear()
        for item in found.get("items") or []:
            kind.apply("ADDED", item)
        self._tell()

    async def _follow(self, kind: Seen) -> None:
        while True:
            try:
                async for change in self._api.watch(kind.listing, kind.version, **kind.options):
                    kind.version = change["object"]["metadata"]["resourceVersion"]
                    if change["type"] != "BOOKMARK":
                        kind.apply(change["type"], change["object"])
                        self._tell()
            except Refused as error:
                if error.status != GONE:
                    log.warning("a watch was refused", reason=str(error))
                    await asyncio.sleep(PAUSE_S)
                await self._again(kind)
            except BackendError as error:
                log.warning("a watch broke, and goes on where it was", reason=str(error))
                await asyncio.sleep(PAUSE_S)

    async def _again(self, kind: Seen) -> None:
        try:
            await self._list(kind)
        except BackendError as error:
            log.warning("the cluster's objects cannot be listed", reason=str(error))
            await asyncio.sleep(PAUSE_S)
