"""The spool holds what was appended, gives it back in order, and is one process's own."""

from pathlib import Path

import pytest

from drivetrain.proxy.recording.segments import SpoolError
from drivetrain.proxy.recording.spool import Spool


def payloads(spool: Spool) -> list[bytes | None]:
    return [payload for payload, _ in spool.unread()]


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


def test_a_record_has_at_least_one_byte(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    with pytest.raises(ValueError, match="at least one byte"):
        spool.append(b"")
    spool.close()


def test_segments_that_were_freed_before_a_crash_could_say_so_are_not_missed(tmp_path: Path) -> None:
    spool = Spool(tmp_path, segment_bytes=20)
    for number in range(4):
        spool.append(b"x" * 9 + b"%d" % number)
    positions = [position for _, position in spool.unread()]
    spool.advance(positions[0])
    written = (tmp_path / "cursor").read_bytes()
    spool.advance(positions[2])
    spool.close()
    (tmp_path / "cursor").write_bytes(written)
    again = Spool(tmp_path, segment_bytes=20)
    assert [payload[-1:] for payload in payloads(again) if payload] == [b"2", b"3"]
    again.close()
