"""The keys file: what is written is read, and nothing in it can be used as a key."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivetrain.common.keys import BadKeys, KeyEntry, hash_of, id_of, matches, new_key, read_keys, write_keys

HASH = "0" * 64


def test_a_key_names_its_entry_and_only_its_hash_is_kept() -> None:
    key, key_id = new_key()
    entry = KeyEntry(hash=hash_of(key))
    assert id_of(key) == key_id
    assert matches(entry, key)
    assert not matches(entry, key[:-1])
    text = write_keys({key_id: entry})
    assert key.rpartition("_")[2] not in text
    assert new_key() != (key, key_id)


def test_a_hash_stays_the_same_over_releases() -> None:
    # sha256sum of the text "drivetrain api key", a zero byte, and the key
    assert hash_of("dtk_abcdefgh_secret") == "36654eff901926eb678a569808d70c56f5e000d061903fa152cd444408febf88"


@pytest.mark.parametrize("text", ["", "sk-123", "dtk_", "dtk_abc_x", "dtk_ABCDEFGH_x", "dtk_abcdefgh_", "dtk_abcdefgh"])
def test_what_is_no_key_has_no_id(text: str) -> None:
    assert id_of(text) is None


entries = st.builds(
    KeyEntry,
    hash=st.just(HASH),
    name=st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
    tenant=st.from_regex("[a-z0-9_-]{1,20}", fullmatch=True),
    role=st.sampled_from(["person", "rollout", "admin"]),
    policies=st.none() | st.lists(st.from_regex("[a-z0-9_-]{1,20}", fullmatch=True), max_size=3).map(tuple),
    consent=st.sampled_from([None, "off", "record", "train"]),
    requests_per_minute=st.none() | st.integers(1, 10**9),
    expires=st.none() | st.integers(0, 2**32).map(lambda seconds: datetime.fromtimestamp(seconds, UTC)),
)


@given(st.dictionaries(st.from_regex("[a-z2-7]{8}", fullmatch=True), entries, max_size=4))
def test_what_is_written_is_read(given_entries: dict[str, KeyEntry]) -> None:
    assert read_keys(write_keys(given_entries)) == given_entries


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[keys", "cannot be used"),
        (f"[keys.abcdefgh]\nhash = '{HASH}'\nrole = 'king'", "role"),
        (f"[keys.abcdefgh]\nhash = '{HASH}'\nlimit = 3", "limit"),
        (f"[keys.abcdefgh]\nhash = '{HASH}'\nrequests_per_minute = 0", "requests_per_minute"),
        (f"[keys.abcdefgh]\nhash = '{HASH}'\ntenant = 'rollouts'", "signed rollout keys alone"),
        (f"[keys.abcdefgh]\nhash = '{HASH}'\nexpires = 2030-01-01T00:00:00", "with its zone"),
        (f"[keys.short]\nhash = '{HASH}'", "an id is 8"),
        ("[keys.abcdefgh]\nrole = 'person'", "hash"),
        ("[key.abcdefgh]", "key"),
    ],
)
def test_what_cannot_be_is_named(text: str, words: str) -> None:
    with pytest.raises(BadKeys, match=words):
        read_keys(text)
