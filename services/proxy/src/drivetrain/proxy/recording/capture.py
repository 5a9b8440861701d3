"""What is captured of one reply, and the events that it becomes."""

import math
from collections.abc import Sequence
from typing import Literal

import msgspec

from drivetrain.common.events import Message, Place, Span, TurnFollowed, TurnRecorded
from drivetrain.common.tokens import pack_ids, pack_logprobs
from drivetrain.proxy.conversations.echoes import Where, lines
from drivetrain.proxy.conversations.lineage import digest_of
from drivetrain.proxy.engines.base import LabelSpan, Sampled
from drivetrain.proxy.engines.sampling import ends_of, inexact_because
from drivetrain.proxy.prompts.prompt import Prompt
from drivetrain.proxy.replies.parts import Finished
from drivetrain.proxy.replies.reader import ReplyReader
from drivetrain.proxy.turns import CUT, Ask, Caller, Finish, KnownTurn

UNKNOWN_VERSION = -1


class Captured:
    """One turn in progress: what was asked, where it stands, and every token and logprob as the engine gave them."""

    def __init__(
        self,
        *,
        turn: str,
        caller: Caller,
        ask: Ask,
        where: Where,
        prompt: Prompt,
        reader: ReplyReader,
        started_at: float,
    ) -> None:
        self.turn, self.caller, self.ask, self.where = turn, caller, ask, where
        self.prompt, self.reader, self.started_at = prompt, reader, started_at
        self.speaker = where.speaker
        self.prompt_tokens = len(prompt.ids)
        self.parent = where.link.past.known if where.link and prompt.shared else None
        self.logprobs: list[float] = []
        self.spans: list[LabelSpan] | None = None
        self.cached: int | None = None
        self.engine_finish: Finish | None = None
        self.replica = ""

    def take(self, sampled: Sampled) -> None:
        """Keep newly sampled tokens' logprobs and what came with them; the reader keeps the ids."""
        self.logprobs += [math.nan if logprob is None else logprob for logprob in sampled.logprobs]
        self.engine_finish = sampled.finish or self.engine_finish
        self.spans = sampled.spans if sampled.spans is not None else self.spans
        self.cached = sampled.cached if sampled.cached is not None else self.cached

    @property
    def finish(self) -> Finish:
        """How the reply ended; `tool_calls` when it asks for tools."""
        if self.engine_finish is None:
            return "error"
        return "tool_calls" if self.reader.calls else self.engine_finish

    @property
    def finished(self) -> Finished:
        """What the caller is told at the end."""
        return Finished(
            finish=self.finish,
            prompt_tokens=self.prompt_tokens,
            completion_tokens=len(self.reader.ids),
            cached=self.cached,
            stopped_by=self.reader.stopped_by,
        )

    @property
    def new_messages(self) -> list[Message]:
        """The messages after the parent's reply; all of them without a parent."""
        return self.ask.messages[self.where.link.depth if self.parent and self.where.link else 0 :]

    def recorded(self, finish: Finish, now: float) -> TurnRecorded:
        """The event that says all of this turn."""
        versions, unknown = spans_of(self.spans, len(self.reader.ids))
        reason = self._inexact_because(finish, unknown)
        return TurnRecorded(
            tenant=self.caller.tenant,
            policy=self.caller.policy,
            session=self.speaker.session,
            turn=self.turn,
            parent=self.parent.turn if self.parent else None,
            thread=self.speaker.thread,
            kind=self.speaker.kind,
            prompt_ids=pack_ids(self.prompt.new_ids),
            response_ids=pack_ids(self.reader.ids),
            logprobs=pack_logprobs(self.logprobs),
            versions=versions,
            sampling=msgspec.structs.replace(self.ask.sampling, stop=ends_of(self.ask)),
            finish=finish,
            exact=not reason,
            inexact_reason=reason,
            drift=self.prompt.drift,
            drift_cause=self.prompt.cause,
            messages=self.new_messages,
            reply=self.reader.message,
            tools=[] if self.parent else self.ask.tools,
            place=self._place(),
            masked=self.parent.masked if self.parent else "",
            consent="train" if self.caller.consent == "train" else "record",
            replica=self.replica,
            rollout=self.caller.rollout,
            started_at=self.started_at,
            finished_at=now,
        )

    def _place(self) -> Place:
        line, *also = lines(self.where.digests, self.ask.messages, self.reader.message, self.where.link) or [""]
        return Place(
            line=line,
            also=also,
            asked=self.where.asked,
            depth=len(self.ask.messages) + 1,
            tools=digest_of(self.ask.tools),
            rendered=self.prompt.rendered,
        )

    def _inexact_because(self, finish: Finish, unknown: str) -> str:
        # The tokens of a prompt mark where its images are; what the model saw there they do not hold.
        reasons = [inexact_because(self.ask.sampling), "images" if self.prompt.images else "", unknown]
        if finish in CUT:
            reasons.append(f"the reply was cut ({finish})")
        if missing := sum(math.isnan(logprob) for logprob in self.logprobs):
            reasons.append(f"the engine gave no logprob for {missing} tokens")
        return "; ".join(reason for reason in reasons if reason)


def spans_of(labels: Sequence[LabelSpan] | None, tokens: int) -> tuple[list[Span], str]:
    """The engine's spans with integer versions, and why some are `UNKNOWN_VERSION`; empty if none are."""
    if not tokens:
        return [], ""
    if not labels:
        return [Span(0, tokens, UNKNOWN_VERSION)], "the engine named no weight version"
    named = [(span, int(span.version) if span.version.isdecimal() else UNKNOWN_VERSION) for span in labels]
    odd = sorted({span.version for span, version in named if version == UNKNOWN_VERSION})
    reason = f"weight version is not an integer: {', '.join(odd)}" if odd else ""
    if named[0][0].start != 0 or named[-1][0].end != tokens:
        reason = reason or "the engine's weight versions do not cover the reply"
    return [Span(span.start, span.end, version) for span, version in named], reason


def known_turn(event: TurnRecorded) -> KnownTurn:
    """A recorded turn that can be continued (it has a place) as the session index keeps it."""
    place = event.place
    assert place is not None
    return KnownTurn(
        turn=event.turn,
        parent=event.parent,
        tenant=event.tenant,
        policy=event.policy,
        session=event.session,
        rollout=event.rollout,
        prompt_ids=event.prompt_ids,
        response_ids=event.response_ids,
        messages=event.messages,
        reply=event.reply,
        line=place.line,
        also=place.also,
        asked=place.asked,
        depth=place.depth,
        tools=place.tools,
        rendered=place.rendered,
        thread=event.thread,
        kind=event.kind,
        finish=event.finish,
        trainable=event.exact and event.kind == "main" and event.consent == "train",
        masked=event.masked,
        started_at=event.started_at,
        finished_at=event.finished_at,
    )


def followed(
    known: KnownTurn,
    messages: list[Message],
    *,
    kind: Literal["messages", "ended", "idle", "superseded"],
    trainable: bool,
    now: float,
) -> TurnFollowed:
    """The event for a turn's next state. Its number is found by the publisher (`recording.publisher`)."""
    return TurnFollowed(
        tenant=known.tenant,
        policy=known.policy,
        session=known.session,
        turn=known.turn,
        n=1,
        kind=kind,
        messages=messages,
        before=known.messages,
        reply=known.reply,
        trainable=known.trainable and trainable,
        rollout=known.rollout,
        at=now,
    )
