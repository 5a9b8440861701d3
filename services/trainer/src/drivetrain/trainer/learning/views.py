"""What others than the policy in training say of a batch: the teacher who had read the hints, and the reference.

Nothing here carries a gradient.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

import torch
from torch import Tensor

from drivetrain.trainer.advantages.hybrid import closest_hint
from drivetrain.trainer.model.scoring import Opinion, Scorer, Wanted
from drivetrain.trainer.samples.samples import Sample
from drivetrain.trainer.tree.packing import packs_of
from drivetrain.trainer.tree.tree import Item, tree_of


class Policy(Protocol):
    """The model in training, and the frozen reference that anchors it."""

    @property
    def scorer(self) -> Scorer: ...
    @property
    def parameters(self) -> Sequence[Tensor]: ...

    def reference(self) -> AbstractContextManager[Scorer]:
        """The reference's scorer, to be called without gradients inside the context."""


class Views:
    """Scores batches, at most `budget` tokens at once; `go_on` is called before each pack and may raise."""

    def __init__(self, policy: Policy, budget: int, base_teacher: bool, go_on: Callable[[], None]) -> None:
        self._policy = policy
        self._budget = budget
        self._base_teacher = base_teacher
        self._go_on = go_on

    def teacher(self, batch: Sequence[Sample]) -> dict[int, Opinion]:
        """Of every hinted turn: the response under the teacher."""
        with self._teaching() as scorer:
            return self._score(scorer, hinted(batch))

    def teachers_favourites(self, batch: Sequence[Sample], top: int) -> dict[int, Opinion]:
        """The same, with the teacher's `top` likeliest tokens at each position as candidates."""
        with self._teaching() as scorer:
            return self._score(scorer, hinted(batch), Wanted(top=top))

    def on_favourites(self, batch: Sequence[Sample], top: int) -> dict[int, Opinion]:
        """The same, with the policy's own `top` likeliest tokens as candidates; of several hints the one whose teacher
        shares most of them is used."""
        own = {number: item_of(batch[number]) for number in hinted(batch)}
        favourites = {n: found.ids for n, found in self._score(self._policy.scorer, own, Wanted(top=top)).items()}
        with self._teaching() as scorer:
            chosen = self._closest(scorer, batch, favourites, top)
            return self._score(scorer, chosen, Wanted(candidates=favourites))

    def _closest(
        self, scorer: Scorer, batch: Sequence[Sample], favourites: Mapping[int, Tensor], top: int
    ) -> dict[int, Item]:
        """The item of each hinted turn's best hint; only turns with several are compared."""
        choices = {n: [batch[n].teacher_ids, *batch[n].other_teachers] for n in favourites}
        asked = {
            (number, place): Item(ids or (), batch[number].response_ids, batch[number].temperature)
            for number, hints in choices.items()
            for place, ids in enumerate(hints)
        }
        keys = [key for key in asked if len(choices[key[0]]) > 1]
        found = self._score(scorer, {n: asked[key] for n, key in enumerate(keys)}, Wanted(top=top))
        ranked: dict[int, list[Tensor]] = {}
        for place, (number, _) in enumerate(keys):
            ranked.setdefault(number, []).append(found[place].ids)
        return {n: asked[n, closest_hint(favourites[n], ranked[n]) if n in ranked else 0] for n in choices}

    def reference(self, batch: Sequence[Sample]) -> dict[int, Tensor]:
        """Every response under the reference."""
        with self._policy.reference() as scorer:
            return _responses(self._score(scorer, items_of(batch)))

    def old(self, batch: Sequence[Sample]) -> dict[int, Tensor]:
        """Every response under the policy as it is now."""
        return _responses(self._score(self._policy.scorer, items_of(batch)))

    def _teaching(self) -> AbstractContextManager[Scorer]:
        return self._policy.reference() if self._base_teacher else nullcontext(self._policy.scorer)

    @torch.no_grad()
    def _score(self, scorer: Scorer, items: Mapping[int, Item], wanted: Wanted = Wanted()) -> dict[int, Opinion]:  # noqa: B008 - frozen
        found: dict[int, Opinion] = {}
        for pack in packs_of(items, self._budget, scorer.branches):
            self._go_on()
            found |= scorer(tree_of(pack), wanted).items
        return found


def item_of(sample: Sample) -> Item:
    """The turn as the policy saw it."""
    return Item(sample.prompt_ids, sample.response_ids, sample.temperature)


def items_of(batch: Sequence[Sample]) -> dict[int, Item]:
    """Every turn of a batch, by its place."""
    return {number: item_of(sample) for number, sample in enumerate(batch)}


def hinted(batch: Sequence[Sample]) -> dict[int, Item]:
    """Every hinted turn as the teacher sees it, with its first hint."""
    return {
        number: Item(sample.teacher_ids, sample.response_ids, sample.temperature)
        for number, sample in enumerate(batch)
        if sample.teacher_ids is not None
    }


def _responses(opinions: Mapping[int, Opinion]) -> dict[int, Tensor]:
    return {number: opinion.logprobs for number, opinion in opinions.items()}
