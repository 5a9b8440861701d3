"""Who speaks: a signed rollout key, a session in the path, a session header, or nobody that can be named."""

from collections.abc import Mapping
from typing import cast

from drivetrain.common.identity import (
    ROLLOUT_KEY_PREFIX,
    ROLLOUT_TENANT,
    InvalidKey,
    RolloutKey,
    rollout_session,
    session_id,
    verify_rollout_key,
)
from drivetrain.proxy.errors import Refused
from drivetrain.proxy.turns import Caller, Consent, Kind

TENANT = "local"
"""The tenant of every key that is not a rollout's."""

_LONGEST_NAME = 256


class Identifier:
    """Turns a request's headers and path into a caller, for one policy. Header names are lower case."""

    def __init__(self, secret: bytes, policy: str, consent: Consent) -> None:
        self._secret, self._policy, self._consent = secret, policy, consent

    def caller(self, headers: Mapping[str, str], path_session: str | None, now: float) -> Caller:
        """
        Raises:
            Refused: a bad rollout key, or a header with a value that means nothing.
        """
        key = self._rollout_key(headers, now)
        kind = _choice(headers, "x-turn-type", ("main", "side"), "main")
        consent = _choice(headers, "x-drivetrain-record", ("off", "record", "train"), self._consent)
        return Caller(
            tenant=ROLLOUT_TENANT if key else TENANT,
            policy=self._policy,
            session=rollout_session(self._secret, key) if key else self._named(headers, path_session),
            rollout=key.rollout if key else None,
            kind=cast(Kind, kind),
            consent=cast(Consent, consent),
            done=_choice(headers, "x-session-done", ("true", "false"), "false") == "true",
        )

    def session(self, tenant: str, external: str) -> str:
        """The id of the session that a caller of a tenant calls `external`."""
        return session_id(self._secret, tenant, self._policy, external)

    def _named(self, headers: Mapping[str, str], path_session: str | None) -> str | None:
        name = path_session if path_session is not None else headers.get("x-session-id", "")
        if len(name) > _LONGEST_NAME:
            raise Refused(400, f"a session's name has at most {_LONGEST_NAME} characters", param="x-session-id")
        return self.session(TENANT, name) if name else None

    def _rollout_key(self, headers: Mapping[str, str], now: float) -> RolloutKey | None:
        text = headers.get("authorization", "").removeprefix("Bearer ").strip() or headers.get("x-api-key", "")
        if not text.startswith(ROLLOUT_KEY_PREFIX):
            return None
        try:
            key = verify_rollout_key(self._secret, text, now)
        except InvalidKey as error:
            raise Refused(401, str(error), code="invalid_api_key") from error
        if key.policy != self._policy:
            raise Refused(403, f"this key is for the policy {key.policy!r}, not {self._policy!r}", code="wrong_policy")
        return key


def _choice(headers: Mapping[str, str], name: str, allowed: tuple[str, ...], otherwise: str) -> str:
    value = headers.get(name, "").strip().lower() or otherwise
    if value not in allowed:
        raise Refused(400, f"the header {name} must be one of {', '.join(allowed)}, not {value!r}", param=name)
    return value
