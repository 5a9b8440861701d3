"""Holds the sessions: a person talks to the proxy, several conversations at once, at the pace of the trainer."""

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from openai.types.chat import ChatCompletionMessageParam

from drivetrain.cli.demo.chat import Chat, Reply, RequestFailed
from drivetrain.cli.demo.corrections import Corrections
from drivetrain.cli.demo.measures import words
from drivetrain.cli.demo.pacing import Gate
from drivetrain.cli.demo.questions import Question
from drivetrain.cli.demo.taste import Taste
from drivetrain.cli.demo.user import PATIENCE, Say, opening, react

AT_ONCE = 8
THANKS_TOKENS = 24
"""The reply to thanks is read by nobody: a short limit keeps the engine free for the others."""


@dataclass(frozen=True)
class First:
    """The first reply of a session: before any objection, so the one that shows what was learnt."""

    at: float
    fits: bool
    length_words: int


@dataclass
class Talk:
    """What the sessions have come to so far."""

    firsts: list[First] = field(default_factory=list)
    done: int = 0
    objections: int = 0
    thanks: int = 0
    given_up: int = 0
    corrections: Corrections = field(default_factory=Corrections)


def reply_limit(taste: Taste) -> int:
    """Tokens after which a reply is stopped: a good deal longer than any that fits the taste."""
    limit = taste.checks.max_words
    return 160 if limit is None else min(256, 2 * limit + 32)


class Sessions:
    """Everything that one conversation needs besides its question."""

    def __init__(
        self, chat: Chat, taste: Taste, gate: Gate, run: str, patience: int = PATIENCE, at_once: int = AT_ONCE
    ) -> None:
        self.talk = Talk()
        self._chat, self._taste, self._gate, self._run = chat, taste, gate, run
        self._patience = patience
        self._slots = asyncio.Semaphore(at_once)

    async def hold_all(self, questions: Sequence[Question], seed: int, enough: Callable[[], bool]) -> None:
        """Hold a session about each question, until all are done or `enough()` holds when the next would open."""
        async with asyncio.TaskGroup() as group:
            for number, question in enumerate(questions):
                await self._slots.acquire()
                await self._gate.open()
                if enough():
                    self._slots.release()
                    break
                rng = random.Random(f"{seed}/{number}")
                group.create_task(self._one(f"{self._run}-{number}", question, rng))

    async def _one(self, session: str, question: Question, rng: random.Random) -> None:
        try:
            await self.hold(session, question, rng)
        except RequestFailed:
            pass  # counted where it happened; the person walks away
        finally:
            self.talk.done += 1
            self._slots.release()

    async def hold(self, session: str, question: Question, rng: random.Random) -> None:
        """One conversation from the question to thanks, or to giving up.

        Raises:
            RequestFailed: a request failed; the session is over.
        """
        messages: list[ChatCompletionMessageParam] = []
        say: Say | None = opening(question)
        objections = 0
        while say is not None:
            messages.append({"role": "user", "content": say.text})
            reply = await self._say(say, messages, session)
            if say.kind == "thanks" or not reply.whole:
                return
            if say.kind == "ask":
                self._note_first(reply, question)
            messages.append({"role": "assistant", "content": reply.text})
            say = react(reply.text, question, self._taste, objections, rng, self._patience)
            objections += say is not None and say.kind == "object"
        self.talk.given_up += 1

    async def _say(self, say: Say, messages: list[ChatCompletionMessageParam], session: str) -> Reply:
        if say.kind == "object":
            self.talk.objections += 1
            self.talk.corrections.objected(self._gate.pace.position(), time.monotonic())
        self.talk.thanks += say.kind == "thanks"
        limit = THANKS_TOKENS if say.kind == "thanks" else reply_limit(self._taste)
        reply = await self._chat.ask(messages, limit, {"X-Session-Id": session})
        if reply.whole:
            self.talk.corrections.replied(reply.asked_at, reply.finished_at)
        return reply

    def _note_first(self, reply: Reply, question: Question) -> None:
        fits = not self._taste.misses(reply.text, question.subject)
        self.talk.firsts.append(First(reply.finished_at, fits, len(words(reply.text))))
