import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivetrain.common.events import (
    InvalidEvent,
    NewerVersion,
    Signal,
    TurnScored,
    Vote,
    WeightsLoaded,
    WeightsRollback,
    decode,
    encode,
    event_type,
    shard_of,
)
from drivetrain.common.tokens import pack_ids, pack_logprobs, unpack_ids, unpack_logprobs


def score(**changes: object) -> TurnScored:
    fields: dict[str, object] = {
        "tenant": "local",
        "policy": "default",
        "session": "s",
        "turn": "t",
        "n": 2,
        "judge": "rules",
        "reward": -1.0,
        "votes": [Vote(source="reaction", value=-1.0, evidence="too long")],
        "hints": ["Answer in one sentence."],
        "at": 1.5,
    }
    return TurnScored(**{**fields, **changes})  # type: ignore[arg-type]


def test_any_msgpack_reader_can_read_an_event() -> None:
    plain = msgpack.unpackb(encode(score()))
    assert plain["v"] == 1
    assert plain["votes"] == [
        {"source": "reaction", "value": -1.0, "evidence": "too long", "weight": 1.0, "confidence": 1.0,
         "criteria": []}
    ]  # fmt: skip


def test_any_msgpack_writer_can_write_an_event() -> None:
    plain = msgpack.unpackb(encode(score()))
    assert decode(msgpack.packb(plain), TurnScored) == score()


def test_fields_of_a_later_minor_version_are_ignored() -> None:
    plain = msgpack.unpackb(encode(score())) | {"colour": "blue"}
    assert decode(msgpack.packb(plain), TurnScored) == score()


def test_a_missing_field_is_named() -> None:
    plain = msgpack.unpackb(encode(score()))
    del plain["turn"]
    with pytest.raises(InvalidEvent, match="missing required field `turn`"):
        decode(msgpack.packb(plain), TurnScored)


def test_a_wrong_type_is_named_with_its_place() -> None:
    plain = msgpack.unpackb(encode(score())) | {"hints": [1]}
    with pytest.raises(InvalidEvent, match=r"\$\.hints"):
        decode(msgpack.packb(plain), TurnScored)


def test_a_newer_version_is_not_taken_for_damage() -> None:
    plain = msgpack.unpackb(encode(score())) | {"v": 2}
    with pytest.raises(NewerVersion, match="version 2, this service reads up to 1"):
        decode(msgpack.packb(plain), TurnScored)


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_invalid_or_newer_and_nothing_else(payload: bytes) -> None:
    with pytest.raises((InvalidEvent, NewerVersion)):
        decode(payload, TurnScored)


def test_subjects_name_stream_policy_session_and_turn() -> None:
    assert score().subject() == "turn.scored.0.default.s.t.rules.2"
    signal = Signal(kind="feedback", tenant="t", policy="p", session="s", id="i", at=0.0)
    assert signal.subject() == "signal.feedback.0.p.s.i"
    loaded = WeightsLoaded(policy="p", version=3, replica="r1", seconds=0.5, at=0.0)
    assert loaded.subject() == "weights.loaded.p.3.r1"
    rollback = WeightsRollback(policy="p", version=3, id="r", reason="worse", at=0.0)
    assert rollback.subject() == "weights.rollback.p.3.r"


def test_a_subject_leads_back_to_its_event() -> None:
    assert event_type("turn.scored.0.default.s.t.rules.2") is TurnScored
    assert event_type("signal.outcome.0.p.s.i") is Signal
    with pytest.raises(InvalidEvent, match="no event is published"):
        event_type("turn.unknown.0")


def test_a_session_stays_in_its_shard() -> None:
    # crc32("abc") is 0x352441c2.
    assert shard_of("abc", 16) == str(0x352441C2 % 16)
    assert shard_of("abc", 1) == "0"


@given(st.lists(st.integers(0, 2**31 - 1)))
def test_token_ids_survive_their_bytes(ids: list[int]) -> None:
    assert unpack_ids(pack_ids(ids)) == ids


def test_token_ids_are_little_endian_int32() -> None:
    assert pack_ids([1, 258]) == b"\x01\x00\x00\x00\x02\x01\x00\x00"
    with pytest.raises(OverflowError):
        pack_ids([2**31])
    with pytest.raises(ValueError, match="multiple"):
        unpack_ids(b"\x01\x00\x00")


@given(st.lists(st.floats(-100, 0, width=32)))
def test_logprobs_survive_their_bytes(logprobs: list[float]) -> None:
    assert unpack_logprobs(pack_logprobs(logprobs)) == logprobs
