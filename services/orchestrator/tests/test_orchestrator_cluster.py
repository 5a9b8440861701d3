"""Rollouts in a cluster that refuses, throttles, forgets and loses: each has a typed end, and nothing is left."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from drivetrain.common.bus.memory import MemoryBus
from drivetrain.common.events import RolloutMoved
from drivetrain.orchestrator.backends.base import Access, BackendError, Command, Sandbox
from drivetrain.orchestrator.backends.kubernetes.backend import KubernetesBackend
from drivetrain.orchestrator.backends.kubernetes.checking import RIGHTS, check
from drivetrain.orchestrator.backends.kubernetes.settings import KubernetesSettings
from tests.cluster.runtime import AnsweringRuntime, ShellRuntime, can_run
from tests.cluster.schemas import folder
from tests.cluster.server import Cluster, cluster
from tests.cluster.store import ApiError
from tests.orchestrating import Service, serving, until
from tests.sandboxes import connected

pytestmark = pytest.mark.skipif(folder() is None, reason="the schemas are not installed: `make .venv-tools/.ready`")
real = pytest.mark.skipif(not can_run(), reason="pods run for real only where root and bubblewrap are")
ACCESS = Access("http://127.0.0.1:8411", "the-key")
BUSY = ApiError(429, "TooManyRequests", "please try again later", retry_after=0)


@pytest.fixture
async def made() -> AsyncIterator[Cluster]:
    async with cluster(AnsweringRuntime()) as found:
        found.rules = set(RIGHTS)
        yield found


@pytest.fixture
async def backend(made: Cluster) -> AsyncIterator[KubernetesBackend]:
    async with connected(made.url, start_s=1.0) as found:
        yield found
        await found.reap()
        await until(lambda: nothing(made))


async def nothing(made: Cluster) -> bool | None:
    return made.left() == {} or None


async def test_a_sandbox_is_a_job_with_its_key_as_a_secret_of_its_own(
    made: Cluster, backend: KubernetesBackend
) -> None:
    lease = await backend.start(Sandbox("run.7.1", access=ACCESS, labels={"run": "run", "rollout": "7"}))
    (job,), (secret,), (pod,) = (made.store.list(kind, "rollouts") for kind in ("jobs", "secrets", "pods"))
    assert job["metadata"]["name"] == secret["metadata"]["name"] == "dt-run-7-1-1c3ba403e4"
    assert secret["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"]
    assert "the-key" not in str(job) + str(pod)
    assert job["metadata"]["labels"]["drivetrain.dev/rollout"] == "7"
    assert pod["metadata"]["labels"]["drivetrain-proxy-client"] == "true"
    await lease.stop()
    assert made.left() == {}


async def test_a_grader_has_neither_key_nor_way_to_the_proxy(made: Cluster, backend: KubernetesBackend) -> None:
    await backend.start(Sandbox("run.7.1.grade", seeded=False))
    (pod,) = made.store.list("pods", "rollouts")
    assert "drivetrain-proxy-client" not in pod["metadata"]["labels"]
    assert pod["spec"]["initContainers"] == []
    assert made.store.list("secrets", "rollouts") == []


async def test_a_busy_api_is_asked_again(made: Cluster, backend: KubernetesBackend) -> None:
    made.faults.extend([(lambda request: request.method == "POST", BUSY)] * 3)
    made.faults.append((lambda request: request.method == "DELETE", ApiError(500, "InternalError", "no leader")))
    await (await backend.start(Sandbox("a"))).stop()
    assert (made.calls["create jobs"], made.calls["delete jobs"]) == (4, 2)
    assert made.left() == {}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ('pods "dt-a" is forbidden: exceeded quota: team, requested: pods=1', "exceeded quota: team"),
        ('pods "dt-a" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot', "violates PodSecurity"),
    ],
)
async def test_a_pod_that_is_refused_is_told_in_the_clusters_words(
    made: Cluster, backend: KubernetesBackend, words: str, told: str
) -> None:
    made.script.refuse = lambda name: words
    with pytest.raises(BackendError, match=f"did not run within 1 s: no pod was made; FailedCreate: .*{told}"):
        await backend.start(Sandbox("a"))


async def test_a_quota_that_becomes_free_is_waited_for(made: Cluster, backend: KubernetesBackend) -> None:
    answers = ["exceeded quota", "exceeded quota"]
    made.script.refuse = lambda name: answers.pop() if answers else None
    await (await backend.start(Sandbox("a"))).stop()


async def test_an_image_that_cannot_be_had_and_a_node_that_is_not_there_are_told(
    made: Cluster, backend: KubernetesBackend
) -> None:
    made.script.wait = lambda name: ("ImagePullBackOff", 'Back-off pulling image "task:1.0.0"')
    with pytest.raises(BackendError, match=r'sandbox waits: ImagePullBackOff: Back-off pulling image "task:1.0.0"'):
        await backend.start(Sandbox("a"))
    made.script.wait = lambda name: ("ErrImageNeverPull", "not present")
    with pytest.raises(BackendError, match=r"^container sandbox waits: ErrImageNeverPull"):
        await backend.start(Sandbox("b"))
    made.script.wait = lambda name: None
    made.script.unschedulable = lambda name: "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
    with pytest.raises(BackendError, match=r"no node takes its pod: 0/3 nodes are available"):
        await backend.start(Sandbox("c"))


async def test_what_the_api_refuses_for_good_is_told_at_once(made: Cluster, backend: KubernetesBackend) -> None:
    made.rules = set(RIGHTS) - {("batch", "jobs", "create")}
    with pytest.raises(BackendError, match=r'403 Forbidden: User "orchestrator" cannot create resource "jobs"'):
        await backend.start(Sandbox("a"))
    assert made.calls["create jobs"] == 1
    made.rules = set(RIGHTS)


@pytest.mark.parametrize(
    ("fate", "limits"),
    [("OOMKilled", ("memory",)), ("Evicted-disk", ("disk",)), ("Evicted-node", None), ("lost", None)],
)
async def test_a_pod_that_ends_is_the_harnesss_doing_or_nobodys(
    made: Cluster, backend: KubernetesBackend, fate: str, limits: tuple[str, ...] | None
) -> None:
    made.script.fate = {"dt-a": (0.3, fate)}
    lease = await backend.start(Sandbox("a"))
    await asyncio.sleep(0.6)
    if limits is None:
        with pytest.raises(BackendError, match="the sandbox ended: its pod"):
            await lease.exec(Command(("true",), 5))
    else:
        ran = await lease.exec(Command(("true",), 5))
        assert (ran.limits, ran.status, ran.timed_out) == (limits, -9, False)


async def test_a_job_that_somebody_deletes_is_gone(made: Cluster, backend: KubernetesBackend) -> None:
    lease = await backend.start(Sandbox("a"))
    (job,) = made.store.list("jobs", "rollouts")
    made.store.remove("jobs", job)
    made.controllers.deleted(job)
    await asyncio.sleep(0.3)
    with pytest.raises(BackendError, match="somebody else removed it"):
        await lease.exec(Command(("true",), 5))


async def test_watches_go_on_after_the_api_forgot_or_broke_off(made: Cluster, backend: KubernetesBackend) -> None:
    await (await backend.start(Sandbox("a"))).stop()
    made.cut_watches()
    await (await backend.start(Sandbox("b"))).stop()
    lists = made.calls["list pods"]
    made.store.forget()
    made.cut_watches()
    made.faults.append((lambda request: "watch" in request.query, ApiError(410, "Expired", "too old")))
    await (await backend.start(Sandbox("c"))).stop()
    assert made.calls["list jobs"] + made.calls["list pods"] + made.calls["list events"] > 3 * lists


async def test_only_our_own_jobs_are_adopted_and_reaped(made: Cluster, backend: KubernetesBackend) -> None:
    async with connected(made.url, instance="other") as other:
        theirs = await other.start(Sandbox("a"))
        with pytest.raises(BackendError, match="belongs to somebody else"):
            await backend.start(Sandbox("a"))
        assert await backend.reap() == 0
        await theirs.stop()


async def test_a_check_says_what_is_missing_before_the_first_rollout(made: Cluster, backend: KubernetesBackend) -> None:
    settings = KubernetesSettings(namespace="rollouts", image="task:1.0.0", runtime_class="gvisor")
    made.rules = {*RIGHTS, ("node.k8s.io", "runtimeclasses", "get")} - {("", "pods/exec", "create")}
    found = {one.what: one.problem async for one in check(backend.api, settings)}
    assert found.pop("12 rights in namespace rollouts").startswith("this account may not create pods/exec: apply k8s/")
    assert found.pop("RuntimeClass gvisor") == "there is no RuntimeClass gvisor"
    assert found == {"an image": "", "a Job": "", "a Secret": ""}
    made.rules, made.namespaces = set(RIGHTS), {}
    gone = {one.what: one.problem async for one in check(backend.api, settings) if one.problem}
    assert gone == dict.fromkeys(("a Job", "a Secret"), '404 NotFound: namespaces "rollouts" not found')
    made.namespaces = {"rollouts": {}}
    assert made.left() == {}


@real
async def test_rollouts_run_as_pods_and_nothing_is_left(tmp_path: Path) -> None:
    runtime = ShellRuntime()
    async with cluster(runtime) as made, connected(made.url) as backend:
        async with serving(Service(MemoryBus(), tmp_path, concurrency=3, backend=backend)) as service:
            for number in range(4):
                command = f"cat /app/seed > out; echo {number} >> out; echo $OPENAI_API_KEY | cut -c1-4; ls /tests"
                verify = {"command": f"grep -qx {number} out && grep -qx 7 /tests/x", "files": {"x": "7"}}
                await service.request(command, f"o{number}", files={"seed": "s\n"}, verify=verify)
            ends = [await service.finished(f"o{number}") for number in range(4)]
        assert [(end.reason, end.log, end.detail) for end in ends] == [("success", "dtr_", "")] * 4
        assert made.controllers.most_pods <= 3 + 1
        await until(lambda: nothing(made))
        assert runtime.left == 0
    await runtime.close()


@real
async def test_an_orchestrator_that_dies_finds_its_pods_again(tmp_path: Path) -> None:
    runtime, bus = ShellRuntime(), MemoryBus()
    async with cluster(runtime) as made:
        async with connected(made.url) as backend:
            first = Service(bus, tmp_path / "a", backend=backend)
            life = asyncio.create_task(first.orchestrator.serve())
            await first.request(
                "echo begun >> out; sleep 1.5; echo done >> out", verify={"command": "wc -l < out | grep -qx 2"}
            )
            await until(lambda: first.one("rollout.moved.r.o.1.running", RolloutMoved))
            await asyncio.sleep(0.3)
            buried = die(backend)
        async with connected(made.url) as backend, serving(Service(bus, tmp_path / "b", backend=backend)) as second:
            done = await second.finished()
        assert (done.reason, done.outcome, done.attempts, done.detail) == ("success", 1.0, 1, "")
        buried.set()
        life.cancel()
        await asyncio.wait({life})
        assert made.controllers.pods_made == 2  # where it worked, and where it was graded
        await until(lambda: nothing(made))
    await runtime.close()


def die(backend: KubernetesBackend) -> asyncio.Event:
    """As by SIGKILL: nothing more is asked of the cluster, and nothing told. What waits ends with the event."""
    buried = asyncio.Event()

    async def nothing_more(*arguments: object, **more: object) -> None:
        await buried.wait()
        raise BackendError("dead")

    backend.api.call = nothing_more  # type: ignore[method-assign]
    backend._channel.run = nothing_more  # type: ignore[assignment, method-assign]
    return buried


async def test_the_command_checks_the_cluster_of_a_kubeconfig(made: Cluster, tmp_path: Path) -> None:
    kubeconfig = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": made.url}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }
    (tmp_path / "config").write_text(json.dumps(kubeconfig))
    command = ("-m", "drivetrain.cli", "k8s", "check", "--namespace", "rollouts", "--image", "task:1.0.0")
    told, status = await output(tmp_path / "config", *command)
    assert told.splitlines() == [
        *("ok  12 rights in namespace rollouts", "ok  an image", "ok  a Job", "ok  a Secret"),
    ]
    assert status == 0
    made.rules = set()
    told, status = await output(tmp_path / "config", *command)
    assert told.startswith("bad 12 rights in namespace rollouts: this account may not create jobs, get jobs")
    assert status == 1


async def output(kubeconfig: Path, *arguments: str) -> tuple[str, int | None]:
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
    process = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, env=environment, stdout=asyncio.subprocess.PIPE
    )
    told, _ = await process.communicate()
    return told.decode(), process.returncode
