"""Requests that name the reply they go on from instead of repeating the conversation."""

from collections.abc import Sequence

import msgspec

from drivetrain.common.events import Message
from drivetrain.proxy.errors import Refused, quoted
from drivetrain.proxy.turns import Ask, KnownTurn, Past

_INSTRUCTIONS = ("system", "developer")


def unknown(ask: Ask) -> Refused:
    """The refusal for a reply that is not known, or is not this caller's."""
    message = f"no earlier response {quoted(ask.continues)} is known here: send the whole conversation as input"
    return Refused(400, message, param="previous_response_id", code="previous_response_not_found")


def whole(ask: Ask, past: Past) -> Ask:
    """The ask with the conversation that it goes on from. Its own instructions take the place of those before.

    Raises:
        Refused: that reply was cut, or a tool result answers none of its calls.
    """
    if past.known.cut:
        message = "that response is not whole: send the conversation as input"
        raise Refused(400, message, param="previous_response_id")
    before, new = past.seen(), ask.messages
    _check_results(before, new)
    if new and new[0]["role"] in _INSTRUCTIONS:
        old = before[1:] if before[0]["role"] in _INSTRUCTIONS else before
        return msgspec.structs.replace(ask, messages=[new[0], *old, *new[1:]])
    return msgspec.structs.replace(ask, messages=[*before, *new])


def may_continue(known: KnownTurn | None, *, tenant: str, policy: str, session: str | None) -> bool:
    """Whether a reply is one of this tenant's and policy's, and of a rollout's own session where that is given."""
    if known is None or (known.tenant, known.policy) != (tenant, policy):
        return False
    return session is None or known.session == session


def _check_results(before: Sequence[Message], new: Sequence[Message]) -> None:
    """Refuse a result that answers no call, of the conversation or of the new messages."""
    called = {call["id"] for message in [*before, *new] for call in message.get("tool_calls") or ()}
    for message in new:
        if message["role"] == "tool" and message["tool_call_id"] not in called:
            words = f"no earlier call has the call_id {quoted(message['tool_call_id'])}"
            raise Refused(400, words, param="input")
