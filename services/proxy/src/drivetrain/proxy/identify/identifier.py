"""Who speaks, as far as key, path, headers and body say; what they leave open, the conversation has to tell."""

import re
from collections.abc import Mapping
from typing import cast

from drivetrain.common.identity import rollout_session, session_id
from drivetrain.proxy.access.principal import Principal
from drivetrain.proxy.errors import Refused
from drivetrain.proxy.identify.harnesses import Mark, marks
from drivetrain.proxy.identify.speakers import thread_name
from drivetrain.proxy.turns import Ask, Caller, Consent, Kind

_LONGEST_NAME = 256
_CONSENTS = ("off", "record", "train")
_YES, _NO = ("true", "1", "yes", "on"), ("false", "0", "no", "off")
_BESIDE = re.compile(r"^(.+)-summarization-\d+-(?:summary|questions|answers)$")
"""How Terminus-2 names the calls in which it compacts: after its session."""


class Identifier:
    """Turns a key's holder and a request into a caller. Header names are lower case; `consent` is what is taken where
    neither key nor request says."""

    def __init__(self, secret: bytes, consent: Consent) -> None:
        self._secret, self._consent = secret, consent

    def caller(self, principal: Principal, headers: Mapping[str, str], path_session: str | None, ask: Ask) -> Caller:
        """Who asks.

        Raises:
            Refused: a key for another policy, or a header or field with a value that means nothing.
        """
        if not principal.may_use(ask.model):
            raise Refused(403, f"this key is not for the policy {ask.model!r}", param="model", code="wrong_policy")
        mark = marks(headers, ask.hints, tools=bool(ask.tools))
        name, is_beside = _named(headers, ask.hints, path_session, mark)
        rollout = principal.rollout
        session = self.session(principal.tenant, ask.model, name) if name else None
        return Caller(
            tenant=principal.tenant,
            policy=ask.model,
            role=principal.role,
            session=rollout_session(self._secret, rollout) if rollout else session,
            thread=thread_name("named", mark.thread) if mark.thread else None,
            harness=mark.harness,
            rollout=rollout.rollout if rollout else None,
            kind=_kind(headers, ask.hints, mark, is_beside=is_beside),
            consent=self._consent_of(principal, headers),
            done=_done(headers, ask.hints),
        )

    def named(
        self, principal: Principal, headers: Mapping[str, str], path_session: str | None, policy: str, name: str | None
    ) -> str | None:
        """The session of a policy that a request which is no model call means: a rollout's own, else by its name, else
        by the path or the headers; None if none is meant."""
        if principal.rollout:
            return rollout_session(self._secret, principal.rollout)
        found = name or _named(headers, {}, path_session, marks(headers, {}, tools=True))[0]
        return self.session(principal.tenant, policy, found) if found else None

    def session(self, tenant: str, policy: str, external: str) -> str:
        """The id of the session that a caller of a tenant calls `external`."""
        return session_id(self._secret, tenant, policy, external)

    def _consent_of(self, principal: Principal, headers: Mapping[str, str]) -> Consent:
        """What the request says, at most what the key allows."""
        most = principal.consent
        said = _choice("x-drivetrain-record", headers.get("x-drivetrain-record"), _CONSENTS) or most or self._consent
        return cast(Consent, min(said, most or said, key=_CONSENTS.index))


def _named(
    headers: Mapping[str, str], hints: Mapping[str, str], path_session: str | None, mark: Mark
) -> tuple[str, bool]:
    """The session's name, "" without any, and whether the name says that the call is beside the work."""
    given = (
        ("the session in the path", path_session),
        ("x-session-id", "" if mark.harness == "opencode" else headers.get("x-session-id")),
        ("session_id", hints.get("session_id")),
    )
    field, name = next(((field, name) for field, name in given if name), ("", mark.session))
    if len(name) > _LONGEST_NAME:
        raise Refused(400, f"{field}: a session's name has at most {_LONGEST_NAME} characters", param=field)
    compacting = _BESIDE.match(name)
    return (compacting[1], True) if compacting else (name, False)


def _kind(headers: Mapping[str, str], hints: Mapping[str, str], mark: Mark, *, is_beside: bool) -> Kind | None:
    said = _choice("x-turn-type", headers.get("x-turn-type"), ("main", "side"))
    said = said or _choice("turn_type", hints.get("turn_type"), ("main", "side"))
    return cast(Kind | None, said or ("side" if is_beside or mark.main is False else None))


def _done(headers: Mapping[str, str], hints: Mapping[str, str]) -> bool:
    said = _choice("x-session-done", headers.get("x-session-done"), _YES + _NO)
    return (said or _choice("session_done", hints.get("session_done"), _YES + _NO)) in _YES


def _choice(name: str, value: str | None, allowed: tuple[str, ...]) -> str | None:
    """The value in lower case, or None without one."""
    value = (value or "").strip().lower()
    if value and value not in allowed:
        raise Refused(400, f"{name} must be one of {', '.join(allowed)}, not {value!r}", param=name)
    return value or None
