"""What a Job, its pod and their events say together of a sandbox. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from drivetrain.orchestrator.backends.base import Limit
from drivetrain.orchestrator.backends.kubernetes.objects import Object

HOPELESS = frozenset(
    ("InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError", "CreateContainerError", "RunContainerError")
)
"""Reasons why a container waits that no waiting ends; what is only slow at first is left its time."""
PULLING = frozenset(("ErrImagePull", "ImagePullBackOff"))
TELLING = frozenset(("FailedCreate", "FailedScheduling", "FailedMount", "Failed", "BackOff", "FailedCreatePodSandBox"))
"""Reasons of events that explain why a pod does not run."""


@dataclass(frozen=True)
class Standing:
    """Where a sandbox stands: `running`, `over` (it failed, was evicted, or is gone), or neither: then it still waits.
    `why` says it in words, `limit` names the limit that ended it, `hopeless` that no waiting helps."""

    running: bool = False
    over: bool = False
    why: str = ""
    limit: Limit | None = None
    hopeless: bool = False


def standing(job: Object | None, pod: Object | None, events: Sequence[Object]) -> Standing:
    """Where a sandbox stands, from what is known of it; `events` are those of its Job and its pod, in their order."""
    if job is None:
        return Standing(over=True, why="its Job is gone: somebody else removed it")
    if pod is not None and (ended := _ended(pod)):
        return ended
    for condition in job.get("status", {}).get("conditions") or []:
        if condition["type"] in ("Failed", "Complete") and condition["status"] == "True":
            told = condition.get("message") or condition.get("reason") or condition["type"]
            return Standing(over=True, why=f"its Job ended: {told}{_told(events)}")
    if pod is None:
        return Standing(why=f"no pod was made{_told(events)}")
    if pod["metadata"].get("deletionTimestamp"):
        return Standing(over=True, why=f"its pod is being deleted{_told(events)}")
    return _waiting(pod, events)


def _ended(pod: Object) -> Standing | None:
    status = pod.get("status", {})
    if status.get("phase") not in ("Failed", "Succeeded"):
        return None
    if status.get("reason") == "Evicted":
        message = str(status.get("message", ""))
        full = "ephemeral" in message or "EmptyDir" in message
        return Standing(over=True, why=f"its pod was evicted: {message}", limit="disk" if full else None)
    for container in _containers(status):
        ended = container.get("state", {}).get("terminated") or {}
        if ended.get("reason") == "OOMKilled":
            return Standing(over=True, why="its pod ran out of memory", limit="memory")
        if ended.get("exitCode"):
            why = f"container {container['name']} ended with status {ended['exitCode']} ({ended.get('reason', '')})"
            return Standing(over=True, why=f"{why}: {ended.get('message') or status.get('message') or 'no message'}")
    told = status.get("message") or status.get("reason") or status["phase"]
    return Standing(over=True, why=f"its pod ended: {told}")


def _waiting(pod: Object, events: Sequence[Object]) -> Standing:
    status = pod.get("status", {})
    states = status.get("containerStatuses") or []
    if any(state["name"] == "sandbox" and (state.get("state") or {}).get("running") is not None for state in states):
        return Standing(running=True)
    for container in _containers(status):
        waiting = container.get("state", {}).get("waiting") or {}
        if (reason := waiting.get("reason")) in HOPELESS | PULLING:
            why = f"container {container['name']} waits: {reason}: {waiting.get('message', '')}{_told(events)}"
            # The key comes a moment after the Job
            return Standing(why=why, hopeless=reason in HOPELESS and "secret" not in why)
    for condition in status.get("conditions") or []:
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return Standing(why=f"no node takes its pod: {condition.get('message', condition.get('reason', ''))}")
    return Standing(why=f"its pod is {status.get('phase', 'Pending')}{_told(events)}")


def _containers(status: Object) -> list[Object]:
    return [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]


def _told(events: Sequence[Object]) -> str:
    """The last event that explains something."""
    found = next((event for event in reversed(events) if event.get("reason") in TELLING), None)
    return f"; {found['reason']}: {found.get('message', '')}" if found else ""
