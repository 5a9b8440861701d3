"""How the scores of two judges over the same turns differ. Pure.

A turn is compared by its newest revision of the old judge, and the same revision of the new one: both knew the same.
"""

import random
from collections.abc import Iterable

import msgspec

from drivetrain.judge.evaluation.figures import Estimate, kappa, resampled, share
from drivetrain.judge.evaluation.report import NAMES, VERDICTS
from drivetrain.judge.rerun.stored import Scores, Turn

MOST_CHANGES = 10


class Change(msgspec.Struct, frozen=True):
    """A turn that the two rewarded differently, in its revision `n`."""

    session: str
    turn: str
    n: int
    old: float
    new: float


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """`turns` were looked at. covered_*: those with a reward. agreement and kappa: over turns that both rewarded, by
    the reward's sign. confusion: by the old judge's verdict, then by the new one's. changes: the largest first."""

    against: str
    turns: int
    covered_old: Estimate
    covered_new: Estimate
    agreement: Estimate
    kappa: Estimate
    confusion: dict[str, dict[str, int]]
    changed: int
    changes: list[Change]


class _Pair(msgspec.Struct, frozen=True):
    turn: Turn
    n: int
    old: float | None
    new: float | None

    @property
    def signs(self) -> tuple[int | None, int | None]:
        return _sign(self.old), _sign(self.new)


def difference(against: str, turns: Iterable[Turn], old: Scores, new: Scores, seed: int) -> Difference:
    """The difference over some turns; `seed` draws the samples of kappa's interval."""
    pairs = [_pair(turn, old, new) for turn in sorted(turns)]
    both = [pair for pair in pairs if None not in pair.signs]
    changes = sorted((c for pair in both if (c := _change(pair))), key=lambda c: (-abs(c.new - c.old), c.turn))
    return Difference(
        against=against,
        turns=len(pairs),
        covered_old=share([pair.old is not None for pair in pairs]),
        covered_new=share([pair.new is not None for pair in pairs]),
        agreement=share([pair.signs[0] == pair.signs[1] for pair in both]),
        kappa=resampled([pair.signs for pair in both], kappa, random.Random(seed)),
        confusion={
            NAMES[row]: {NAMES[column]: sum(pair.signs == (row, column) for pair in pairs) for column in VERDICTS}
            for row in VERDICTS
        },
        changed=len(changes),
        changes=changes[:MOST_CHANGES],
    )


def _pair(turn: Turn, old: Scores, new: Scores) -> _Pair:
    """The newest revision of the old judge decides; of a turn that it never scored, that of the new one."""
    n = next(old.revisions(turn), next(new.revisions(turn), 0))
    return _Pair(turn, n, old.rewards.get(turn, {}).get(n), new.rewards.get(turn, {}).get(n))


def _change(pair: _Pair) -> Change | None:
    if pair.old is None or pair.new is None or pair.old == pair.new:
        return None
    return Change(*pair.turn, pair.n, pair.old, pair.new)


def _sign(reward: float | None) -> int | None:
    return None if reward is None else (reward > 0) - (reward < 0)
