"""Packing: which items go through the model together, as one tree of a bounded number of tokens.

The unit is a line, a path from root to leaf with all the turns on it: lines are never cut, so a line longer than the
budget is a pack of its own. Lines stand in the order of their tokens, where neighbours share most; what they share with
a line in another pack is computed again there. Each item is in one pack, so its loss counts once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from drivetrain.trainer.tree.tree import Item, in_order, shared


@dataclass(frozen=True)
class Part:
    """Items that share their beginnings, and the tokens of their tree."""

    items: tuple[int, ...]
    tokens: int


def packs_of(items: Mapping[int, Item], budget: int, branches: bool = True) -> list[dict[int, Item]]:
    """The items in packs of at most `budget` tokens, or of one line. Without `branches` every line is a pack: for
    models that only read lines. The same items give the same packs, whatever their order."""
    parts = lines_of(items)
    if branches:
        parts = first_fit(subtrees(items, parts, budget), budget)
    return [{number: items[number] for number in part.items} for part in parts]


def lines_of(items: Mapping[int, Item]) -> list[Part]:
    """The paths from root to leaf, each with the items that end on it and on no earlier one."""
    lines: list[Part] = []
    on_line: list[int] = []
    order = in_order(items)
    for place, number in enumerate(order):
        following = order[place + 1] if place + 1 < len(order) else None
        on_line.append(number)
        length = len(items[number].ids)
        if following is None or shared(items[number].ids, items[following].ids) < length:
            lines.append(Part(tuple(on_line), length))
            on_line = []
    return lines


def subtrees(items: Mapping[int, Item], lines: Sequence[Part], budget: int) -> list[Part]:
    """Neighbouring lines joined as long as their tree stays within the budget."""
    joined: list[Part] = []
    for line in lines:
        last = joined[-1] if joined else Part((), 0)
        common = shared(items[last.items[-1]].ids, items[line.items[-1]].ids) if last.items else 0
        tokens = last.tokens + line.tokens - common
        if common and tokens <= budget:
            joined[-1] = Part((*last.items, *line.items), tokens)
        else:
            joined.append(line)
    return joined


def first_fit(parts: Sequence[Part], budget: int) -> list[Part]:
    """Parts put together within the budget, largest first, each into the first that has room."""
    bins: list[Part] = []
    for part in sorted(parts, key=lambda part: -part.tokens):
        room = next((n for n, found in enumerate(bins) if found.tokens + part.tokens <= budget), None)
        if room is None:
            bins.append(part)
        else:
            bins[room] = Part((*bins[room].items, *part.items), bins[room].tokens + part.tokens)
    return bins
