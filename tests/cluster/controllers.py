"""What a cluster does by itself: Jobs get pods, pods get nodes, what belongs to a removed object goes with it."""

import asyncio
import contextlib
import copy
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Protocol

from tests.cluster.store import ApiError, Object, Store

Tell = Callable[[int, bytes], Awaitable[None]]


class Runtime(Protocol):
    """What a node runs a pod with."""

    async def start(self, pod: Object, env: dict[str, str]) -> None:
        """Run the pod's containers, the first ones to their end."""

    async def ended(self, pod: Object) -> int:
        """Wait for the end of the pod's last container."""

    async def exec(self, pod: Object, argv: list[str], given: asyncio.StreamReader | None, tell: Tell) -> int:
        """Run a command in a pod; `tell` gets what it says by channel."""

    async def kill(self, pod: Object) -> None:
        """End the pod at once."""

    async def close(self) -> None:
        """End all pods."""


@dataclass
class Script:
    """What happens to the pods of Jobs, instead of what would: each is asked for a Job's name and answers or not."""

    refuse: Callable[[str], str | None] = lambda name: None
    """No pod is made; the words are those of a FailedCreate event."""
    wait: Callable[[str], tuple[str, str] | None] = lambda name: None
    """The container waits for this reason, with this message."""
    unschedulable: Callable[[str], str | None] = lambda name: None
    fate: dict[str, tuple[float, str]] = field(default_factory=dict)
    """After so many seconds of running: OOMKilled, Evicted-disk, Evicted-node, lost or deleted."""


