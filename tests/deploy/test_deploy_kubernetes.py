"""Every object of `k8s/` is one that Kubernetes 1.30 to 1.36 accepts, and refers to objects that are there."""

import re
from pathlib import Path

import pytest

from tests.deploy.tools import KUSTOMIZATIONS, of_kind, rendered, run, tool

VERSIONS = ("1.30", "1.31", "1.32", "1.33", "1.34", "1.35", "1.36")
FOLDERS = KUSTOMIZATIONS[:2]
POD = """
apiVersion: v1
kind: Pod
metadata: {name: one}
spec: {containers: [{name: one, image: "one:1.0.0"}]}
"""


def check(text: str, *versions: str) -> list[str]:
    """What strict validation objects to."""
    done = run(tool("python"), "deploy/validate.py", *versions, given=text)
    objections = done.stdout.splitlines()
    assert (done.returncode, done.stderr) == (int(bool(objections)), "")
    return objections


def test_every_object_is_valid() -> None:
    texts = {text.strip() for folder in KUSTOMIZATIONS for text in rendered(folder).split("\n---\n")}
    assert len(texts) > 47  # the base's objects, and what the others change or add
    assert check("\n---\n".join(sorted(texts)), *VERSIONS) == []


@pytest.mark.parametrize(
    ("old", "new", "objection"),
    [
        ("kind: Pod", "kind: Pot", "Couldn't find schema for kind Pot"),
        ("apiVersion: v1", "apiVersion: example.org/v1", "Couldn't find schema for kind Pod"),
        ("spec: {", "spec: {hostNetwrok: true, ", "Additional properties are not allowed"),
        ('"one:1.0.0"', "1.0", "is not of type 'string'"),
    ],
)
def test_the_check_notices(old: str, new: str, objection: str) -> None:
    good, (bad,) = check(POD, VERSIONS[0]), check(POD.replace(old, new), VERSIONS[0])
    assert good == []
    assert objection in bad


def test_a_version_that_is_not_known_yet_is_no_success() -> None:
    (objection,) = check(POD, "1.99")
    assert "1.99" in objection


def test_kustomize_refuses_a_folder_that_names_a_file_which_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "kustomization.yaml").write_text("resources: [absent.yaml]\n")
    assert run(tool("kubectl"), "kustomize", str(tmp_path)).returncode != 0


@pytest.mark.parametrize("folder", FOLDERS)
def test_everything_is_in_our_namespace_and_belongs_to_us(folder: str) -> None:
    for kind in ("Deployment", "StatefulSet", "Service", "ServiceAccount", "PersistentVolumeClaim", "NetworkPolicy"):
        for found in of_kind(folder, kind).values():
            assert found["metadata"]["namespace"] == "drivetrain"
            assert found["metadata"]["labels"]["app.kubernetes.io/part-of"] == "drivetrain"


@pytest.mark.parametrize("folder", FOLDERS)
def test_each_workload_has_a_service_an_account_and_a_disruption_budget_that_select_it(folder: str) -> None:
    workloads = of_kind(folder, "Deployment", "StatefulSet")
    assert set(workloads) == {
        *("nats", "valkey", "vllm"),
        *("proxy", "judge", "trainer", "weights", "orchestrator"),
    }
    for name, workload in workloads.items():
        template = workload["spec"]["template"]
        labels, ports = template["metadata"]["labels"], template["spec"]["containers"][0]["ports"]
        assert workload["spec"]["selector"]["matchLabels"].items() <= labels.items()
        service, budget = of_kind(folder, "Service")[name], of_kind(folder, "PodDisruptionBudget")[name]
        assert service["spec"]["selector"].items() <= labels.items()
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= {port["name"] for port in ports}
        assert budget["spec"]["selector"]["matchLabels"].items() <= labels.items()
        assert template["spec"]["serviceAccountName"] in of_kind(folder, "ServiceAccount")


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_volume_comes_from_a_claim_or_configuration_that_is_there(folder: str) -> None:
    claims, maps = of_kind(folder, "PersistentVolumeClaim"), of_kind(folder, "ConfigMap")
    for workload in of_kind(folder, "Deployment", "StatefulSet").values():
        own = [claim["metadata"]["name"] for claim in workload["spec"].get("volumeClaimTemplates", [])]
        pod = workload["spec"]["template"]["spec"]
        for volume in pod.get("volumes", []):
            if "persistentVolumeClaim" in volume:
                assert volume["persistentVolumeClaim"]["claimName"] in claims
            if "configMap" in volume:
                assert volume["configMap"]["name"] in maps
        known = {*own, *(volume["name"] for volume in pod.get("volumes", []))}
        assert {mount["name"] for mount in pod["containers"][0]["volumeMounts"]} <= known


def test_checkpoints_can_be_shared_between_nodes_in_the_base_and_on_one_node_in_dev() -> None:
    modes = [of_kind(f, "PersistentVolumeClaim")["checkpoints"]["spec"]["accessModes"] for f in FOLDERS]
    assert modes == [["ReadWriteMany"], ["ReadWriteOnce"]]
    for folder in FOLDERS:
        mounted = {
            name: next(
                (
                    m
                    for m in w["spec"]["template"]["spec"]["containers"][0]["volumeMounts"]
                    if m["name"] == "checkpoints"
                ),
                None,
            )
            for name, w in of_kind(folder, "Deployment", "StatefulSet").items()
        }
        readers = {name: mount for name, mount in mounted.items() if mount}
        assert set(readers) == {"trainer", "weights", "vllm"}
        assert {mount["mountPath"] for mount in readers.values()} == {"/checkpoints"}
        assert readers["vllm"]["readOnly"] is True


def test_no_manifest_carries_a_secret() -> None:
    for folder in KUSTOMIZATIONS:
        assert not re.search(r"^kind: Secret$", rendered(folder), re.MULTILINE)
