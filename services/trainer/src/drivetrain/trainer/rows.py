"""Rows: the token sequences that go through the model, each turn of a conversation in them once.

When one sample's prompt begins with another's prompt and response, as in a conversation whose turns are trained
together, both are spans of one row: the shared history is computed once. Rows of like length share a micro-batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Item:
    """A response of `response_ids` to `prompt_ids`, whose log-probabilities are wanted at a temperature."""

    prompt_ids: tuple[int, ...]
    response_ids: tuple[int, ...]
    temperature: float = 1.0


@dataclass(frozen=True)
class Span:
    """Item number `item`: its response tokens are `ids[start : start + length]` of its row."""

    item: int
    start: int
    length: int
    temperature: float


@dataclass(frozen=True)
class Row:
    """Tokens to compute, and the responses among them, in order."""

    ids: tuple[int, ...]
    spans: tuple[Span, ...]


def rows_of(items: Sequence[Item]) -> list[Row]:
    """The fewest rows that hold every item, shortest first."""
    rows: list[Row] = []
    order = sorted(range(len(items)), key=lambda i: len(items[i].prompt_ids) + len(items[i].response_ids))
    for number in order:
        item = items[number]
        span = Span(number, len(item.prompt_ids), len(item.response_ids), item.temperature)
        earlier = _longest_prefix(rows, item.prompt_ids)
        if earlier is not None:
            rows.remove(earlier)
        spans = (*earlier.spans, span) if earlier else (span,)
        rows.append(Row(item.prompt_ids + item.response_ids, spans))
    return rows


def _longest_prefix(rows: Sequence[Row], prompt: tuple[int, ...]) -> Row | None:
    fitting = [row for row in rows if prompt[: len(row.ids)] == row.ids]
    return max(fitting, key=lambda row: len(row.ids), default=None)


def micro_batches(rows: Sequence[Row], max_tokens: int) -> list[list[Row]]:
    """Rows in groups whose padded size stays within `max_tokens`; a longer row is a group of its own."""
    groups: list[list[Row]] = []
    for row in sorted(rows, key=lambda row: len(row.ids)):
        if groups and len(row.ids) * (len(groups[-1]) + 1) <= max_tokens:
            groups[-1].append(row)
        else:
            groups.append([row])
    return groups
