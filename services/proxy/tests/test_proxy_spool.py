"""The spool holds what was appended: across restarts, torn ends, full disks, and a bus that is away."""

import asyncio
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drivetrain.common.bus import BusError, MemoryBus
from drivetrain.common.events import Signal
from drivetrain.proxy.recording.publisher import Publisher
from drivetrain.proxy.recording.recorder import Recorder
from drivetrain.proxy.recording.spool import Position, Spool, SpoolError

PAYLOADS = st.lists(st.binary(max_size=200), max_size=12)


def payloads(spool: Spool) -> list[bytes]:
    return [payload for payload, _ in spool.unread()]


def signal(number: int) -> Signal:
    return Signal(kind="feedback", tenant="t", policy="p", session="s", id=f"{number:04d}", value=1.0, at=1.0)


@settings(max_examples=50, deadline=None)
@given(before=PAYLOADS, after=PAYLOADS, torn=st.integers(0, 30))
def test_what_was_appended_is_read_again_after_a_torn_end(
    tmp_path_factory: pytest.TempPathFactory, before: list[bytes], after: list[bytes], torn: int
) -> None:
    folder = tmp_path_factory.mktemp("spool")
    spool = Spool(folder, segment_bytes=300)
    for payload in before:
        spool.append(payload)
    spool.close()
    last = max(folder.glob("*.log"))
    if torn:
        with last.open("ab") as file:
            file.write(b"\xff" * torn)
    again = Spool(folder, segment_bytes=300)
    for payload in after:
        again.append(payload)
    assert payloads(again) == before + after
    again.close()


@settings(max_examples=50, deadline=None)
@given(payload=st.binary(min_size=1, max_size=50), keep=st.data())
def test_a_record_that_was_cut_anywhere_is_gone_and_the_others_stay(
    tmp_path_factory: pytest.TempPathFactory, payload: bytes, keep: Any
) -> None:
    folder = tmp_path_factory.mktemp("spool")
    spool = Spool(folder)
    spool.append(b"first")
    spool.append(payload)
    spool.close()
    (log,) = folder.glob("*.log")
    whole = 8 + len(b"first")
    os.truncate(log, keep.draw(st.integers(whole, log.stat().st_size - 1)))
    again = Spool(folder)
    assert payloads(again) == [b"first"]
    assert log.stat().st_size == whole
    again.close()


def test_reading_goes_on_where_it_was_and_frees_finished_segments(tmp_path: Path) -> None:
    spool = Spool(tmp_path, segment_bytes=20)
    for number in range(6):
        spool.append(b"x" * 9 + b"%d" % number)
    positions = [position for _, position in spool.unread()]
    spool.advance(positions[3])
    assert [payload[-1:] for payload in payloads(spool)] == [b"4", b"5"]
    assert len(list(tmp_path.glob("*.log"))) == 3
    spool.close()
    again = Spool(tmp_path, segment_bytes=20)
    assert again.cursor == positions[3]
    assert [payload[-1:] for payload in payloads(again)] == [b"4", b"5"]
    again.close()


