"""What a source is given, what it answers, and how it says that it could not."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from drivetrain.common.events import Message, Signal, Vote
from drivetrain.judge.text import content_text, texts_of
from drivetrain.judge.votes import latest

EVIDENCE = 400
"""Characters of a quoted span."""

_AS_USER = re.compile(
    r"\s*(?:<(?:returncode|output|tool_response|observation|stdout|stderr|exit_?code)>"
    r"|(?:observation|exit code|new terminal output|current terminal (?:state|screen)|terminal output|command output"
    r"|execution result|tool (?:result|output|response)|action result|操作结果|执行结果|终端输出|命令输出)"
    r"s?\b ?(?:of \[.*\])?[:：]"
    r"|\[?tool[ _]result)",
    re.IGNORECASE,
)
"""How results begin in harnesses that send them as the user."""


class NoScore(RuntimeError):
    """A source that should have voted could not: its endpoint failed, or too few of its votes were valid."""


@dataclass(frozen=True)
class Opinion:
    """A source's votes (none: it has nothing to say) and its hint candidates, unchecked."""

    votes: tuple[Vote, ...] = ()
    hints: tuple[str, ...] = ()


@dataclass(frozen=True)
class Case:
    """One turn to judge: what came before the reply, the reply, all that the world sent after it, and signals.

    `before` are the messages that the reply answered, `history` those of earlier turns (only loaded when a source
    looks back), `later` the number of main turns of the session recorded after this one (0 unless loaded).
    """

    before: tuple[Message, ...]
    reply: Message
    after: tuple[Message, ...] = ()
    history: tuple[Message, ...] = ()
    signals: tuple[Signal, ...] = ()
    later: int = 0
    policy: str = ""

    @cached_property
    def observations(self) -> list[str]:
        """What tools returned after the reply; harnesses without tool calls send it as the user."""
        return observations(self.after)

    @cached_property
    def said(self) -> list[str]:
        """What a person wrote after the reply."""
        return [text for text in texts_of(self.after, "user") if not _AS_USER.match(text)]

    @cached_property
    def asked(self) -> list[str]:
        """What a person wrote that the reply answered."""
        return [text for text in texts_of((*self.history, *self.before), "user") if not _AS_USER.match(text)]


class Source(ABC):
    """One kind of evidence, in a file of its own. A source gives its `name` and its `judge`; the rest has defaults that
    suit most.

    name: its place in the precedence. costly: it is not asked in vain, once a stronger source has decided.
    final: it decides also with a vote of 0. within: how several votes of it become one value.
    adds: the coefficient with which the mean of the weaker sources' votes is added to its own value.
    """

    name: ClassVar[str]
    costly: ClassVar[bool] = False
    final: ClassVar[bool] = False
    within: Callable[[Sequence[float]], float] = staticmethod(latest)
    adds: float = 0.0

    def looks_back(self, case: Case) -> bool:
        """Whether it wants the session's earlier and later turns too, which cost a read."""
        return False

    @abstractmethod
    async def judge(self, case: Case) -> Opinion:
        """This source's opinion of a turn.

        Raises:
            NoScore: it should have one, and failed to form it.
        """


def is_observation(message: Message) -> bool:
    """Whether a message is what a tool returned; harnesses without tool calls send it as the user."""
    role = message.get("role")
    return role in ("tool", "function") or (role == "user" and _AS_USER.match(content_text(message)) is not None)


def observations(messages: tuple[Message, ...]) -> list[str]:
    """The texts of tool results among messages, in order."""
    return [text for message in messages if is_observation(message) and (text := content_text(message))]


def quote(text: str) -> str:
    """A span fit to be kept as evidence."""
    flat = " ".join(text.split())
    return flat if len(flat) <= EVIDENCE else flat[: EVIDENCE - 1] + "…"
