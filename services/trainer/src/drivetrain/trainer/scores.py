"""From a score on the bus to a sample: reads the scored turn's chain, and gives it a teacher prompt when hinted."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from drivetrain.common.bus import Bus
from drivetrain.common.events import TurnRecorded, TurnScored, shard_of
from drivetrain.trainer.advantages import Method
from drivetrain.trainer.hints import NoTeacher, NotSpliced, Tokenizer, splice
from drivetrain.trainer.samples import Reason, Sample, Unusable, make_sample


@dataclass(frozen=True)
class Limits:
    """`max_tokens` bounds prompt plus response; a turn not yet readable is asked for again after each of `retries_s`
    seconds."""

    max_tokens: int
    retries_s: Sequence[float] = (0.2, 0.5, 1.0, 2.0)


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
    ) -> None:
        self._bus = bus
        self._tokenizer = tokenizer
        self._method = method
        self._wording = wording
        self._limits = limits
        self._on_no_teacher = on_no_teacher

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
        chain = await self._chain(scored)
        sample = self._with_teacher(make_sample(scored, sequence, chain, self._limits.max_tokens), scored, chain[-1])
        if not self._method.has_signal(sample.reward, sample.teacher_ids is not None):
            raise Unusable(Reason.NO_SIGNAL)
        return sample

    async def _chain(self, scored: TurnScored) -> list[TurnRecorded]:
        """The scored turn and its ancestors, root first."""
        for wait in (*self._limits.retries_s, None):
            chain = await self._read_chain(scored)
            if chain is not None:
                return chain
            if wait is not None:
                await asyncio.sleep(wait)
        raise Unusable(Reason.MISSING, "the turn or one of its parents is not in the stream (expired?)")

    async def _read_chain(self, scored: TurnScored) -> list[TurnRecorded] | None:
        prefix = f"turn.recorded.{shard_of(scored.session, self._bus.shards)}.{scored.policy}.{scored.session}"
        stored = await self._bus.last("TURNS", f"{prefix}.*")
        turns = {item.event.turn: item.event for item in stored if isinstance(item.event, TurnRecorded)}
        chain: list[TurnRecorded] = []
        wanted: str | None = scored.turn
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
