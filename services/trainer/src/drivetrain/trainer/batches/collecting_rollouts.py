"""From rollouts' scores to units: a rollout by itself, or the rollouts of one task together."""

from collections.abc import Sequence

from drivetrain.common.events import Event, RolloutScored
from drivetrain.trainer.batches.batches import Drop, Unit
from drivetrain.trainer.batches.collecting import Foreign
from drivetrain.trainer.batches.rollouts import Comparison, Groups, Member, outcome_of
from drivetrain.trainer.samples.samples import Reason, Unusable
from drivetrain.trainer.samples.scores import Scores


class Rollouts:
    """Collects rollouts by what the method compares. `failed` is the outcome of a rollout that failed without one."""

    def __init__(self, scores: Scores, comparison: Comparison, max_wait_s: float, failed: float) -> None:
        self._scores = scores
        self._comparison = comparison
        self._failed = failed
        self._groups = Groups(max_wait_s)
        self._drops: list[Drop] = []

    def key(self, event: Event) -> tuple[str, str]:
        if not isinstance(event, RolloutScored):
            raise Foreign(f"the trainer reads rollout.scored events, not {type(event).__name__}")
        ref = event.rollout
        alone = self._comparison.method.unit == "rollout"
        return "/".join(("group", ref.run, ref.group, *([ref.rollout] if alone else []))), event.judge

    async def take_in(self, event: Event, sequence: int, now: float) -> None:
        key, member = self.key(event)[0], await self._member(event, sequence)
        assert isinstance(event, RolloutScored)
        size = 1 if self._comparison.method.unit == "rollout" else event.rollout.group_size
        for replaced in self._groups.add(key, size, member, now):
            self._drops.append(Drop(Unit(key, (), (replaced,)), Reason.SUPERSEDED))

    def ready(self, now: float) -> tuple[list[Unit], list[Drop]]:
        made = [self._comparison.unit(key, members) for key, members in self._groups.ready(now).items()]
        drops, self._drops = [*self._drops, *(one for one in made if isinstance(one, Drop))], []
        return [one for one in made if isinstance(one, Unit)], drops

    def due_in(self, now: float) -> float | None:
        return self._groups.due_in(now)

    async def rebuild(self, events: Sequence[tuple[Event, int]]) -> Unit:
        members = [await self._member(event, sequence) for event, sequence in events]
        made = self._comparison.unit(self.key(events[0][0])[0], members)
        if isinstance(made, Drop):
            raise Unusable(made.reason)
        return made

    async def _member(self, event: Event, sequence: int) -> Member:
        assert isinstance(event, RolloutScored)
        samples, votes = await self._scores.rollout(event, sequence)
        outcome = outcome_of(event, self._failed)
        return Member(event.rollout.rollout, sequence, event.n, outcome, tuple(samples), tuple(votes))
