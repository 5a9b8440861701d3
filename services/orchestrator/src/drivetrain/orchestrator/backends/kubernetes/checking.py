"""`python -m drivetrain.orchestrator check-cluster`: would a rollout get a sandbox? Told before the first one asks."""

import asyncio
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass

from drivetrain.orchestrator.backends.base import Access, BackendError, Sandbox
from drivetrain.orchestrator.backends.kubernetes.api import CONFLICT, NOT_FOUND, Api, Refused, connect
from drivetrain.orchestrator.backends.kubernetes.objects import job, secret
from drivetrain.orchestrator.backends.kubernetes.settings import KubernetesSettings
from drivetrain.orchestrator.settings import OrchestratorSettings

RIGHTS = (
    *(("batch", "jobs", verb) for verb in ("create", "get", "list", "watch", "delete")),
    *(("", "pods", verb) for verb in ("list", "watch")),
    *(("", "events", verb) for verb in ("list", "watch")),
    *(("", "pods/exec", "get"), ("", "pods/exec", "create"), ("", "secrets", "create")),
)
"""All that the backend calls: API group, resource, verb."""


@dataclass(frozen=True)
class Found:
    """One thing that was looked at, and what is wrong with it; empty if nothing is."""

    what: str
    problem: str = ""


def main(settings: OrchestratorSettings) -> None:
    """Check and print; ends the process with status 1 if something is wrong."""
    found = asyncio.run(run(settings.kubernetes))
    sys.stdout.writelines(f"{'bad' if one.problem else 'ok ':4}{one.what}{_told(one)}\n" for one in found)
    raise SystemExit(1 if any(one.problem for one in found) else 0)


async def run(settings: KubernetesSettings) -> list[Found]:
    """Everything that can be looked at."""
    try:
        api = await connect(settings)
    except BackendError as error:
        return [Found("the cluster", str(error))]
    try:
        return [found async for found in check(api, settings)]
    finally:
        await api.close()


async def check(api: Api, settings: KubernetesSettings) -> AsyncIterator[Found]:
    """Rights first, then the namespace's rules, by the objects of a sandbox that are sent to be judged and not made."""
    try:
        missing = [right for right in RIGHTS if not await _may(api, *right)]
    except BackendError as error:
        yield Found("the cluster", str(error))
        return
    yield Found(f"{len(RIGHTS)} rights in namespace {settings.namespace}", _lacking(missing))
    yield Found("an image", "" if settings.image else "kubernetes.image is empty: only tasks with an image can run")
    if settings.runtime_class:
        yield await _runtime_class(api, settings.runtime_class)
    wanted = Sandbox("check", image=settings.image or "check:1.0.0", access=Access("http://proxy", "key"))
    owner = {"name": "dt-check", "uid": "00000000-0000-0000-0000-000000000000"}
    yield await _dry(api.batch.create_namespaced_job, api, "a Job", job(wanted, settings))
    yield await _dry(api.core.create_namespaced_secret, api, "a Secret", secret(wanted, settings, owner))


async def _may(api: Api, group: str, resource: str, verb: str) -> bool:
    resource, _, subresource = resource.partition("/")
    asked = {"namespace": api.namespace, "group": group, "resource": resource, "subresource": subresource, "verb": verb}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": asked},
    }
    answer = await api.call(api.authorization.create_self_subject_access_review, review)
    return bool(answer["status"]["allowed"])


def _lacking(missing: list[tuple[str, str, str]]) -> str:
    if not missing:
        return ""
    told = ", ".join(f"{verb} {resource}" for _, resource, verb in missing)
    return f"this account may not {told}: apply k8s/rollouts, or bind such a Role"


async def _runtime_class(api: Api, name: str) -> Found:
    try:
        await api.call(api.nodes.read_runtime_class, name)
    except Refused as refused:
        why = f"there is no RuntimeClass {name}" if refused.status == NOT_FOUND else ""
        return Found(f"RuntimeClass {name}", why)  # without the right to look nothing is known against it
    return Found(f"RuntimeClass {name}")


async def _dry(method: object, api: Api, what: str, body: object) -> Found:
    try:
        await api.call(method, api.namespace, body, dry_run="All")  # type: ignore[arg-type]
    except Refused as refused:
        return Found(what, "" if refused.status == CONFLICT else str(refused))
    except BackendError as error:
        return Found(what, str(error))
    return Found(what)


def _told(found: Found) -> str:
    return f": {found.problem}" if found.problem else ""
