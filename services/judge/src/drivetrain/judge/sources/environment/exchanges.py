"""Earlier turns as exchanges: what the assistant did, and what came back."""

from collections.abc import Sequence
from dataclasses import dataclass

from drivetrain.common.events import Message
from drivetrain.judge.sources.base import is_observation
from drivetrain.judge.sources.environment.actions import Call, calls_of
from drivetrain.judge.sources.environment.results import Result, results_of
from drivetrain.judge.text import content_text

MOST = 40
"""Exchanges that are looked back at."""


@dataclass(frozen=True)
class Exchange:
    """The calls of one reply and their results."""

    calls: tuple[Call, ...]
    results: tuple[Result, ...]

    def call_of(self, result: Result) -> Call | None:
        """The call that a result answers; the only call, where results carry no id."""
        named = next((call for call in self.calls if call.id is not None and call.id == result.call), None)
        return named or (self.calls[0] if len(self.calls) == 1 else None)

    def looks(self) -> bool:
        """Whether all calls only read something."""
        return bool(self.calls) and all(call.act == "look" for call in self.calls)

    def changes(self) -> bool:
        """Whether a call may have changed something."""
        return any(call.act == "act" for call in self.calls)


def exchanges(messages: Sequence[Message]) -> list[Exchange]:
    """The exchanges among messages since a person last spoke, oldest first; the last ones of very many."""
    found: list[tuple[Message, list[Message]]] = []
    for message in messages:
        if message.get("role") == "assistant":
            found.append((message, []))
        elif is_observation(message):
            if not found:
                found.append(({}, []))
            found[-1][1].append(message)
        elif message.get("role") == "user" and content_text(message).strip():
            found = []
    return [Exchange(calls_of(reply), tuple(results_of(tuple(after)))) for reply, after in found[-MOST:]]
