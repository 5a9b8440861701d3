"""Token trees: sequences that begin alike share their beginning, so that each token is computed once.

A conversation's turns make a tree: the next turn's prompt begins with the last one's prompt and response, an edited
history or a second attempt branches off. So do the rollouts of one task, and a turn with its hinted prompt.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True)
class Item:
    """A response of `response_ids` to `prompt_ids`, whose log-probabilities are wanted at a temperature."""

    prompt_ids: tuple[int, ...]
    response_ids: tuple[int, ...]
    temperature: float = 1.0

    @cached_property
    def ids(self) -> Ints:
        """Prompt and response, shape (T,)."""
        return np.array((*self.prompt_ids, *self.response_ids), dtype=np.int64)


@dataclass(frozen=True)
class Block:
    """Tokens `[start, end)` of a tree, each the next of the one before. The history of its first token are the tokens
    in `prefix`, half-open ranges in order of depth; empty at a root."""

    start: int
    end: int
    prefix: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Response:
    """Where the tree predicts item number `item`: the outputs at `at`, shape (T,), are asked for `targets`."""

    item: int
    at: Ints
    targets: tuple[int, ...]
    temperature: float


@dataclass(frozen=True, eq=False)
class Tree:
    """Token ids in preorder, with their depth and the end of their subtree, all of shape (L,): token k is seen by the
    tokens from k to before `ends[k]`, which are itself and its descendants."""

    ids: Ints
    depths: Ints
    ends: Ints
    blocks: tuple[Block, ...]
    responses: tuple[Response, ...]

    def __len__(self) -> int:
        return len(self.ids)

    def padded(self, count: int) -> "Tree":
        """The tree with so many tokens more, a root and what follows it, that nothing else sees and nobody asks."""
        length, more = len(self), np.arange(count)
        return Tree(
            np.concatenate([self.ids, 0 * more]),
            np.concatenate([self.depths, more]),
            np.concatenate([self.ends, 0 * more + length + count]),
            (*self.blocks, Block(length, length + count, ())),
            self.responses,
        )


def shared(first: Ints, second: Ints) -> int:
    """How many tokens two sequences have in common at their beginning."""
    length = min(len(first), len(second))
    differing = np.flatnonzero(first[:length] != second[:length])
    return int(differing[0]) if len(differing) else length


def in_order(items: Mapping[int, Item]) -> list[int]:
    """Item numbers so that those that share most stand together, a beginning before what goes on from it."""
    return sorted(items, key=lambda number: (items[number].ids.tolist(), number))


def tree_of(items: Mapping[int, Item]) -> Tree:
    """The tree (of several roots, if need be) that holds every item, by its number."""
    ids: list[Ints] = []
    depths: list[Ints] = []
    closed: list[tuple[Ints, int]] = []
    blocks: list[Block] = []
    responses: list[Response] = []
    path, before, length = np.empty(0, np.int64), np.empty(0, np.int64), 0
    for number in in_order(items):
        item = items[number]
        common = shared(before, item.ids)
        closed.append((path[common:], length))
        blocks = _grown(blocks, path, common, length, len(item.ids) - common)
        ids.append(item.ids[common:])
        depths.append(np.arange(common, len(item.ids)))
        path = np.concatenate([path[:common], np.arange(length, length + len(item.ids) - common)])
        first = len(item.prompt_ids)
        responses.append(Response(number, path[first - 1 : len(path) - 1], item.response_ids, item.temperature))
        before, length = item.ids, length + len(item.ids) - common
    ends = np.full(length, length)
    for positions, end in reversed(closed):
        ends[positions] = end
    return Tree(np.concatenate(ids), np.concatenate(depths), ends, tuple(blocks), tuple(responses))


def _grown(blocks: list[Block], path: Ints, common: int, start: int, count: int) -> list[Block]:
    """The blocks with `count` more tokens after the first `common` of `path`; they go on from the last block if they
    come right after its end."""
    if count == 0:
        return blocks
    if blocks and common == len(path) and path[-1] == start - 1:
        last = blocks[-1]
        return [*blocks[:-1], Block(last.start, start + count, last.prefix)]
    return [*blocks, Block(start, start + count, _ranges(path[:common]))]


def _ranges(positions: Ints) -> tuple[tuple[int, int], ...]:
    """Ascending positions as half-open ranges."""
    if not len(positions):
        return ()
    runs = np.split(positions, np.flatnonzero(np.diff(positions) != 1) + 1)
    return tuple((int(run[0]), int(run[-1]) + 1) for run in runs)
