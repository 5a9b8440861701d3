import pytest

from drivetrain.common.events import RolloutRef
from drivetrain.common.identity import (
    InvalidKey,
    RolloutKey,
    rollout_session,
    session_id,
    sign_rollout_key,
    verify_rollout_key,
)

SECRET = b"s" * 32
KEY = RolloutKey(rollout=RolloutRef(run="r", group="g", rollout="x", group_size=4), policy="p", expires_at=100.0)


def test_a_session_is_scoped_to_its_tenant_and_policy() -> None:
    ids = {session_id(SECRET, t, p, "same") for t in ("a", "b") for p in ("p", "q")}
    assert len(ids) == 4
    assert session_id(SECRET, "a", "p", "same") in ids
    assert all(len(i) == 32 and i.isalnum() and i == i.lower() for i in ids)


def test_parts_of_a_session_cannot_be_shifted() -> None:
    assert session_id(SECRET, "a", "bc", "d") != session_id(SECRET, "ab", "c", "d")


def test_a_rollout_key_says_what_was_signed() -> None:
    assert verify_rollout_key(SECRET, sign_rollout_key(SECRET, KEY), now=99.0) == KEY


def test_an_expired_key_is_refused() -> None:
    with pytest.raises(InvalidKey, match="expired"):
        verify_rollout_key(SECRET, sign_rollout_key(SECRET, KEY), now=100.0)


def test_a_key_of_another_deployment_is_refused() -> None:
    with pytest.raises(InvalidKey, match="not signed"):
        verify_rollout_key(b"t" * 32, sign_rollout_key(SECRET, KEY), now=0.0)


@pytest.mark.parametrize("position", [6, 20, -3])
def test_a_changed_key_is_refused(position: int) -> None:
    text = sign_rollout_key(SECRET, KEY)
    changed = text[:position] + ("A" if text[position] != "A" else "B") + text[position:][1:]
    with pytest.raises(InvalidKey):
        verify_rollout_key(SECRET, changed, now=0.0)


@pytest.mark.parametrize("text", ["", "dtr_", "dtr_.", "dtr_é.x", "sk-anything", "dtr_!!!.???"])
def test_nonsense_is_refused_in_words(text: str) -> None:
    with pytest.raises(InvalidKey):
        verify_rollout_key(SECRET, text, now=0.0)


def test_each_attempt_of_a_rollout_is_a_session_of_its_own() -> None:
    again = RolloutKey(rollout=KEY.rollout, policy="p", attempt=2, expires_at=100.0)
    assert rollout_session(SECRET, KEY) != rollout_session(SECRET, again)
