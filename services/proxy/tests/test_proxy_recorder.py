"""Events on their way through the spool: in order, once, whatever the bus and the disk do; and when they are safe."""

import asyncio
import os
import threading
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from drivetrain.common.bus import BusError, MemoryBus
from drivetrain.common.events import Signal
from drivetrain.proxy.recording.publisher import Publisher
from drivetrain.proxy.recording.recorder import Recorder
from drivetrain.proxy.recording.spool import Spool


def signal(number: int) -> Signal:
    return Signal(kind="feedback", tenant="t", policy="p", session="s", id=f"{number:04d}", value=1.0, at=1.0)


async def test_events_reach_the_bus_in_order_and_the_spool_is_empty_then(tmp_path: Path) -> None:
    recorder, bus = Recorder(Spool(tmp_path)), MemoryBus()
    for number in range(250):
        assert await recorder.record(signal(number))
    await Publisher(recorder, bus).run(stopping=lambda: True)
    ids = [msgspec.to_builtins(stored.event)["id"] for stored in await bus.last("SIGNALS", "signal.>")]
    assert ids == [f"{number:04d}" for number in range(250)]
    assert recorder.spool.backlog_bytes == 0
    recorder.spool.close()


async def test_while_the_bus_is_away_the_spool_holds(tmp_path: Path) -> None:
    class Away(MemoryBus):
        failures = 3

        async def publish(self, event: Any, headers: Any = None) -> int | None:
            if self.failures:
                self.failures -= 1
                raise BusError("away")
            return await super().publish(event, headers)

    recorder, bus = Recorder(Spool(tmp_path)), Away()
    await recorder.record(signal(1))
    publishing = asyncio.create_task(Publisher(recorder, bus, retry_s=(0.001, 0.002)).run())
    await asyncio.wait_for(bus.changed.wait(), 5)
    assert bus.failures == 0
    publishing.cancel()
    recorder.spool.close()


async def test_what_a_dead_process_left_is_published_by_the_next_one_and_once(tmp_path: Path) -> None:
    bus = MemoryBus()
    first = Recorder(Spool(tmp_path))
    await first.record(signal(1))
    await Publisher(first, bus).run(stopping=lambda: True)
    await first.record(signal(2))
    first.spool.close()
    (tmp_path / "cursor").unlink()
    second = Recorder(Spool(tmp_path))
    await Publisher(second, bus).run(stopping=lambda: True)
    assert len(await bus.last("SIGNALS", "signal.>")) == 2
    assert len(bus.streams["SIGNALS"]) == 2
    second.spool.close()


async def test_a_full_spool_does_not_fail_the_reply(tmp_path: Path) -> None:
    recorder = Recorder(Spool(tmp_path, max_bytes=10))
    assert await recorder.record(signal(1)) is False
    recorder.spool.close()


def logs(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.log"))


class Disk:
    """A disk whose `fsync` takes until it is let go. It remembers how large the log was each time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, log: Path) -> None:
        self._fsync, self._log = os.fsync, log
        self.begun, self.go, self.loop = asyncio.Event(), threading.Event(), asyncio.get_running_loop()
        self.sizes: list[int] = []
        monkeypatch.setattr(os, "fsync", self.fsync)

    def fsync(self, file: int) -> None:
        if os.path.samestat(os.fstat(file), self._log.stat()):
            self.sizes.append(os.fstat(file).st_size)
            self.loop.call_soon_threadsafe(self.begun.set)
            assert self.go.wait(10)
        self._fsync(file)


async def test_replies_that_end_while_the_disk_is_busy_wait_together_and_hold_up_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder(Spool(tmp_path, fsync=True))
    (log,) = logs(tmp_path)
    disk = Disk(monkeypatch, log)
    await recorder.record(signal(0))
    first = asyncio.create_task(recorder.lasting())
    await asyncio.wait_for(disk.begun.wait(), 5)
    # The disk is at work, and the event loop still runs: ten more replies end.
    ends = []
    for number in range(1, 11):
        await recorder.record(signal(number))
        ends.append(asyncio.create_task(recorder.lasting()))
    await asyncio.sleep(0)
    assert not first.done()
    whole = log.stat().st_size
    disk.go.set()
    await asyncio.wait_for(asyncio.gather(first, *ends), 5)
    assert disk.sizes == [whole // 11, whole]
    recorder.spool.close()


async def test_a_reply_waits_for_a_commit_that_began_after_its_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder(Spool(tmp_path, fsync=True, segment_bytes=200))
    (log,) = logs(tmp_path)
    disk = Disk(monkeypatch, log)
    disk.go.set()
    synced = []
    for number in range(6):
        await recorder.record(signal(number))
        await recorder.lasting()
        synced.append(len(disk.sizes))
    # Also the last record before a new segment is begun, whose own file and folder are then committed.
    assert synced[0] == 1
    assert len(logs(tmp_path)) > 1
    assert disk.sizes[-1] == log.stat().st_size
    recorder.spool.close()


async def test_a_disk_that_fails_to_commit_fails_no_reply(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(file: int) -> None:
        raise OSError("input/output error")

    recorder = Recorder(Spool(tmp_path, fsync=True))
    monkeypatch.setattr(os, "fsync", broken)
    assert await recorder.record(signal(1))
    await recorder.lasting()
    monkeypatch.undo()
    assert recorder.spool.backlog_bytes > 0
    recorder.spool.close()


async def test_without_fsync_nothing_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    monkeypatch.setattr(os, "fsync", calls.append)
    recorder = Recorder(Spool(tmp_path))
    await recorder.record(signal(1))
    await recorder.lasting()
    recorder.spool.close()
    assert calls == []


async def test_the_last_bytes_of_a_reply_wait_for_the_disk_and_its_first_do_not(
    proxy: Any, engine: Any, encode: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy.recorder.spool.fsync = True
    (log,) = logs(proxy.recorder.spool._folder)
    disk = Disk(monkeypatch, log)
    engine.say(encode("Paris."))
    question = {"role": "user", "content": "The capital of France?"}
    body = {"model": "default", "messages": [question], "stream": True}
    async with (
        httpx.AsyncClient(base_url=proxy.url, timeout=20) as http,
        http.stream("POST", "/v1/chat/completions", json=body) as answer,
    ):
        lines = answer.aiter_lines()
        while not ('"content":"' in (line := await anext(lines)) and '"content":""' not in line):
            pass
        await asyncio.wait_for(disk.begun.wait(), 5)
        assert len(await proxy.recorded()) == 1
        disk.go.set()
        rest = [line async for line in lines]
    assert rest[-2:] == ["data: [DONE]", ""]
    assert len(disk.sizes) == 1
