"""What crashes and disks do to the spool: what is whole is read, what is not is kept, and a full disk loses nothing."""

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drivetrain.proxy.recording.segments import SpoolError
from drivetrain.proxy.recording.spool import Position, Spool

PAYLOADS = st.lists(st.binary(min_size=1, max_size=200), max_size=12)


def payloads(spool: Spool) -> list[bytes | None]:
    return [payload for payload, _ in spool.unread()]


def filled(folder: Path, *texts: bytes, segment_bytes: int = 1 << 20) -> list[Path]:
    """A closed log that holds these payloads; its segments."""
    spool = Spool(folder, segment_bytes=segment_bytes)
    for text in texts:
        spool.append(text)
    spool.close()
    return sorted(folder.glob("*.log"))


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


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


@pytest.mark.parametrize("zeros", [1, 8, 4096])
def test_zeros_that_a_loss_of_power_left_are_no_records(tmp_path: Path, zeros: int) -> None:
    (log,) = filled(tmp_path, b"first")
    with log.open("ab") as file:
        file.write(bytes(zeros))
    again = Spool(tmp_path)
    assert payloads(again) == [b"first"]
    assert log.with_suffix(".damaged").read_bytes() == bytes(zeros)
    again.close()


def test_a_flipped_bit_costs_one_record_and_not_those_after_it(tmp_path: Path) -> None:
    (log,) = filled(tmp_path, b"first", b"second", b"third")
    broken = log.read_bytes()[13:27]
    flip(log, 13 + 8 + 2)
    again = Spool(tmp_path)
    assert payloads(again) == [b"first", None, b"third"]
    assert log.with_suffix(".damaged").read_bytes() == broken.replace(b"second", b"sebond")
    again.close()


def test_a_broken_length_costs_the_rest_of_its_segment_alone(tmp_path: Path) -> None:
    logs = filled(tmp_path, *(b"payload %d" % number for number in range(6)), segment_bytes=40)
    flip(logs[1], 2)
    rest = logs[1].read_bytes()
    again = Spool(tmp_path, segment_bytes=40)
    assert payloads(again) == [b"payload %d" % number for number in (0, 1, 4, 5)]
    assert logs[1].with_suffix(".damaged").read_bytes() == rest
    again.close()


def test_what_breaks_while_it_runs_is_stepped_over_too(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    for text in (b"first", b"second", b"third"):
        spool.append(text)
    (log,) = tmp_path.glob("*.log")
    flip(log, 8)
    assert payloads(spool) == [None, b"second", b"third"]
    spool.advance(Position(0, 13))
    assert payloads(spool) == [b"second", b"third"]
    spool.close()


def test_a_damaged_cursor_begins_the_log_anew(tmp_path: Path) -> None:
    filled(tmp_path, b"first")
    (tmp_path / "cursor").write_text("")
    again = Spool(tmp_path)
    assert payloads(again) == [b"first"]
    again.close()


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
    monkeypatch.setattr(os, "pwrite", full)
    spool.advance(places[1])
    monkeypatch.undo()
    assert len(list(tmp_path.glob("*.log"))) == 2
    assert payloads(spool) == [b"third and long"]
    spool.close()
    again = Spool(tmp_path, segment_bytes=20)
    # What was published since the cursor was written comes once more, and the bus refuses it.
    assert payloads(again) == [b"second and long", b"third and long"]
    again.close()


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