def test_the_backlog_is_what_the_cursor_has_not_passed(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.append(b"abc")
    spool.append(b"defg")
    assert spool.backlog_bytes == 8 + 3 + 8 + 4
    spool.advance(next(position for _, position in spool.unread()))
    assert spool.backlog_bytes == 8 + 4
    spool.close()


def test_a_full_spool_refuses_and_says_what_to_do(tmp_path: Path) -> None:
    spool = Spool(tmp_path, max_bytes=100)
    spool.append(b"x" * 60)
    with pytest.raises(SpoolError, match=r"spool\.max_bytes"):
        spool.append(b"y" * 60)
    assert payloads(spool) == [b"x" * 60]
    spool.close()


def test_a_folder_belongs_to_one_process(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    with pytest.raises(SpoolError, match="another process"):
        Spool(tmp_path)
    spool.close()
    Spool(tmp_path).close()


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SpoolError, match=r"spool\.folder"):
        Spool(tmp_path / "file" / "spool")


def test_a_damaged_cursor_is_named(tmp_path: Path) -> None:
    Spool(tmp_path).close()
    (tmp_path / "cursor").write_text("{")
    with pytest.raises(SpoolError, match="cursor is damaged"):
        Spool(tmp_path)


def test_a_disk_that_takes_half_a_record_leaves_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = Spool(tmp_path)
    spool.append(b"first")
    write = os.write
    monkeypatch.setattr(os, "write", lambda file, data: write(file, data[: len(data) // 2]))
    with pytest.raises(SpoolError, match="disk is full"):
        spool.append(b"second")
    monkeypatch.undo()
    spool.append(b"third")
    assert payloads(spool) == [b"first", b"third"]
    spool.close()


def test_without_room_for_another_segment_the_log_stays_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = Spool(tmp_path, segment_bytes=20)
    spool.append(b"first and long")

    def nothing_left(*_: object) -> int:
        raise OSError("too many open files")

    monkeypatch.setattr(os, "open", nothing_left)
    with pytest.raises(SpoolError, match="too many open files"):
        spool.append(b"second")
    monkeypatch.undo()
    spool.append(b"third")
    assert payloads(spool) == [b"first and long", b"third"]
    spool.close()


def test_a_full_disk_is_emptied_although_the_cursor_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = Spool(tmp_path, segment_bytes=20)
    for payload in (b"first and long", b"second and long", b"third and long"):
        spool.append(payload)

    def full(*_: object) -> int:
        raise OSError("no space left on device")

    places = [place for _, place in spool.unread()]
    monkeypatch.setattr(Path, "write_bytes", full)
    spool.advance(places[1])
    monkeypatch.undo()
    assert len(list(tmp_path.glob("*.log"))) == 2
    assert payloads(spool) == [b"third and long"]
    spool.close()
    again = Spool(tmp_path, segment_bytes=20)
    # What was published since the cursor was written comes once more, and the bus refuses it.
    assert payloads(again) == [b"second and long", b"third and long"]
    again.close()


async def test_events_reach_the_bus_in_order_and_the_spool_is_empty_then(tmp_path: Path) -> None:
    recorder, bus = Recorder(Spool(tmp_path)), MemoryBus()
    for number in range(250):
        assert recorder.record(signal(number))
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
    recorder.record(signal(1))
    publishing = asyncio.create_task(Publisher(recorder, bus, retry_s=(0.001, 0.002)).run())
    await asyncio.wait_for(bus.changed.wait(), 5)
    assert bus.failures == 0
    publishing.cancel()
    recorder.spool.close()


async def test_what_a_dead_process_left_is_published_by_the_next_one_and_once(tmp_path: Path) -> None:
    bus = MemoryBus()
    first = Recorder(Spool(tmp_path))
    first.record(signal(1))
    await Publisher(first, bus).run(stopping=lambda: True)
    first.record(signal(2))
    first.spool.close()
    (tmp_path / "cursor").unlink()
    second = Recorder(Spool(tmp_path))
    await Publisher(second, bus).run(stopping=lambda: True)
    assert len(await bus.last("SIGNALS", "signal.>")) == 2
    assert len(bus.streams["SIGNALS"]) == 2
    second.spool.close()


async def test_a_full_spool_does_not_fail_the_reply(tmp_path: Path) -> None:
    recorder = Recorder(Spool(tmp_path, max_bytes=10))
    assert recorder.record(signal(1)) is False
    recorder.spool.close()


def test_a_cursor_that_points_past_its_segment_begins_at_its_end(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.append(b"abc")
    spool.advance(Position(0, 11))
    spool.close()
    (log,) = tmp_path.glob("*.log")
    os.truncate(log, 0)
    again = Spool(tmp_path)
    again.append(b"new")
    assert payloads(again) == [b"new"]
    again.close()


def test_a_damaged_record_is_set_aside_and_what_came_after_its_segment_is_read(tmp_path: Path) -> None:
    spool = Spool(tmp_path, segment_bytes=30)
    for number in range(6):
        spool.append(b"payload %d" % number)
    spool.close()
    logs = sorted(tmp_path.glob("*.log"))
    damaged = bytearray(logs[1].read_bytes())
    damaged[10] ^= 1
    logs[1].write_bytes(damaged)
    again = Spool(tmp_path, segment_bytes=30)
    assert payloads(again) == [b"payload %d" % number for number in (0, 2, 3, 4, 5)]
    assert logs[1].with_suffix(".damaged").read_bytes() == bytes(damaged)
    again.close()
