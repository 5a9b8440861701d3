"""Conversations of random tokens whose history grows, as the trainer gets them: one item a turn."""

import random
from dataclasses import dataclass

from drivetrain.trainer.tree.tree import Item


@dataclass(frozen=True)
class Shape:
    """`sessions` conversations of `turns` turns: `system` tokens before the first, then `asked` tokens and a reply of
    `replied` tokens each."""

    sessions: int
    turns: int
    system: int = 200
    asked: int = 60
    replied: int = 40

    @property
    def trained(self) -> int:
        """Response tokens, the ones that a step learns from."""
        return self.sessions * self.turns * self.replied


def items(shape: Shape, vocabulary: int, seed: int = 0) -> dict[int, Item]:
    """Every turn with its whole prompt. Sessions share their system prompt."""
    chance = random.Random(seed)
    system = _words(chance, vocabulary, shape.system)
    made: dict[int, Item] = {}
    for _ in range(shape.sessions):
        history = system
        for _ in range(shape.turns):
            prompt = history + _words(chance, vocabulary, shape.asked)
            reply = _words(chance, vocabulary, shape.replied)
            made[len(made)] = Item(prompt, reply)
            history = prompt + reply
    return made


def _words(chance: random.Random, vocabulary: int, count: int) -> tuple[int, ...]:
    return tuple(chance.randrange(vocabulary) for _ in range(count))
