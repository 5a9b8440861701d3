"""Which key a request carries, and whether it is good: signed rollout keys, and the API keys of the keys file."""

from collections.abc import Mapping
from pathlib import Path

from drivetrain.common.errors import CannotStart
from drivetrain.common.identity import (
    ROLLOUT_KEY_PREFIX,
    ROLLOUT_TENANT,
    InvalidKey,
    verify_rollout_key,
)
from drivetrain.common.keys import API_KEY_PREFIX, KeyEntry, hash_of, id_of, matches, read_keys
from drivetrain.common.telemetry.logs import get_logger
from drivetrain.proxy.access.principal import Principal
from drivetrain.proxy.errors import Refused

_LOOK_EVERY_S = 1.0
_NOBODY = KeyEntry(hash=hash_of(""))
_log = get_logger("access")


class Keys:
    """The keys that are good here. Without a file every key, and no key, is a person of the tenant `local`."""

    def __init__(self, secret: bytes, file: Path | None = None) -> None:
        """
        Raises:
            CannotStart: the file is not there, or cannot be used.
        """
        self._secret, self._file = secret, file
        self._entries: dict[str, KeyEntry] = {}
        self._seen: tuple[int, ...] = ()
        self._look_at = 0.0
        if file is not None:
            try:
                self._read(file)
            except (OSError, ValueError) as error:
                raise CannotStart(f"access.keys: {file}: {error}; `drivetrain keys add` writes one") from error

    def authenticate(self, headers: Mapping[str, str], now: float) -> Principal:
        """Whom the request's key speaks for. Header names are lower case; `now` is in unix seconds.

        Raises:
            Refused: 401 for a key that is missing, unknown, expired, forged or malformed.
        """
        text = key_in(headers)
        if text.startswith(ROLLOUT_KEY_PREFIX):
            return self._rollout(text, now)
        if self._file is None:
            return Principal(key_id="anyone")
        self._look_again(self._file, now)
        return self._entry(text, now)

    def _entry(self, text: str, now: float) -> Principal:
        key_id = id_of(text) or ""
        entry = self._entries.get(key_id, _NOBODY)
        # An unknown id costs the same comparison as a known one.
        if not matches(entry, text) or entry is _NOBODY:
            words = "this API key is not known here" if text else "an API key is needed (Authorization: Bearer …)"
            raise Refused(401, words, code="invalid_api_key")
        if entry.expired(now):
            raise Refused(401, "this API key has expired", code="invalid_api_key")
        return Principal(
            key_id=key_id,
            tenant=entry.tenant,
            role=entry.role,
            policies=entry.policies,
            consent=entry.consent,
            requests_per_minute=entry.requests_per_minute,
            tokens_per_minute=entry.tokens_per_minute,
        )

    def _rollout(self, text: str, now: float) -> Principal:
        try:
            key = verify_rollout_key(self._secret, text, now)
        except InvalidKey as error:
            raise Refused(401, str(error), code="invalid_api_key") from error
        name = f"{key.rollout.run}/{key.rollout.rollout}/{key.attempt}"
        return Principal(key_id=name, tenant=ROLLOUT_TENANT, role="rollout", policies=(key.policy,), rollout=key)

    def _look_again(self, file: Path, now: float) -> None:
        """Read the file again if it changed. One that cannot be used changes nothing: the keys before it stay."""
        if 0 <= now - self._look_at < _LOOK_EVERY_S:
            return
        self._look_at = now
        try:
            if _stamp(file) != self._seen:
                self._read(file)
                _log.info("keys read again", keys=len(self._entries))
        except (OSError, ValueError) as error:
            _log.error("the keys file cannot be used, the keys before it stay", file=str(file), reason=str(error))

    def _read(self, file: Path) -> None:
        # The stamp comes first: a file that changes while it is read is read once more.
        self._seen = _stamp(file)
        self._entries = read_keys(file.read_text())


def key_in(headers: Mapping[str, str]) -> str:
    """The key of a request: one of ours before any other, for some harnesses send two; "" without any."""
    scheme, _, bearer = headers.get("authorization", "").partition(" ")
    given = [bearer if scheme.lower() == "bearer" else "", headers.get("x-api-key", "")]
    found = [key.strip() for key in (*given, headers.get("x-goog-api-key", "")) if key.strip()]
    ours = [key for key in found if key.startswith((API_KEY_PREFIX, ROLLOUT_KEY_PREFIX))]
    return (ours or found or [""])[0]


def _stamp(file: Path) -> tuple[int, ...]:
    status = file.stat()
    return status.st_mtime_ns, status.st_size, status.st_ino
