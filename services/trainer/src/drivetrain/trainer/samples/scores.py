"""From a score on the bus to a sample: reads the scored turn's chain, and gives it a teacher prompt when hinted."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from drivetrain.common.bus import Bus
from drivetrain.common.events import RolloutScored, TurnRecorded, TurnScored, shard_of
from drivetrain.trainer.advantages import Method
from drivetrain.trainer.samples.hints import NoTeacher, NotSpliced, Tokenizer, splice
from drivetrain.trainer.samples.samples import Reason, Sample, Unusable, make_sample, sample_of

OUTCOME = "outcome"
"""The source of a vote that only repeats the rollout's outcome."""


@dataclass(frozen=True)
class Limits:
    """`max_tokens` bounds prompt plus response, `vocabulary` every token id; a turn not yet readable is asked for again
    after each of `retries_s` seconds."""

    max_tokens: int
    vocabulary: int
    retries_s: Sequence[float] = (0.2, 0.5, 1.0, 2.0)


@dataclass(frozen=True)
class Session:
    """Where a session's events are found."""

    policy: str
    name: str


class Scores:
    """Reads what a score refers to. `wording` is None when the method uses no hints."""

    def __init__(
        self,
        bus: Bus,
        tokenizer: Tokenizer,
        method: Method,
        wording: str | None,
        limits: Limits,
        on_no_teacher: Callable[[str], None],
        on_drop: Callable[[Reason, int], None],
    ) -> None:
        self._bus = bus
        self._tokenizer = tokenizer
        self._method = method
        self._wording = wording
        self._limits = limits
        self._on_no_teacher = on_no_teacher
        self._on_drop = on_drop

    async def sample(self, scored: TurnScored, sequence: int) -> Sample:
        """The sample that a score stands for.

        Raises:
            Unusable: the turn must not or cannot be trained; the score is done with.
            BusError: the bus is away.
        """
        if not scored.trainable:
            raise Unusable(Reason.NOT_TRAINABLE)
        if scored.reward is None:
            raise Unusable(Reason.UNRESOLVED)
        if not self._method.has_signal(scored.reward, bool(scored.hints)):
            raise Unusable(Reason.NO_SIGNAL)
        chain = await self._chain(Session(scored.policy, scored.session), scored.turn)
        known = self._readable(make_sample(scored, sequence, chain, self._limits.max_tokens))
        sample = self._with_teacher(known, scored, chain[-1])
        if not self._method.has_signal(sample.reward, sample.teacher_ids is not None):
            raise Unusable(Reason.NO_SIGNAL)
        return sample

    async def rollout(self, scored: RolloutScored, sequence: int) -> tuple[list[Sample], list[float]]:
        """A rollout's turns that can be trained, with reward 0, and the mean of each one's own votes (0 if there are
        none). What cannot be trained is counted.

        Raises:
            BusError: the bus is away.
        """
        session, samples, votes = Session(scored.policy, scored.session), [], []
        opinions = await self._votes(session, scored.judge) if self._method.votes_count else {}
        for turn in scored.turns:
            try:
                chain = await self._chain(session, turn)
                exact = not self._method.supervised
                samples.append(self._readable(sample_of(chain, sequence, self._limits.max_tokens, exact)))
                votes.append(opinions.get(turn, 0.0))
            except Unusable as unusable:
                self._on_drop(unusable.reason, 1)
        return samples, votes

    def _readable(self, sample: Sample) -> Sample:
        ids = (*sample.prompt_ids, *sample.response_ids)
        if min(ids) < 0 or max(ids) >= self._limits.vocabulary:
            raise Unusable(Reason.MALFORMED, f"a token id is outside the model's {self._limits.vocabulary}")
        return sample

    async def _votes(self, session: Session, judge: str) -> dict[str, float]:
        """The mean of each turn's votes on itself, by the judge's best informed score."""
        stored = await self._bus.last("SCORES", f"turn.scored.{self._path(session)}.*.{judge}.*")
        scores = [item.event for item in stored if isinstance(item.event, TurnScored)]
        best = {score.turn: score for score in sorted(scores, key=lambda score: (score.seen, score.n))}
        own = {turn: [v.value for v in score.votes if v.source != OUTCOME] for turn, score in best.items()}
        return {turn: sum(values) / len(values) for turn, values in own.items() if values}

    def _path(self, session: Session) -> str:
        return f"{shard_of(session.name, self._bus.shards)}.{session.policy}.{session.name}"

    async def _chain(self, session: Session, turn: str) -> list[TurnRecorded]:
        """A turn and its ancestors, root first."""
        for wait in (*self._limits.retries_s, None):
            chain = await self._read_chain(session, turn)
            if chain is not None:
                return chain
            if wait is not None:
                await asyncio.sleep(wait)
        raise Unusable(Reason.MISSING, "the turn or one of its parents is not in the stream (expired?)")

    async def _read_chain(self, session: Session, name: str) -> list[TurnRecorded] | None:
        prefix = f"turn.recorded.{self._path(session)}"
        stored = await self._bus.last("TURNS", f"{prefix}.*")
        turns = {item.event.turn: item.event for item in stored if isinstance(item.event, TurnRecorded)}
        chain: list[TurnRecorded] = []
        wanted: str | None = name
        while wanted is not None:
            turn = turns.pop(wanted, None) or await self._from_leader(f"{prefix}.{wanted}")
            if turn is None or turn in chain:
                return None
            chain.append(turn)
            wanted = turn.parent
        return chain[::-1]

    async def _from_leader(self, subject: str) -> TurnRecorded | None:
        found = await self._bus.get("TURNS", subject)
        return found.event if found is not None and isinstance(found.event, TurnRecorded) else None

    def _with_teacher(self, sample: Sample, scored: TurnScored, turn: TurnRecorded) -> Sample:
        if self._wording is None or not scored.hints:
            return sample
        hints = scored.hints if self._method.distil == "candidates" else scored.hints[:1]
        found = [ids for hint in hints if (ids := self._hinted(sample, turn, hint, self._wording)) is not None]
        return replace(sample, teacher_ids=found[0], other_teachers=tuple(found[1:])) if found else sample

    def _hinted(self, sample: Sample, turn: TurnRecorded, hint: str, wording: str) -> tuple[int, ...] | None:
        """The prompt with a hint in it; None, and counted, where it has no place."""
        message = turn.messages[-1] if turn.messages else None
        try:
            ids = splice(self._tokenizer, sample.prompt_ids, message, hint, wording)
        except NotSpliced as error:
            self._on_no_teacher(error.reason)
            return None
        if len(ids) + len(sample.response_ids) > self._limits.max_tokens:
            self._on_no_teacher(NoTeacher.TOO_LONG)
            return None
        return ids
