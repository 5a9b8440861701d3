"""A labelled set: a JSON object a line, each a turn with its next state and what a person makes of it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from drivetrain.common.events import Message
from drivetrain.judge.sources.base import Case

_ROLES = {
    "conversation": ("system", "developer", "user", "assistant", "tool"),
    "reply": ("assistant",),
    "next": ("system", "developer", "user", "tool"),
}


class BadSet(ValueError):
    """A labelled set that cannot be used; the message names the file, the line, the field and the remedy."""


class Labelled(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A turn and its label: 1 progress, -1 to be done over, 0 nobody can tell. Of one that is not `clear` people may
    disagree. `next` is every message that came after the reply; `conversation` all that came before it."""

    id: str
    domain: str
    language: str
    label: Literal[-1, 0, 1]
    clear: bool = True
    source: str = ""
    hint: str | None = None
    conversation: list[Message]
    reply: Message
    next: list[Message]

    def case(self, with_history: bool) -> Case:
        """The case as the service makes it: what came before the last earlier reply is there only if asked for."""
        replies = [index for index, message in enumerate(self.conversation) if message["role"] == "assistant"]
        cut = replies[-1] + 1 if replies else 0
        history = tuple(self.conversation[:cut]) if with_history else ()
        return Case(tuple(self.conversation[cut:]), self.reply, tuple(self.next), history)


def read(paths: Sequence[Path]) -> list[Labelled]:
    """The turns of all files, in order.

    Raises:
        BadSet: a file or a line that cannot be used, two turns of one id, or no turn at all.
    """
    turns: dict[str, Labelled] = {}
    for path in paths:
        for where, line in _lines(path):
            turn = _turn(line, where)
            if turn.id in turns:
                raise BadSet(f"{where}: id: {turn.id!r} was used before: give each turn its own")
            turns[turn.id] = turn
    if not turns:
        raise BadSet(f"{', '.join(map(str, paths))}: no turn in it: write one JSON object a line")
    return list(turns.values())


def _lines(path: Path) -> list[tuple[str, str]]:
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except OSError as error:
        raise BadSet(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise BadSet(f"{path} is not UTF-8 (byte {error.start}): save it as UTF-8") from error
    return [(f"{path}, line {number}", line) for number, line in enumerate(lines, 1) if line.strip()]


def _turn(line: str, where: str) -> Labelled:
    try:
        turn = msgspec.json.decode(line.encode(), type=Labelled)
    except msgspec.ValidationError as error:
        fields = ", ".join(Labelled.__struct_fields__)
        raise BadSet(f"{where}: {error}; the fields are {fields} (hint, source and clear may be left out)") from error
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise BadSet(f"{where}: not JSON ({error}): write one object a line, without a comma after it") from error
    for field, roles in _ROLES.items():
        value = getattr(turn, field)
        for message in value if isinstance(value, list) else [value]:
            if message.get("role") not in roles:
                raise BadSet(f"{where}: {field}: role {message.get('role')!r}: give one of {', '.join(roles)}")
    return turn
