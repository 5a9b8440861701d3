"""The backends that the contract is told of, each made for one test and cleaned up after it."""

import hashlib
import json
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from kubernetes_asyncio import client

from drivetrain.orchestrator.backends.base import Backend, BackendError
from drivetrain.orchestrator.backends.kubernetes.api import Api
from drivetrain.orchestrator.backends.kubernetes.backend import KubernetesBackend, open_backend
from drivetrain.orchestrator.backends.kubernetes.settings import KubernetesSettings
from drivetrain.orchestrator.backends.making import confinement, groups
from drivetrain.orchestrator.backends.process.backend import ProcessBackend
from tests.cluster.runtime import ShellRuntime, can_run
from tests.cluster.server import cluster


def _works() -> bool:
    try:
        return confinement("bubblewrap", Path("/nowhere"), ()) is not None
    except BackendError:
        return False


BACKENDS = [*(["bubblewrap"] if _works() else []), "plain"]
if os.environ.get("KUBECONFIG"):
    BACKENDS.append("kubernetes")
elif _works() and can_run():
    BACKENDS.append("cluster")


@asynccontextmanager
async def a_cluster() -> AsyncIterator[KubernetesBackend]:
    """A cluster of our own, whose pods run for real."""
    runtime = ShellRuntime()
    async with cluster(runtime) as made, connected(made.url) as backend:
        yield backend
        await backend.reap()
    await runtime.close()


@asynccontextmanager
async def connected(url: str, **more: object) -> AsyncIterator[KubernetesBackend]:
    """The backend of a cluster at an address."""
    settings = KubernetesSettings(**{"namespace": "rollouts", "image": "task:1.0.0", "grace_s": 0.5, **more})
    configuration = client.Configuration(host=url)
    backend = KubernetesBackend(Api(configuration, settings.namespace), settings)
    await backend.open()
    try:
        yield backend
    finally:
        await backend.close()


@asynccontextmanager
async def the_cluster(name: str) -> AsyncIterator[KubernetesBackend]:
    """The cluster that KUBECONFIG names, with the settings in DRIVETRAIN_ORCHESTRATOR_KUBERNETES (JSON)."""
    own = json.loads(os.environ.get("DRIVETRAIN_ORCHESTRATOR_KUBERNETES", "{}"))
    instance = f"test-{hashlib.blake2b(name.encode(), digest_size=6).hexdigest()}"
    backend = await open_backend(KubernetesSettings(**{"grace_s": 0.5, "instance": instance, **own}))
    try:
        yield backend
        await backend.reap()
    finally:
        await backend.close()


@asynccontextmanager
async def opened(kind: str, folder: Path) -> AsyncIterator[Backend]:
    """One backend by its name; what it holds in the end is removed."""
    if kind in ("cluster", "kubernetes"):
        async with AsyncExitStack() as stack:
            yield await stack.enter_async_context(a_cluster() if kind == "cluster" else the_cluster(folder.name))
        return
    leases = folder / "leases"
    bubblewrap = confinement("bubblewrap", leases, ()) if kind == "bubblewrap" else None
    cgroups = groups("drivetrain", leases) if kind == "bubblewrap" else None
    backend = ProcessBackend(leases, grace_s=0.5, bubblewrap=bubblewrap, cgroups=cgroups)
    try:
        yield backend
    finally:
        await backend.reap()
