"""Ask the sources in their order of precedence and combine what they say into one judgement."""

from collections.abc import Sequence
from dataclasses import dataclass

from drivetrain.common.events import Vote
from drivetrain.judge import hints
from drivetrain.judge.sources.base import Case, NoScore, Source
from drivetrain.judge.votes import PRECEDENCE, combine, decided


@dataclass(frozen=True)
class Judgement:
    """What the judge makes of a case. `reward` None means unresolved; `failed` names a source that gave no score."""

    reward: float | None
    votes: tuple[Vote, ...]
    hints: tuple[str, ...]
    decided_by: str | None
    failed: str | None = None


class Chain:
    """The configured sources. All rules are asked, so that a score lists every opinion; a costly source is asked
    only when nothing stronger has decided."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self.sources = sorted(sources, key=lambda source: PRECEDENCE.index(source.name))

    @property
    def reads_history(self) -> bool:
        """Whether a source always wants the conversation before the turn's own messages: a judge model does."""
        return any(source.costly for source in self.sources)

    async def judge(self, case: Case) -> Judgement:
        votes: list[Vote] = []
        candidates: list[str] = []
        failed: str | None = None
        for source in self.sources:
            if source.costly and decided(votes, source.name):
                continue
            try:
                opinion = await source.judge(case)
            except NoScore:
                failed = source.name
                continue
            votes += opinion.votes
            candidates += opinion.hints
        combined = combine(votes, silent=failed)
        leaks = hints.leaks_of(case.observations, (*case.before, case.reply), case.said)
        accepted = tuple(hints.accept(candidates, leaks)) if candidates else ()
        return Judgement(combined.reward, tuple(votes), accepted, combined.decided_by, failed)
