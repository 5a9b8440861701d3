"""Pods obey our own rules and the `restricted` standard, reach only what they need, and start with valid settings."""

import copy
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from drivetrain.orchestrator.backends.kubernetes.checking import RIGHTS
from tests.deploy.network import Peer, named, reaches
from tests.deploy.policies import pod_objections, pod_of, probe_objections
from tests.deploy.services import SERVICES, container_environment, dig, settings, written_folders
from tests.deploy.tools import KUSTOMIZATIONS, Document, objects, of_kind

FOLDERS = KUSTOMIZATIONS[:2]
WORKLOADS = ("Deployment", "StatefulSet")
NO_FILE = Path("unused")


def container_of(folder: str, name: str) -> Document:
    pod = pod_of(of_kind(folder, *WORKLOADS)[name])
    return dict(pod["containers"][0])


@pytest.mark.parametrize("folder", KUSTOMIZATIONS)
def test_every_pod_obeys_our_rules(folder: str) -> None:
    pods = {name: pod_of(item) for name, item in of_kind(folder, *WORKLOADS, "Pod").items()}
    assert pods or folder == "k8s/rollouts"
    wrong = {name: found for name, pod in pods.items() if (found := pod_objections(pod))}
    # Who makes Jobs speaks to the cluster's API, and nobody else does
    assert wrong == ({"orchestrator": ["holds a token of the cluster's API"]} if folder == "k8s/overlays/jobs" else {})


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_workload_tells_live_from_ready_on_a_named_port(folder: str) -> None:
    for name, item in of_kind(folder, *WORKLOADS).items():
        assert probe_objections(pod_of(item)) == []
        if name in SERVICES:
            probes = pod_of(item)["containers"][0]
            assert probes["livenessProbe"]["httpGet"] == {"path": "/livez", "port": "admin"}
            assert probes["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "admin"}


def _with(change: Callable[[Document], object]) -> Document:
    pod = copy.deepcopy(pod_of(of_kind(FOLDERS[0], *WORKLOADS)["judge"]))
    change(pod)
    return pod


@pytest.mark.parametrize(
    ("change", "objection"),
    [
        (lambda pod: pod["securityContext"].pop("runAsNonRoot"), "may run as root"),
        (lambda pod: pod["securityContext"].pop("seccompProfile"), "has no seccomp profile"),
        (lambda pod: pod.pop("automountServiceAccountToken"), "holds a token of the cluster's API"),
        (lambda pod: pod.pop("enableServiceLinks"), "gets variables such as VLLM_PORT from the cluster"),
        (lambda pod: pod["volumes"].append({"name": "x", "hostPath": {"path": "/"}}), "mounts a folder of the node"),
        (lambda pod: pod.update(hostNetwork=True), "shares a namespace of the node"),
        (lambda pod: pod["containers"][0].update(image="judge:latest"), "judge has an image without a full version"),
        (lambda pod: pod["containers"][0]["resources"].pop("limits"), "judge lacks requests or limits"),
        (lambda pod: pod["containers"][0]["securityContext"].pop("capabilities"), "judge keeps capabilities"),
        (
            lambda pod: pod["containers"][0]["securityContext"].update(readOnlyRootFilesystem=False),
            "judge may write to its root",
        ),
    ],
)
def test_our_rules_notice(change: Callable[[Document], object], objection: str) -> None:
    assert pod_objections(_with(change)) == [objection]


def test_our_rules_notice_a_probe_that_is_missing() -> None:
    pod = _with(lambda pod: pod["containers"][0].pop("readinessProbe"))
    assert probe_objections(pod) == ["judge has no readinessProbe on a named port"]


def test_the_namespace_enforces_the_restricted_standard() -> None:
    labels = of_kind(FOLDERS[0], "Namespace")["drivetrain"]["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize("name", SERVICES)
def test_a_service_accepts_its_settings_and_keeps_its_data_on_volumes(name: str, folder: str) -> None:
    container = container_of(folder, name)
    found = settings(name, container_environment(container), NO_FILE)
    ports = {port["name"]: str(port["containerPort"]) for port in container["ports"]}
    assert (dig(found, "admin.host"), dig(found, "admin.port")) == ("0.0.0.0", ports["admin"])
    if name == "proxy":
        assert (dig(found, "listen.host"), dig(found, "listen.port")) == ("0.0.0.0", ports["http"])
    mounts = {Path(mount["mountPath"]): mount for mount in container["volumeMounts"]}
    for path in written_folders(name, found):
        assert not mounts[path].get("readOnly")


def policies(folder: str) -> list[Document]:
    return [item for item in objects(folder) if item["kind"] == "NetworkPolicy"]


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize("name", SERVICES)
def test_a_service_is_let_through_to_everything_that_its_settings_name(name: str, folder: str) -> None:
    workloads, found = of_kind(folder, *WORKLOADS), of_kind(folder, "Service")
    urls = [urlsplit(value.strip('[]"')) for value in container_environment(container_of(folder, name)).values()]
    targets = [(url.hostname, url.port) for url in urls if url.hostname and url.port]
    assert targets
    for host, port in targets:
        target = host.split(".")[-1]  # vllm-0.vllm: a replica by its own name
        assert port in [entry["port"] for entry in found[target]["spec"]["ports"]]
        if "." in host:
            replica, _, number = host.split(".")[0].rpartition("-")
            assert replica == target
            assert int(number) < workloads[target]["spec"]["replicas"]
        assert reaches(policies(folder), named(name), named(target), port)


@pytest.mark.parametrize(
    ("source", "target", "port", "expected"),
    [
        ("orchestrator", "proxy", 8411, True),
        ("orchestrator", "vllm", 8000, False),
        ("judge", "vllm", 8000, False),
        ("trainer", "vllm", 8000, False),
        ("judge", "valkey", 6379, False),
        ("weights", "proxy", 8411, False),
        ("orchestrator", "proxy", 9464, False),
        ("proxy", "nats", 8222, False),
        ("vllm", "nats", 4222, False),
        ("nats", "proxy", 8411, False),
    ],
)
def test_nothing_else_is_let_through(source: str, target: str, port: int, expected: bool) -> None:
    assert reaches(policies(FOLDERS[0]), named(source), named(target), port) is expected


def test_a_harness_elsewhere_reaches_the_proxy_once_it_is_labelled_and_nothing_else_ever() -> None:
    plain = Peer({"app": "agent"}, namespace="elsewhere")
    harness = Peer({"app": "agent", "drivetrain-proxy-client": "true"}, namespace="elsewhere")
    rules = policies(FOLDERS[0])
    assert reaches(rules, harness, named("proxy"), 8411)
    assert not reaches(rules, plain, named("proxy"), 8411)
    for target, port in (("vllm", 8000), ("nats", 4222), ("valkey", 6379), ("proxy", 9464)):
        assert not reaches(rules, harness, named(target), port)


def test_names_are_looked_up_in_the_cluster_and_nothing_outside_is_reached() -> None:
    names = Peer({}, namespace="kube-system", namespace_labels={"kubernetes.io/metadata.name": "kube-system"})
    for name in ("proxy", "vllm", "trainer"):
        assert reaches(policies(FOLDERS[0]), named(name), names, 53)
        assert not reaches(policies(FOLDERS[0]), named(name), Peer({}, namespace="elsewhere"), 443)


def test_where_a_rollout_works_the_proxy_is_reached_and_where_it_is_graded_nothing() -> None:
    rules, where = policies("k8s/overlays/jobs"), "drivetrain-rollouts"
    own = {"kubernetes.io/metadata.name": where}
    harness = Peer({"drivetrain-proxy-client": "true"}, namespace=where, namespace_labels=own)
    grader = Peer({}, namespace=where, namespace_labels=own)
    names = Peer({}, namespace="kube-system", namespace_labels={"kubernetes.io/metadata.name": "kube-system"})
    assert reaches(rules, harness, named("proxy"), 8411)
    assert not reaches(rules, grader, named("proxy"), 8411)
    for target, port in ((names, 53), (named("nats"), 4222), (named("proxy"), 9464), (grader, 80)):
        assert not reaches(rules, harness, target, port)


def test_the_orchestrator_may_do_in_the_cluster_what_it_does_and_nothing_more() -> None:
    role = of_kind("k8s/rollouts", "Role")["orchestrator"]
    allowed = {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert allowed == set(RIGHTS)


@pytest.mark.parametrize("folder", FOLDERS)
def test_only_what_may_run_twice_does(folder: str) -> None:
    for item in objects(folder):
        if item["kind"] == "Deployment" and item["metadata"]["name"] in ("weights", "orchestrator"):
            assert item["spec"]["replicas"] == 1
            assert item["spec"]["strategy"] == {"type": "Recreate"}
