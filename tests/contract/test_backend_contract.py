"""What every backend keeps, whoever runs the sandbox: the lease interface, told once for all of them."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from drivetrain.orchestrator.backends.base import PLACES, Backend, CannotExec, Command, Exit, Lease, Sandbox
from tests.sandboxes import BACKENDS, opened


@pytest.fixture(params=BACKENDS)
async def backend(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Backend]:
    async with opened(request.param, tmp_path) as made:
        yield made


async def run(lease: Lease, script: str, timeout_s: float = 30.0, **more: str) -> Exit:
    return await lease.exec(Command(("/bin/sh", "-c", script), timeout_s, {}, **more))


async def text(lease: Lease, path: str) -> str:
    found = await lease.read(path, 10_000)
    assert found is not None
    return found.decode()


async def test_a_command_runs_in_the_work_folder_and_what_it_prints_is_kept(backend: Backend) -> None:
    lease = await backend.start(Sandbox("a"))
    ran = await run(lease, "pwd; echo trouble >&2; exit 3")
    assert (ran.status, ran.timed_out, ran.limits) == (3, False, ())
    assert ran.seconds > 0
    assert await lease.logs(1000) == f"{lease.places['work']}\ntrouble"
    assert await lease.logs(7) == "trouble"


async def test_every_place_is_there_and_named_in_the_environment(backend: Backend) -> None:
    lease = await backend.start(Sandbox("a", workdir="/srv/project"))
    script = " && ".join(f'touch "${variable}/mark-{place}"' for place, variable in PLACES.items())
    assert (await run(lease, f"{script} && touch $LOGS_DIR/verifier/b && env > env.txt")).status == 0
    seen = dict(line.split("=", 1) for line in (await text(lease, "work/env.txt")).splitlines())
    assert {variable: seen[variable] for variable in PLACES.values()} == {
        variable: lease.places[place] for place, variable in PLACES.items()
    }
    marks = [await lease.read(f"{place}/mark-{place}", 1) for place in PLACES if place != "tmp"]
    assert marks == [b""] * (len(PLACES) - 1)
    if backend.fixed_places:
        assert (seen["WORK_DIR"], seen["TEST_DIR"], seen["LOGS_DIR"]) == ("/srv/project", "/tests", "/logs")


async def test_the_environment_holds_what_is_declared(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLOUD_SECRET", "hands off")
    lease = await backend.start(Sandbox("a"))
    await lease.exec(Command(("/bin/sh", "-c", "env > env.txt"), 30, {"GREETING": "it's\n$HOME"}))
    seen = await text(lease, "work/env.txt")
    assert "GREETING=it's\n$HOME\n" in seen
    assert "CLOUD_SECRET" not in seen


async def test_arguments_arrive_as_they_are(backend: Backend) -> None:
    lease = await backend.start(Sandbox("a"))
    await lease.exec(Command(("/bin/sh", "-c", 'printf "%s|" "$@"', "sh", "a b", "", "'\"$(x)`*", "\n"), 30))
    assert await lease.logs(100) == "a b||'\"$(x)`*|\n|"


async def test_a_timeout_asks_then_insists_and_keeps_what_was_done(backend: Backend) -> None:
    lease = await backend.start(Sandbox("a"))
    ran = await run(lease, "trap 'echo bye > bye; exit 0' TERM; echo so far > out; while :; do sleep 0.02; done", 1.0)
    assert ran.timed_out
    assert (await text(lease, "work/out"), await text(lease, "work/bye")) == ("so far\n", "bye\n")
    stubborn = await run(lease, "trap '' TERM; while :; do sleep 0.05; done", 0.5)
    assert (stubborn.timed_out, stubborn.signal) == (True, 9)


async def test_processes_that_a_command_leaves_end_with_it(backend: Backend) -> None:
    lease = await backend.start(Sandbox("a"))
    await run(lease, "(setsid sh -c 'while :; do date +%N > beat; sleep 0.02; done' &) ; sleep 0.3; test -s beat")
    first = await lease.read("work/beat", 100)
    await asyncio.sleep(0.2)
    assert first is not None
    assert await lease.read("work/beat", 100) == first


async def test_a_program_that_is_missing_cannot_be_started(backend: Backend) -> None:
    lease = await backend.start(Sandbox("a"))
    with pytest.raises(CannotExec, match="no-such-harness was not found"):
        await lease.exec(Command(("no-such-harness",), 30))


async def test_trees_go_in_and_come_out(backend: Backend, tmp_path: Path) -> None:
    (tmp_path / "in/deep").mkdir(parents=True)
    (tmp_path / "in/deep/a.txt").write_text("a")
    (tmp_path / "in/run.sh").write_text("#!/bin/sh\necho ran")
    (tmp_path / "in/run.sh").chmod(0o755)
    lease = await backend.start(Sandbox("a"))
    await lease.upload(tmp_path / "in", "work")
    await lease.upload(tmp_path / "in", "work")
    assert (await run(lease, "./run.sh > deep/b.txt; ln -s deep/a.txt link; ln -s /etc/passwd evil")).status == 0
    assert await lease.download("work", tmp_path / "out")
    assert (tmp_path / "out/deep/b.txt").read_text() == "ran\n"
    assert (tmp_path / "out/link").is_symlink()
    assert await lease.download("work/deep/a.txt", tmp_path / "single.txt")
    assert (tmp_path / "single.txt").read_text() == "a"


async def test_what_is_not_there_or_only_a_link_is_not_read(backend: Backend, tmp_path: Path) -> None:
    lease = await backend.start(Sandbox("a"))
    await run(lease, "ln -s /etc/passwd evil; mkdir folder; echo long text > file")
    assert [await lease.read(f"work/{name}", 4) for name in ("nothing", "evil", "folder", "file")] == [
        *(None, None, None),
        b"long",
    ]
    assert not await lease.download("work/nothing", tmp_path / "n")
    assert not await lease.download("work/evil", tmp_path / "e")


async def test_a_second_start_of_a_name_finds_the_first_sandbox(backend: Backend) -> None:
    await run(await backend.start(Sandbox("a")), "echo x > x.txt")
    assert await text(await backend.start(Sandbox("a")), "work/x.txt") == "x\n"


async def test_a_command_with_an_id_runs_once(backend: Backend) -> None:
    first = await run(await backend.start(Sandbox("a")), "echo ran >> count; exit 4", id="harness")
    lease = await backend.start(Sandbox("a"))
    again = await run(lease, "echo ran >> count; exit 4", id="harness")
    assert (first.status, again.status) == (4, 4)
    await run(lease, "echo other >> count", id="next")
    assert await text(lease, "work/count") == "ran\nother\n"


async def test_a_stopped_sandbox_is_gone_and_its_name_is_free(backend: Backend) -> None:
    lease = await backend.start(Sandbox("a"))
    await run(lease, "echo x > x.txt; mkdir -p d/e; chmod 000 d")
    await lease.stop()
    await lease.stop()
    fresh = await backend.start(Sandbox("a"))
    assert await fresh.read("work/x.txt", 10) is None


async def test_sandboxes_do_not_disturb_each_other(backend: Backend, tmp_path: Path) -> None:
    one, two = await backend.start(Sandbox("a")), await backend.start(Sandbox("a2"))
    waiting = asyncio.create_task(run(one, "echo mine > mine; while [ ! -e go ]; do sleep 0.02; done"))
    assert (await run(two, "test ! -e mine")).status == 0
    await two.stop()
    (tmp_path / "in").mkdir()
    (tmp_path / "in/go").touch()
    await one.upload(tmp_path / "in", "work")
    assert (await waiting).status == 0


async def test_cancelling_ends_the_command(backend: Backend) -> None:
    lease = await backend.start(Sandbox("a"))
    task = asyncio.create_task(run(lease, "while :; do date +%N > beat; sleep 0.02; done"))
    async with asyncio.timeout(30):
        while not await lease.read("work/beat", 100):  # noqa: ASYNC110 - the command writes it
            await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    last = await lease.read("work/beat", 100)
    await asyncio.sleep(0.3)
    assert await lease.read("work/beat", 100) == last


async def test_reaping_leaves_only_what_is_to_be_kept(backend: Backend) -> None:
    for name in ("a", "b"):
        await run(await backend.start(Sandbox(name)), "echo x > x.txt")
    await backend.reap(keep=frozenset({"b"}))
    await backend.reap(keep=frozenset({"b"}))
    assert await (await backend.start(Sandbox("a"))).read("work/x.txt", 10) is None
    assert await text(await backend.start(Sandbox("b")), "work/x.txt") == "x\n"