class Controllers:
    """Watches the store and acts."""

    def __init__(self, store: Store, runtime: Runtime, script: Script) -> None:
        self._store, self._runtime, self.script = store, runtime, script
        self._tasks: set[asyncio.Task[None]] = set()
        self.most_pods = self.pods_made = 0
        self._live: dict[str, asyncio.Task[None]] = {}

    def spawn(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def created(self, job: Object) -> None:
        self.spawn(self._run_job(job))

    def deleted(self, owner: Object) -> None:
        """Everything that belongs to a removed object goes."""
        uid, namespace = owner["metadata"]["uid"], owner["metadata"]["namespace"]
        for kind in ("pods", "secrets"):
            for item in self._store.list(kind, namespace):
                if any(one["uid"] == uid for one in item["metadata"].get("ownerReferences", [])):
                    self.remove_pod(item) if kind == "pods" else self._store.remove(kind, item)

    def remove_pod(self, pod: Object) -> None:
        self.spawn(self._end(pod))

    def event(self, about: Object, kind: str, reason: str, message: str) -> None:
        meta = about["metadata"]
        where = {"kind": kind, "name": meta["name"], "namespace": meta["namespace"], "uid": meta["uid"]}
        event = {"metadata": {"generateName": f"{meta['name']}.", "namespace": meta["namespace"]}}
        self._store.add("events", {**event, "involvedObject": where, "reason": reason, "message": message})

    async def _run_job(self, job: Object) -> None:
        name, spec = job["metadata"]["name"], job["spec"]
        deadline = time.monotonic() + spec["activeDeadlineSeconds"]
        while (refusal := self.script.refuse(name)) is not None:
            self.event(job, "Job", "FailedCreate", f"Error creating: {refusal}")
            await asyncio.sleep(0.2)
            if not self._there("jobs", job):
                return
        pod = self._pod(job)
        self.most_pods = max(self.most_pods, len(self._store.list("pods", pod["metadata"]["namespace"])))
        self.pods_made += 1
        running = self.spawn(self._run_pod(name, pod))
        self._live[pod["metadata"]["uid"]] = running
        done, _ = await asyncio.wait({running}, timeout=deadline - time.monotonic())
        if not self._there("jobs", job):
            return
        reason = "BackoffLimitExceeded" if done else "DeadlineExceeded"
        message = "Job has reached the specified backoff limit" if done else "Job was active longer than its deadline"
        failed = {"type": "Failed", "status": "True", "reason": reason, "message": message}
        job["status"] = {"failed": 1, "conditions": [failed]}
        self._store.update("jobs", job)
        if not done:
            self.remove_pod(pod)
        await asyncio.sleep(spec["ttlSecondsAfterFinished"])
        if self._there("jobs", job):
            self._store.remove("jobs", job)
            self.deleted(job)

    def _pod(self, job: Object) -> Object:
        meta, template = job["metadata"], copy.deepcopy(job["spec"]["template"])
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": meta["name"], "uid": meta["uid"], "controller": True}
        labels = {**template["metadata"]["labels"], "job-name": meta["name"], "controller-uid": meta["uid"]}
        pod_meta = {"generateName": f"{meta['name']}-", "namespace": meta["namespace"], "labels": labels}
        pod = {"metadata": {**pod_meta, "ownerReferences": [owner]}, "spec": template["spec"]}
        return self._store.add("pods", {**pod, "status": {"phase": "Pending"}})

    async def _run_pod(self, name: str, pod: Object) -> None:
        while (why := self.script.unschedulable(name)) is not None:
            condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": why}
            self._status(pod, phase="Pending", conditions=[condition])
            await asyncio.sleep(0.1)
        while (held := self.script.wait(name) or self._no_secret(pod)) is not None:
            waiting = {"reason": held[0], "message": held[1]}
            self._status(pod, phase="Pending", containerStatuses=_states(pod, waiting=waiting))
            await asyncio.sleep(0.05)
        await self._runtime.start(pod, self._environment(pod))
        self._status(pod, phase="Running", containerStatuses=_states(pod, running={}))
        fate = next((fate for part, fate in self.script.fate.items() if part in name), None)
        if fate is None:
            code = await self._runtime.ended(pod)
            self._terminated(pod, {"exitCode": code, "reason": "Error" if code else "Completed"})
            return
        await asyncio.sleep(fate[0])
        await self._runtime.kill(pod)
        self._meet(pod, fate[1])

    def _meet(self, pod: Object, fate: str) -> None:
        if fate == "OOMKilled":
            self._terminated(pod, {"exitCode": 137, "reason": "OOMKilled"})
        elif fate == "Evicted-disk":
            message = "Pod ephemeral local storage usage exceeds the total limit of containers 2Gi."
            self._status(pod, phase="Failed", reason="Evicted", message=message)
        elif fate == "Evicted-node":
            self._status(pod, phase="Failed", reason="Evicted", message="The node was low on resource: memory.")
        elif fate == "lost":
            self._status(pod, phase="Failed", reason="NodeLost", message="Node which was running the pod is lost")
        else:
            self._store.remove("pods", pod)

    def _terminated(self, pod: Object, state: Object) -> None:
        phase = "Failed" if state["exitCode"] else "Succeeded"
        self._status(pod, phase=phase, containerStatuses=_states(pod, terminated=state))

    async def _end(self, pod: Object) -> None:
        pod["metadata"]["deletionTimestamp"] = "now"
        self._store.update("pods", pod)
        if running := self._live.pop(pod["metadata"]["uid"], None):
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        with contextlib.suppress(ProcessLookupError):
            await self._runtime.kill(pod)
        self._store.remove("pods", pod)

    def _status(self, pod: Object, **status: object) -> None:
        if pod.get("status") != status:
            pod["status"] = status
            self._store.update("pods", pod)

    def _no_secret(self, pod: Object) -> tuple[str, str] | None:
        try:
            self._environment(pod)
        except ApiError as error:
            return "CreateContainerConfigError", error.message
        return None

    def _environment(self, pod: Object) -> dict[str, str]:
        found = {}
        for entry in pod["spec"]["containers"][0].get("env", []):
            reference = entry["valueFrom"]["secretKeyRef"]
            secret = self._store.get("secrets", pod["metadata"]["namespace"], reference["name"])
            found[entry["name"]] = secret["stringData"][reference["key"]]
        return found

    def _there(self, kind: str, item: Object) -> bool:
        meta = item["metadata"]
        return any(one["metadata"]["uid"] == meta["uid"] for one in self._store.list(kind, meta["namespace"]))


def _states(pod: Object, **state: Object) -> list[Object]:
    image, ready = pod["spec"]["containers"][0]["image"], "running" in state
    more = {"image": image, "imageID": "", "ready": ready, "restartCount": 0}
    return [{"name": "sandbox", "state": state, **more}]
