"""Who is speaking: session ids scoped to one tenant, and rollout keys that need no store to be verified.

session id = base32(HMAC(secret, tenant ‖ policy ‖ external id)), so that no caller can name another tenant's session.
"""

import base64
import hashlib
import hmac
import secrets
from uuid import uuid4

import msgspec

from drivetrain.common.events import RolloutRef

ROLLOUT_KEY_PREFIX = "dtr_"
ROLLOUT_TENANT = "rollouts"


class InvalidKey(ValueError):
    """A rollout key that is malformed, forged or expired; the message says which."""


class RolloutKey(msgspec.Struct, frozen=True, kw_only=True):
    """What a rollout's API key vouches for. `expires_at` is in unix seconds."""

    rollout: RolloutRef
    policy: str
    attempt: int = 1
    expires_at: float


def session_id(secret: bytes, tenant: str, policy: str, external: str) -> str:
    """The session's id, 32 lower-case base32 characters: safe as a subject token and not to be guessed."""
    text = b"\0".join(part.encode() for part in (tenant, policy, external))
    digest = hmac.new(secret, text, hashlib.sha256).digest()
    return base64.b32encode(digest[:20]).decode().lower()


def rollout_session(secret: bytes, key: RolloutKey) -> str:
    """The session of a rollout's attempt, as the orchestrator and the proxy both derive it."""
    external = f"{key.rollout.run}/{key.rollout.rollout}/{key.attempt}"
    return session_id(secret, ROLLOUT_TENANT, key.policy, external)


def new_id() -> str:
    """A fresh id of a turn, a signal or an anonymous session: 32 hex characters."""
    return uuid4().hex


def new_secret() -> str:
    """A secret for HMACs, 256 bits as hex."""
    return secrets.token_hex(32)


def sign_rollout_key(secret: bytes, key: RolloutKey) -> str:
    """The API key to hand to a rollout's harness."""
    body = msgspec.msgpack.encode(key)
    return ROLLOUT_KEY_PREFIX + _text(body) + "." + _text(_signature(secret, body))


def verify_rollout_key(secret: bytes, text: str, now: float) -> RolloutKey:
    """Read a rollout key.

    Raises:
        InvalidKey: malformed, not signed with this secret, or expired at `now` (unix seconds).
    """
    body, _, signature = text.removeprefix(ROLLOUT_KEY_PREFIX).partition(".")
    try:
        payload, given = _bytes(body), _bytes(signature)
    except ValueError as error:
        raise InvalidKey("the rollout key is malformed") from error
    if not hmac.compare_digest(_signature(secret, payload), given):
        raise InvalidKey("the rollout key was not signed by this deployment")
    key = msgspec.msgpack.decode(payload, type=RolloutKey)
    if key.expires_at <= now:
        raise InvalidKey("the rollout key has expired: its rollout is over")
    return key


def _signature(secret: bytes, body: bytes) -> bytes:
    return hmac.new(secret, b"rollout-key\0" + body, hashlib.sha256).digest()


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    return base64.urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
