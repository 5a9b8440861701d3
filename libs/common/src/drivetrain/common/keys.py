"""API keys and the file that lists them: what `drivetrain keys` writes and the proxy reads.

A key is `dtk_<id>_<secret>`: the id is public and names the entry, the secret is 256 random bits and is shown once. The
file (TOML, one table a key) holds only a hash, so that whoever reads it cannot use it.
"""

import hashlib
import hmac
import json
import re
import secrets
import tomllib
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Literal

import msgspec

from drivetrain.common.identity import ROLLOUT_TENANT

API_KEY_PREFIX = "dtk_"
Role = Literal["person", "rollout", "admin"]
Consent = Literal["off", "record", "train"]
Limit = Annotated[int, msgspec.Meta(ge=1)]
Word = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9_-]{1,64}$")]
_ID = re.compile(r"^[a-z2-7]{8}$")
_LETTERS = "abcdefghijklmnopqrstuvwxyz234567"
_HEAD = "# Written by `drivetrain keys`; the proxy reads it again when it changes. It holds hashes, not keys.\n"


class BadKeys(ValueError):
    """A keys file that cannot be used; the message names the entry and what is wrong with it."""


class KeyEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What one key is allowed.

    `policies` None means every policy; `consent` is the most that a request may give and the default of those that do
    not say; None leaves it to the service. Limits are per minute over all replicas; None means none.
    """

    hash: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
    name: Annotated[str, msgspec.Meta(max_length=200)] = ""
    tenant: Word = "local"
    role: Role = "person"
    policies: tuple[Word, ...] | None = None
    consent: Consent | None = None
    requests_per_minute: Limit | None = None
    tokens_per_minute: Limit | None = None
    created: datetime | None = None
    expires: datetime | None = None

    def expired(self, now: float) -> bool:
        """Whether the key is worth nothing any more at `now` (unix seconds)."""
        return self.expires is not None and self.expires.timestamp() <= now


class _File(msgspec.Struct, forbid_unknown_fields=True):
    keys: dict[str, KeyEntry] = {}


def new_key() -> tuple[str, str]:
    """A fresh key, and its id."""
    key_id = "".join(secrets.choice(_LETTERS) for _ in range(8))
    return f"{API_KEY_PREFIX}{key_id}_{secrets.token_urlsafe(32)}", key_id


def id_of(key: str) -> str | None:
    """The id that a key names, or None for a text that is no API key."""
    key_id, _, secret = key.removeprefix(API_KEY_PREFIX).partition("_")
    return key_id if key.startswith(API_KEY_PREFIX) and _ID.match(key_id) and secret else None


def hash_of(key: str) -> str:
    """A key as the file keeps it.

    One round of SHA-256 is enough here: slow and salted hashes protect passwords, which can be guessed; 256 random
    bits cannot, at any speed, and a check is made for every request.
    """
    return hashlib.sha256(b"drivetrain api key\0" + key.encode()).hexdigest()


def matches(entry: KeyEntry, key: str) -> bool:
    """Whether this is the entry's key. The time that it takes tells nothing about the hash."""
    return hmac.compare_digest(entry.hash, hash_of(key))


def read_keys(text: str) -> dict[str, KeyEntry]:
    """The entries of a keys file, by key id.

    Raises:
        BadKeys: it is not TOML, has an unknown field, or an entry that cannot be.
    """
    try:
        found = msgspec.convert(tomllib.loads(text), _File).keys
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise BadKeys(f"the keys file cannot be used: {error}") from error
    for key_id, entry in found.items():
        if not _ID.match(key_id):
            raise BadKeys(f"keys.{key_id}: an id is 8 of the characters a-z and 2-7")
        if entry.tenant == ROLLOUT_TENANT:
            raise BadKeys(f"keys.{key_id}.tenant: {ROLLOUT_TENANT!r} is the tenant of signed rollout keys alone")
        for field, moment in (("created", entry.created), ("expires", entry.expires)):
            if moment is not None and moment.tzinfo is None:
                raise BadKeys(f"keys.{key_id}.{field}: give the time with its zone, such as 2030-01-31T12:00:00Z")
    return found


def write_keys(entries: Mapping[str, KeyEntry]) -> str:
    """The text of a keys file with these entries."""
    return _HEAD + "".join(f"\n[keys.{key_id}]\n{_table(entry)}" for key_id, entry in entries.items())


def _table(entry: KeyEntry) -> str:
    fields = {name: getattr(entry, name) for name in entry.__struct_fields__}
    return "".join(f"{name} = {_value(value)}\n" for name, value in fields.items() if value not in (None, ""))


def _value(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat(timespec="seconds")
    # JSON's strings, numbers and arrays are TOML's too; DEL is the one character that only JSON takes as it is.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
