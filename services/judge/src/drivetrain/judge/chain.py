"""Ask the sources in their order of precedence and combine what they say into one judgement."""

from collections.abc import Sequence
from dataclasses import dataclass

from drivetrain.common.events import Vote
from drivetrain.judge import hints
from drivetrain.judge.sources.base import Case, NoScore, Source
from drivetrain.judge.votes import combine, settled


@dataclass(frozen=True)
class Judgement:
    """What the judge makes of a case. `reward` None means unresolved; `failed` names a source that gave no score."""

    reward: float | None
    votes: tuple[Vote, ...]
    hints: tuple[str, ...]
    decided_by: str | None
    failed: str | None = None


class Chain:
    """The configured sources, strong to weak. All rules are asked, so that a score lists every opinion; a costly
    source is asked only when nothing stronger has settled the reward.

    Raises:
        ValueError: two sources have one name.
    """

    def __init__(self, sources: Sequence[Source]) -> None:
        names = [source.name for source in sources]
        if len(set(names)) < len(names):
            raise ValueError(f"each source needs a name of its own, got {', '.join(names)}")
        self.sources = tuple(sources)

    def looks_back(self, case: Case) -> bool:
        """Whether a source wants the turns of the session around a case."""
        return any(source.looks_back(case) for source in self.sources)

    async def judge(self, case: Case) -> Judgement:
        votes: list[Vote] = []
        candidates: list[str] = []
        failed: str | None = None
        for place, source in enumerate(self.sources):
            if source.costly and settled(votes, self.sources[:place]):
                continue
            try:
                opinion = await source.judge(case)
            except NoScore:
                failed = source.name
                continue
            votes += opinion.votes
            candidates += opinion.hints
        combined = combine(votes, self.sources, silent=failed)
        return Judgement(combined.reward, tuple(votes), _accepted(candidates, case), combined.decided_by, failed)


def _accepted(candidates: Sequence[str], case: Case) -> tuple[str, ...]:
    if not candidates:
        return ()
    leaks = hints.leaks_of(case.observations, (*case.before, case.reply), case.said)
    return tuple(hints.accept(candidates, leaks))
