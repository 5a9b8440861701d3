"""Nodes: one that runs pods for real, each in a sandbox with a process table and volumes of its own, and one that only
answers, for tests of what a thousand pods do to the API."""

import asyncio
import json
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from drivetrain.orchestrator.backends.process.bubblewrap import find_program
from drivetrain.orchestrator.running.trees import remove
from tests.cluster.controllers import Tell
from tests.cluster.store import Object

OUT, ERR = 1, 2
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SYSTEM = [
    *("--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib"),
    *("--symlink", "usr/lib64", "/lib64", "--ro-bind", "/etc", "/etc", "--proc", "/proc", "--dev", "/dev"),
]


def can_run() -> bool:
    """Whether pods can run here: only root may enter the namespaces of others."""
    return os.getuid() == 0 and find_program() is not None and shutil.which("nsenter") is not None


class ShellRuntime:
    """Runs what containers run, with the programs of this machine as their image."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="cluster-"))
        self._running: dict[str, tuple[asyncio.subprocess.Process, int]] = {}

    async def start(self, pod: Object, env: dict[str, str]) -> None:
        spec, name = pod["spec"], pod["metadata"]["name"]
        volumes = {volume["name"]: self._folder / name / volume["name"] for volume in spec["volumes"]}
        for path in volumes.values():
            path.mkdir(parents=True, exist_ok=True)
        for container in spec.get("initContainers", []):
            process, _ = await self._spawn(container, volumes, {})
            assert await process.wait() == 0
        self._running[name] = await self._spawn(spec["containers"][0], volumes, env)

    async def ended(self, pod: Object) -> int:
        return await self._running[pod["metadata"]["name"]][0].wait()

    async def exec(self, pod: Object, argv: list[str], given: asyncio.StreamReader | None, tell: Tell) -> int:
        process, pid = self._running[pod["metadata"]["name"]]
        if process.returncode is not None:
            raise ProcessLookupError("the container is not running")
        pipe = asyncio.subprocess.PIPE
        command = ("nsenter", "-t", str(pid), "-m", "-p", "-i", "-u", "-n", "-r", "--", *argv)
        inside = await asyncio.create_subprocess_exec(
            *command, stdin=pipe, stdout=pipe, stderr=pipe, env={"PATH": PATH}, cwd="/"
        )
        assert inside.stdin is not None
        assert inside.stdout is not None
        assert inside.stderr is not None
        feeding = asyncio.create_task(_feed(given, inside.stdin)) if given else None
        await asyncio.gather(_pump(inside.stdout, OUT, tell), _pump(inside.stderr, ERR, tell))
        if feeding:
            feeding.cancel()
        code = await inside.wait()
        return 128 - code if code < 0 else code

    async def kill(self, pod: Object) -> None:
        name = pod["metadata"]["name"]
        if name in self._running:
            process, pid = self._running.pop(name)
            with suppress(ProcessLookupError):
                os.kill(pid, 9)
            await process.wait()
        remove(self._folder / name)

    async def close(self) -> None:
        for name in list(self._running):
            await self.kill({"metadata": {"name": name}})
        remove(self._folder)

    @property
    def left(self) -> int:
        """How many pods run."""
        return sum(process.returncode is None for process, _ in self._running.values())

    async def _spawn(
        self, container: Object, volumes: dict[str, Path], env: dict[str, str]
    ) -> tuple[asyncio.subprocess.Process, int]:
        binds = [
            word
            for mount in container["volumeMounts"]
            for word in ("--bind", str(volumes[mount["name"]]), mount["mountPath"])
        ]
        reading, writing = os.pipe()
        command = [str(find_program()), *SYSTEM, *binds, "--unshare-all", "--as-pid-1", "--die-with-parent"]
        command += ["--info-fd", str(writing), "--chdir", container.get("workingDir", "/"), "--", *container["command"]]
        process = await asyncio.create_subprocess_exec(
            *command, pass_fds=(writing,), env={"PATH": PATH, **env}, stdout=asyncio.subprocess.DEVNULL
        )
        os.close(writing)
        with os.fdopen(reading, "rb") as info:
            pid = json.loads(await asyncio.to_thread(info.read))["child-pid"]
        while _is_starting(pid):  # noqa: ASYNC110 - another process goes on
            await asyncio.sleep(0.002)
        return process, pid


class AnsweringRuntime:
    """Nothing runs: every command has succeeded, and every folder is empty."""

    left = 0

    async def start(self, pod: Object, env: dict[str, str]) -> None:
        """It runs."""

    async def ended(self, pod: Object) -> int:
        await asyncio.Event().wait()
        raise AssertionError

    async def exec(self, pod: Object, argv: list[str], given: asyncio.StreamReader | None, tell: Tell) -> int:
        script = argv[2]
        if "while [ ! -e" in script:
            await tell(OUT, b"0 0\n")
        elif "exec tar" in script:
            await tell(OUT, bytes(10_240))
        return 1 if "/began ]" in script and "while" not in script else 0

    async def kill(self, pod: Object) -> None:
        """It runs no more."""

    async def close(self) -> None:
        """Nothing runs."""


def _is_starting(pid: int) -> bool:
    """Whether a process is still the one that makes the sandbox."""
    try:
        return "bwrap" in Path(f"/proc/{pid}/cmdline").read_text().partition("\0")[0]
    except OSError:
        return False


async def _feed(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while data := await source.read(65_536):
        target.write(data)
        await target.drain()


async def _pump(source: asyncio.StreamReader, channel: int, tell: Tell) -> None:
    while data := await source.read(65_536):
        await tell(channel, data)
