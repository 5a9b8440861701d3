"""API keys: which are good, what they stand for, and how their file is followed."""

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from drivetrain.common.errors import CannotStart
from drivetrain.common.events import RolloutRef
from drivetrain.common.identity import RolloutKey, sign_rollout_key
from drivetrain.common.keys import KeyEntry, hash_of, new_key, write_keys
from drivetrain.proxy.access.keys import Keys, key_in
from drivetrain.proxy.access.principal import Principal
from drivetrain.proxy.errors import Refused

SECRET = b"a secret of the tests"
NOW = 1_800_000_000.0
ROLLOUT = RolloutKey(
    rollout=RolloutRef(run="run1", group="g1", rollout="r7", group_size=2), policy="agent", expires_at=NOW + 60
)


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


def written(folder: Path, **fields: object) -> tuple[str, Path]:
    """A keys file with one key, and that key."""
    key, key_id = new_key()
    file = folder / "keys.toml"
    file.write_text(write_keys({key_id: KeyEntry(hash=hash_of(key), **fields)}))  # type: ignore[arg-type]
    return key, file


def test_without_a_file_everyone_is_the_person_of_the_local_tenant() -> None:
    keys = Keys(SECRET)
    for headers in ({}, bearer("sk-anything"), {"x-api-key": "dummy"}):
        assert keys.authenticate(headers, NOW) == Principal(key_id="anyone", tenant="local", role="person")


def test_a_key_stands_for_what_its_entry_says(tmp_path: Path) -> None:
    key, file = written(
        tmp_path, tenant="team-a", role="admin", policies=("agent", "default"), consent="record", requests_per_minute=5
    )
    found = Keys(SECRET, file).authenticate(bearer(key), NOW)
    assert (found.tenant, found.role, found.consent, found.requests_per_minute) == ("team-a", "admin", "record", 5)
    assert found.key_id in key
    assert found.tokens_per_minute is None
    assert found.may_use("agent")
    assert not found.may_use("other")


@pytest.mark.parametrize("header", ["x-api-key", "x-goog-api-key"])
def test_a_key_may_come_in_the_header_of_any_dialect(tmp_path: Path, header: str) -> None:
    key, file = written(tmp_path)
    assert Keys(SECRET, file).authenticate({header: key}, NOW).role == "person"


def test_of_several_keys_ours_is_taken() -> None:
    assert key_in({"authorization": "Bearer sk-other", "x-api-key": "dtk_ours"}) == "dtk_ours"
    assert key_in({"authorization": "Basic dXNlcg==", "x-goog-api-key": "k"}) == "k"
    assert key_in({"authorization": "bearer  spaced "}) == "spaced"
    assert key_in({}) == ""


def test_other_keys_are_refused(tmp_path: Path) -> None:
    key, file = written(tmp_path)
    keys = Keys(SECRET, file)
    for wrong in ("", "sk-123", key[:-1], key + "x", new_key()[0], "dtk_", "dtk_é_ü", key.upper()):
        with pytest.raises(Refused) as refused:
            keys.authenticate(bearer(wrong), NOW)
        assert (refused.value.status, refused.value.code) == (401, "invalid_api_key")
        assert not wrong or wrong not in str(refused.value)


def test_a_key_ends_at_its_time(tmp_path: Path) -> None:
    key, file = written(tmp_path, expires=datetime.fromtimestamp(NOW, UTC))
    keys = Keys(SECRET, file)
    assert keys.authenticate(bearer(key), NOW - 1).tenant == "local"
    with pytest.raises(Refused, match="expired"):
        keys.authenticate(bearer(key), NOW)


def test_a_rollouts_key_needs_no_file_and_no_entry(tmp_path: Path) -> None:
    _, file = written(tmp_path)
    key = sign_rollout_key(SECRET, ROLLOUT)
    for keys in (Keys(SECRET), Keys(SECRET, file)):
        found = keys.authenticate({"x-api-key": key}, NOW)
        assert (found.tenant, found.role, found.policies) == ("rollouts", "rollout", ("agent",))
        assert found.rollout == ROLLOUT
        assert found.key_id == "run1/r7/1"
        with pytest.raises(Refused, match="its rollout is over"):
            keys.authenticate({"x-api-key": key}, NOW + 60)
    with pytest.raises(Refused, match="not signed by this deployment"):
        Keys(b"another secret, just as long").authenticate(bearer(key), NOW)


def test_a_changed_file_counts_within_a_second(tmp_path: Path) -> None:
    key, file = written(tmp_path)
    keys = Keys(SECRET, file)
    keys.authenticate(bearer(key), NOW)
    other, _ = written(tmp_path, name="a longer entry, so that also the size tells")
    with pytest.raises(Refused):
        keys.authenticate(bearer(other), NOW + 0.5)
    assert keys.authenticate(bearer(other), NOW + 1.0).role == "person"
    with pytest.raises(Refused):
        keys.authenticate(bearer(key), NOW + 1.0)


def test_a_file_that_breaks_or_goes_changes_nothing(tmp_path: Path) -> None:
    key, file = written(tmp_path)
    keys = Keys(SECRET, file)
    for later, content in enumerate((b"[keys", b"\xff\xfe", None), start=1):
        file.write_bytes(content) if content is not None else os.unlink(file)
        assert keys.authenticate(bearer(key), NOW + later).role == "person"


def test_a_file_that_is_bad_at_the_start_ends_it_with_the_remedy(tmp_path: Path) -> None:
    file = tmp_path / "keys.toml"
    with pytest.raises(CannotStart, match=r"access\.keys: .*No such file.*drivetrain keys add"):
        Keys(SECRET, file)
    file.write_text("[keys.abcdefgh]\nhash = 'short'\n")
    with pytest.raises(CannotStart, match=r"abcdefgh|keys\[\.\.\.\]"):
        Keys(SECRET, file)
