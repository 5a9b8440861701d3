"""The measurements, each on a fresh folder."""

import asyncio
import json
import os
import time
from contextlib import AsyncExitStack
from pathlib import Path

from benchmarks.orchestrator.figures import Cluster, Many
from benchmarks.orchestrator.world import SECRET, Proxy, a_bus, ask, ended
from drivetrain.common.harnesses import load_harnesses
from drivetrain.orchestrator.backends.base import Access, Command, Sandbox
from drivetrain.orchestrator.backends.making import confinement, groups
from drivetrain.orchestrator.backends.process.backend import ProcessBackend
from drivetrain.orchestrator.lifecycle.attempts import Attempts, Retries
from drivetrain.orchestrator.lifecycle.demand import Demand
from drivetrain.orchestrator.lifecycle.orchestrator import Ceilings, Orchestrator
from drivetrain.orchestrator.running.requests import Planner
from drivetrain.orchestrator.running.runner import Runner
from drivetrain.orchestrator.work_folder import fresh
from tests.cluster.runtime import AnsweringRuntime
from tests.cluster.server import cluster
from tests.sandboxes import connected
from tests.service_processes import service

CEILING = 64
TRUE = Command(("true",), 30.0)


async def starts(folder: Path, count: int) -> tuple[list[float], list[float]]:
    """Seconds that sandboxes take to run their first command, all that makes them included, and their next one."""
    leases = folder / "leases"
    bubblewrap = confinement("bubblewrap", leases, ())
    backend = ProcessBackend(leases, bubblewrap=bubblewrap, cgroups=groups("drivetrain", leases), network="proxy")
    cold, warm = [], []
    async with Proxy(folder / "sockets").serving() as proxy:
        for number in range(count):
            begun = time.perf_counter()
            lease = await backend.start(Sandbox(f"s{number}", access=Access(proxy.url, "key")))
            await lease.exec(TRUE)
            between = time.perf_counter()
            await lease.exec(TRUE)
            cold.append(between - begun)
            warm.append(time.perf_counter() - between)
            await lease.stop()
        await backend.reap()
    return cold, warm


async def first_calls(folder: Path, count: int) -> list[float]:
    """Seconds from a request to the moment at which the harness's first call is at the proxy."""
    async with AsyncExitStack() as stack:
        url, bus = await stack.enter_async_context(a_bus(folder))
        proxy = await stack.enter_async_context(Proxy(folder / "sockets").serving())
        own = settings(url, folder, proxy.url, "proxy", 1)
        await stack.enter_async_context(service("orchestrator", folder / "o.log", own))
        seconds = []
        for number in range(count):
            asked = time.time()
            await ask(bus, f"calls{number}", 1, "curl -s $OPENAI_BASE_URL/models")
            await ended(bus, f"calls{number}", 1, 60.0)
            seconds.append(proxy.calls[-1] - asked)
    return seconds


async def many(folder: Path, count: int, concurrency: int) -> Many:
    """Rollouts of a harness that does nothing, by an orchestrator of its own."""
    async with a_bus(folder) as (url, bus):
        own = settings(url, folder, "http://127.0.0.1:9", "machine", concurrency)
        async with service("orchestrator", folder / "o.log", own) as process:
            before, begun = cpu_s(process.pid), time.perf_counter()
            await ask(bus, "many", count, "true")
            ends = await ended(bus, "many", count)
            seconds, cpu = time.perf_counter() - begun, cpu_s(process.pid) - before
            peak = peak_mib(process.pid)
    good = sum(end.reason == "success" for end in ends)
    return Many(good, seconds, cpu, peak, left_on_machine(folder / "work" / "leases"))


async def through_cluster(folder: Path, count: int) -> Cluster:
    """Rollouts through the API of a cluster in which every command succeeds at once; both run in this process."""
    async with a_bus(folder) as (_, bus), cluster(AnsweringRuntime(), kept=100_000) as made:
        async with connected(made.url) as backend:
            planner = Planner("http://127.0.0.1:9", SECRET.encode(), load_harnesses())
            runner = Runner(backend, fresh(folder / "staging"))
            attempts = Attempts(bus, planner, runner, Retries(), time.time)
            orchestrator = Orchestrator(bus, backend, attempts, Ceilings(CEILING), Demand(bus, 4, None), time.time)
            life, begun = asyncio.create_task(orchestrator.serve()), time.perf_counter()
            await ask(bus, "pods", count, "true")
            ends = await ended(bus, "pods", count)
            seconds, calls = time.perf_counter() - begun, backend.api.calls
            await orchestrator.drain(1.0)
            await life
        await asyncio.sleep(0.5)
        left = sum(made.left().values())
        return Cluster(len(ends), seconds, calls, made.controllers.most_pods, left)


def settings(url: str, folder: Path, proxy: str, network: str, concurrency: int) -> dict[str, str]:
    """An orchestrator's, on the process backend."""
    return {
        "BUS__URL": url,
        "PROXY_URL": proxy,
        "NETWORK": network,
        "ISOLATION": "bubblewrap",
        "SECRET": SECRET,
        "WORK_FOLDER": str(folder / "work"),
        "CONCURRENCY": str(concurrency),
        "LOG__LEVEL": "warning",
        "READABLE": json.dumps([]),
    }


def left_on_machine(leases: Path) -> int:
    """Folders, control groups and processes that rollouts left."""
    found = groups("drivetrain", leases)
    folders = len(list(leases.iterdir())) if leases.is_dir() else 0
    return folders + (len(found.left()) if found else 0) + len(marked(leases))


def marked(leases: Path) -> list[int]:
    """The processes whose environment says that they belong to a lease."""
    wanted, pids = f"DRIVETRAIN_LEASE={leases}".encode(), []
    for entry in Path("/proc").glob("[0-9]*/environ"):
        try:
            if any(part.startswith(wanted) for part in entry.read_bytes().split(b"\0")):
                pids.append(int(entry.parent.name))
        except OSError:
            continue
    return pids


def cpu_s(pid: int) -> float:
    """CPU seconds of a process, without its children."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_mib(pid: int) -> float:
    """The most memory that a process held."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
