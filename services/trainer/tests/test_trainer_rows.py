"""Packing: every response once, shared history once, no micro-batch over its budget."""

from hypothesis import given
from hypothesis import strategies as st

from drivetrain.trainer.rows import Item, Row, Span, micro_batches, rows_of


def test_turns_of_one_conversation_share_a_row() -> None:
    first = Item((1, 2), (3, 4))
    second = Item((1, 2, 3, 4, 5), (6,), temperature=0.7)
    assert rows_of([second, first]) == [Row((1, 2, 3, 4, 5, 6), (Span(1, 2, 2, 1.0), Span(0, 5, 1, 0.7)))]


def test_a_retried_reply_starts_a_row_of_its_own() -> None:
    rows = rows_of([Item((1, 2), (3,)), Item((1, 2), (4,))])
    assert sorted(row.ids for row in rows) == [(1, 2, 3), (1, 2, 4)]


def test_two_branches_of_one_history_keep_their_responses() -> None:
    root, left, right = Item((1,), (2,)), Item((1, 2, 3), (4,)), Item((1, 2, 5), (6,))
    rows = rows_of([root, left, right])
    assert sum(len(row.spans) for row in rows) == 3
    assert {row.ids for row in rows} == {(1, 2, 3, 4), (1, 2, 5, 6)}


items = st.lists(
    st.builds(
        Item,
        st.lists(st.integers(1, 2), min_size=1, max_size=4).map(tuple),
        st.lists(st.integers(1, 2), min_size=1, max_size=3).map(tuple),
    ),
    max_size=12,
)


@given(items)
def test_each_item_is_a_span_of_exactly_one_row(wanted: list[Item]) -> None:
    found = {}
    for row in rows_of(wanted):
        for span in row.spans:
            assert span.item not in found
            found[span.item] = Item(row.ids[: span.start], row.ids[span.start : span.start + span.length])
    assert found == dict(enumerate(wanted))


@given(items, st.integers(1, 40))
def test_micro_batches_hold_every_row_within_the_budget(wanted: list[Item], budget: int) -> None:
    rows = rows_of(wanted)
    groups = micro_batches(rows, budget)
    assert sorted(row.ids for group in groups for row in group) == sorted(row.ids for row in rows)
    for group in groups:
        assert len(group) == 1 or len(group) * max(len(row.ids) for row in group) <= budget
