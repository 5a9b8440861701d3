"""Rules of our own that no schema knows. Each returns what it objects to, in words."""

import re
from typing import Any

from tests.deploy.tools import Document

PINNED = re.compile(r"^[a-z0-9./-]+:v?\d+\.\d+\.\d+[a-z0-9.-]*$")


def pod_of(workload: Document) -> Document:
    """The pod that a Deployment, a StatefulSet or a Pod is about."""
    spec: Document = workload["spec"]
    return dict(spec["template"]["spec"]) if "template" in spec else spec


def pod_objections(pod: Document) -> list[str]:
    """What is wrong with a pod, its containers included."""
    security = pod.get("securityContext", {})
    wrong = [
        (security.get("runAsNonRoot") is not True or not security.get("runAsUser"), "may run as root"),
        (security.get("seccompProfile") != {"type": "RuntimeDefault"}, "has no seccomp profile"),
        (pod.get("automountServiceAccountToken") is not False, "holds a token of the cluster's API"),
        (pod.get("enableServiceLinks") is not False, "gets variables such as VLLM_PORT from the cluster"),
        ("terminationGracePeriodSeconds" not in pod, "does not say how long it needs to end"),
        (any("hostPath" in volume for volume in pod.get("volumes", [])), "mounts a folder of the node"),
        (any(pod.get(name) for name in ("hostNetwork", "hostPID", "hostIPC")), "shares a namespace of the node"),
    ]
    inside = [f"{c['name']} {o}" for c in containers_of(pod) for o in container_objections(c)]
    return [objection for found, objection in wrong if found] + inside


def containers_of(pod: Document) -> list[Document]:
    """All containers of a pod."""
    return [*pod.get("initContainers", []), *pod["containers"]]


def container_objections(container: Document) -> list[str]:
    """What is wrong with one container."""
    security = container.get("securityContext", {})
    wrong = [
        (not PINNED.match(container["image"]), "has an image without a full version"),
        (_missing(container.get("resources", {})), "lacks requests or limits"),
        (security.get("allowPrivilegeEscalation") is not False, "may gain privileges"),
        (security.get("readOnlyRootFilesystem") is not True, "may write to its root"),
        (security.get("capabilities") != {"drop": ["ALL"]}, "keeps capabilities"),
        (security.get("runAsUser") == 0 or security.get("privileged"), "runs as root"),
    ]
    return [objection for found, objection in wrong if found]


def _missing(resources: dict[str, Any]) -> bool:
    return any(not resources.get(part, {}).get(what) for part in ("requests", "limits") for what in ("cpu", "memory"))


def probe_objections(pod: Document) -> list[str]:
    """Which probes of a long-running pod are absent, or ask a port that is not named."""
    wrong = []
    for container in pod["containers"]:
        ports = {port["name"] for port in container.get("ports", [])}
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            found = container.get(probe, {})
            port = (found.get("httpGet") or found.get("tcpSocket") or {}).get("port")
            if "exec" not in found and port not in ports:
                wrong.append(f"{container['name']} has no {probe} on a named port")
    return wrong


def compose_objections(service: Document) -> list[str]:
    """What is wrong with one service of a compose file."""
    limits = service.get("deploy", {}).get("resources", {}).get("limits", {})
    wrong = [
        (not PINNED.match(service["image"]), "has an image without a full version"),
        (service.get("user", "0").split(":")[0] in ("0", "root"), "runs as root"),
        (service.get("read_only") is not True, "may write to its root"),
        (service.get("cap_drop") != ["ALL"] or "cap_add" in service, "keeps capabilities"),
        ("no-new-privileges:true" not in service.get("security_opt", []), "may gain privileges"),
        (not {"memory", "pids"} <= set(limits), "has no limits"),
        ("healthcheck" not in service, "has no health check"),
        (bool(service.get("privileged") or service.get("network_mode")), "steps out of its networks"),
    ]
    return [objection for found, objection in wrong if found]
