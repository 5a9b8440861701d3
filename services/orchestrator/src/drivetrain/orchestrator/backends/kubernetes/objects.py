"""The objects that make a sandbox, as the API takes them. Pure."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from drivetrain.orchestrator.backends.base import Sandbox
from drivetrain.orchestrator.backends.kubernetes.names import CLIENT, INSTANCE, SANDBOX, job_name, label
from drivetrain.orchestrator.backends.kubernetes.settings import KubernetesSettings

Object = dict[str, Any]

CONTROL = "/drivetrain"
"""Where the supervisor keeps commands and their ends."""
KEY = "DRIVETRAIN_KEY"
SUPERVISOR = (Path(__file__).parent / "supervisor.sh").read_text()
SEED = 'if [ -d "$1" ]; then cp -a "$1/." /seed/; fi'


def places(workdir: str) -> dict[str, str]:
    """Where the places of a lease lie in a pod."""
    fixed = {place: f"/{place}" for place in ("tests", "logs", "solution", "service")}
    return {**fixed, "work": workdir, "home": "/home/agent", "tmp": "/tmp"}


def job(sandbox: Sandbox, settings: KubernetesSettings, hosts: Mapping[str, str] | None = None) -> Object:
    """One pod, once: the cluster starts it again under no circumstances, ends it after its time, and removes it.
    `hosts`: names that the pod knows without asking a name server, and their addresses."""
    labels = _labels(sandbox, settings)
    meta = {"name": job_name(sandbox.name), "labels": labels, "annotations": {SANDBOX: sandbox.name}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": meta,
        "spec": {
            "backoffLimit": 0,
            "completions": 1,
            "parallelism": 1,
            "activeDeadlineSeconds": max(1, int(sandbox.lifetime_s + settings.start_s)),
            "ttlSecondsAfterFinished": settings.ttl_s,
            "template": {
                "metadata": {"labels": labels, "annotations": {SANDBOX: sandbox.name}},
                "spec": _pod(sandbox, settings) | _known(hosts or {}),
            },
        },
    }


def secret(sandbox: Sandbox, settings: KubernetesSettings, owner: Object) -> Object:
    """The rollout's key; it goes when its Job goes. `owner` is the Job's metadata."""
    assert sandbox.access is not None
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": owner["name"], "uid": owner["uid"]}
    meta = {"name": owner["name"], "labels": _labels(sandbox, settings), "ownerReferences": [reference]}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": meta,
        "type": "Opaque",
        "stringData": {"key": sandbox.access.key},
    }


def _labels(sandbox: Sandbox, settings: KubernetesSettings) -> dict[str, str]:
    about = {f"drivetrain.dev/{name}": label(value) for name, value in sandbox.labels.items()}
    ours = {"app.kubernetes.io/managed-by": "drivetrain", INSTANCE: settings.instance}
    return {**about, **ours, **({CLIENT: "true"} if sandbox.access else {})}


def _pod(sandbox: Sandbox, settings: KubernetesSettings) -> Object:
    image = sandbox.image or settings.image
    shared = {"image": image, "imagePullPolicy": settings.image_pull_policy, "securityContext": _CONTAINER}
    where = {**places(sandbox.workdir), "control": CONTROL}
    mounts = [{"name": name, "mountPath": path} for name, path in where.items()]
    main = {
        **shared,
        "name": "sandbox",
        "command": ["/bin/sh", "-c", SUPERVISOR, "supervisor", f"{settings.grace_s:g}"],
        "workingDir": sandbox.workdir,
        "env": [_key(sandbox)] if sandbox.access else [],
        "resources": _resources(sandbox, settings),
        "volumeMounts": mounts,
    }
    seed = {
        **shared,
        "name": "seed",
        "command": ["/bin/sh", "-c", SEED, "seed", sandbox.workdir],
        "resources": _resources(sandbox, settings, gpus=False),
        "volumeMounts": [{"name": "work", "mountPath": "/seed"}],
    }
    size = f"{sandbox.resources.storage_mb or settings.storage_mb}Mi"
    pod: Object = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 5,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": settings.user,
            "runAsGroup": settings.user,
            "fsGroup": settings.user,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "initContainers": [seed] if sandbox.seeded else [],
        "containers": [main],
        "volumes": [{"name": name, "emptyDir": {"sizeLimit": size}} for name in where],
    }
    if settings.runtime_class:
        pod["runtimeClassName"] = settings.runtime_class
    if settings.node_selector:
        pod["nodeSelector"] = settings.node_selector
    if settings.image_pull_secrets:
        pod["imagePullSecrets"] = [{"name": name} for name in settings.image_pull_secrets]
    return pod


def _known(hosts: Mapping[str, str]) -> Object:
    aliases = [{"ip": address, "hostnames": [name]} for name, address in hosts.items()]
    return {"hostAliases": aliases} if aliases else {}


_CONTAINER = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
"""With the pod's part: the standard `restricted`. The root stays writable: the images of tasks count on that."""


def _key(sandbox: Sandbox) -> Object:
    return {"name": KEY, "valueFrom": {"secretKeyRef": {"name": job_name(sandbox.name), "key": "key"}}}


def _resources(sandbox: Sandbox, settings: KubernetesSettings, gpus: bool = True) -> Object:
    asked = sandbox.resources
    milli = int(1000 * (asked.cpus or settings.cpus))
    memory, storage = asked.memory_mb or settings.memory_mb, asked.storage_mb or settings.storage_mb
    share = settings.request_share
    limits = {"cpu": f"{milli}m", "memory": f"{memory}Mi", "ephemeral-storage": f"{storage}Mi"}
    requests = {
        "cpu": f"{max(1, int(milli * share))}m",
        "memory": f"{max(1, int(memory * share))}Mi",
        "ephemeral-storage": f"{max(1, int(storage * share))}Mi",
    }
    if gpus and asked.gpus:
        limits[settings.gpu_resource] = requests[settings.gpu_resource] = str(asked.gpus)
    return {"limits": limits, "requests": requests}
