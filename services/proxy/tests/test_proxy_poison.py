"""Records that cannot be published are set aside, counted and said; what comes after them goes on its way."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from prometheus_client import REGISTRY

from drivetrain.common.bus import MemoryBus, connect
from drivetrain.common.events import Signal, TurnFollowed, encode
from drivetrain.common.identity import new_id
from drivetrain.common.settings import BusSettings
from drivetrain.proxy.recording.publisher import Publisher
from drivetrain.proxy.recording.recorder import Record, Recorder
from drivetrain.proxy.recording.segments import record
from drivetrain.proxy.recording.spool import Spool


def signal(number: int) -> Signal:
    return Signal(kind="feedback", tenant="t", policy="p", session="s", id=f"{number:04d}", value=1.0, at=1.0)


def state(text: str, turn: str = "t") -> TurnFollowed:
    messages = [{"role": "user", "content": text}]
    return TurnFollowed(
        tenant="a",
        policy="p",
        session="s",
        turn=turn,
        n=1,
        kind="messages",
        messages=messages,
        before=[],
        reply={},
        at=1.0,
    )


def packed(prefix: str, payload: bytes) -> bytes:
    return msgspec.msgpack.encode(Record(prefix, payload, None))


def files(folder: Path, pattern: str) -> list[Path]:
    return list(folder.glob(pattern))


def lost(reason: str) -> float:
    return REGISTRY.get_sample_value("drivetrain_proxy_turns_not_recorded_total", {"reason": reason}) or 0.0


POISON = {
    "no record": b"\xc1",
    "another record": msgspec.msgpack.encode([1, 2]),
    "an unknown event": packed("turn.unheard", b"\x80"),
    "no event": packed("signal", b"\x80"),
    "broken text": packed("signal", encode(signal(1)).replace(b"feedback", b"feed\xff\xfe\xfd\xfc")),
    "a newer version": packed("signal", encode(msgspec.structs.replace(signal(1), v=99))),
}


@pytest.mark.parametrize("poison", POISON.values(), ids=POISON)
async def test_a_record_that_is_no_event_is_set_aside_and_the_rest_is_published(tmp_path: Path, poison: bytes) -> None:
    recorder, bus, before = Recorder(Spool(tmp_path)), MemoryBus(), lost("invalid")
    await recorder.record(signal(1))
    recorder.spool.append(poison)
    await recorder.record(signal(2))
    await Publisher(recorder, bus).run(stopping=lambda: True)
    assert [s.event.id async for s in bus.replay("SIGNALS", "signal.>")] == ["0001", "0002"]  # type: ignore[attr-defined]
    (aside,) = files(tmp_path, "*.damaged")
    assert aside.read_bytes() == record(poison)
    assert lost("invalid") == before + 1
    assert recorder.spool.backlog_bytes == 0
    recorder.spool.close()


async def test_a_record_that_breaks_on_the_disk_is_counted_and_the_rest_is_published(tmp_path: Path) -> None:
    recorder, bus, before = Recorder(Spool(tmp_path)), MemoryBus(), lost("damaged")
    await recorder.record(signal(1))
    await recorder.record(signal(2))
    (log,) = files(tmp_path, "*.log")
    data = bytearray(log.read_bytes())
    data[12] ^= 1
    log.write_bytes(data)
    await Publisher(recorder, bus).run(stopping=lambda: True)
    assert [s.event.id async for s in bus.replay("SIGNALS", "signal.>")] == ["0002"]  # type: ignore[attr-defined]
    assert lost("damaged") == before + 1
    recorder.spool.close()


@pytest.mark.parametrize("stored", [b"\x80", encode(msgspec.structs.replace(state("?"), v=99))], ids=["none", "newer"])
async def test_a_number_that_holds_what_cannot_be_read_is_passed_over(tmp_path: Path, stored: bytes) -> None:
    recorder, bus = Recorder(Spool(tmp_path)), MemoryBus()
    bus.store("TURNS", state("?").subject(), stored)
    await recorder.record(state("one"))
    await recorder.record(signal(1))
    await Publisher(recorder, bus).run(stopping=lambda: True)
    (found,) = [s.event async for s in bus.replay("TURNS", "turn.followed.>")]
    assert isinstance(found, TurnFollowed)
    assert (found.n, found.messages[0]["content"]) == (2, "one")
    assert len(bus.streams["SIGNALS"]) == 1
    recorder.spool.close()


async def test_the_same_on_a_real_stream(tmp_path: Path, nats_url: str) -> None:
    bus, turn = await connect(BusSettings(url=nats_url)), new_id()
    await bus.js.publish(state("?", turn).subject(), b"\x80")
    recorder = Recorder(Spool(tmp_path))
    recorder.spool.append(POISON["no event"])
    await recorder.record(state("one", turn))
    await Publisher(recorder, bus).run(stopping=lambda: True)
    found: list[Any] = [s.event async for s in bus.replay("TURNS", f"turn.followed.*.p.s.{turn}.*")]
    assert [(event.n, event.messages[0]["content"]) for event in found] == [(2, "one")]
    recorder.spool.close()
    await bus.close()
