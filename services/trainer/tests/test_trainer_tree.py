"""Token trees and packs: every response once, shared beginnings once, no pack over its budget but for a long line."""

from itertools import takewhile

from hypothesis import given
from hypothesis import strategies as st

from drivetrain.trainer.tree.packing import lines_of, packs_of
from drivetrain.trainer.tree.tree import Block, Item, Response, tree_of

ITEMS = st.lists(
    st.builds(
        Item,
        st.lists(st.integers(1, 2), min_size=1, max_size=5).map(tuple),
        st.lists(st.integers(1, 2), min_size=1, max_size=4).map(tuple),
    ),
    min_size=1,
    max_size=12,
).map(lambda items: dict(enumerate(items)))


def prefixes(items: dict[int, Item]) -> set[tuple[int, ...]]:
    """Every beginning of every sequence: one token of the tree each."""
    whole = [item.prompt_ids + item.response_ids for item in items.values()]
    return {ids[: n + 1] for ids in whole for n in range(len(ids))}


def test_two_turns_of_a_conversation_are_one_block() -> None:
    tree = tree_of({0: Item((1, 2), (3, 4)), 1: Item((1, 2, 3, 4, 5), (6,), temperature=0.7)})
    assert tree.ids.tolist() == [1, 2, 3, 4, 5, 6]
    assert tree.blocks == (Block(0, 6, ()),)
    assert [(r.item, r.at.tolist(), r.targets, r.temperature) for r in tree.responses] == [
        (0, [1, 2], (3, 4), 1.0),
        (1, [4], (6,), 0.7),
    ]


def test_a_second_reply_branches_off_after_the_shared_prompt() -> None:
    tree = tree_of({7: Item((1, 2), (3, 4)), 8: Item((1, 2), (9,)), 9: Item((1, 2, 3, 4), (5,))})
    assert tree.ids.tolist() == [1, 2, 3, 4, 5, 9]
    assert tree.depths.tolist() == [0, 1, 2, 3, 4, 2]
    assert tree.ends.tolist() == [6, 6, 5, 5, 5, 6]
    assert tree.blocks == (Block(0, 5, ()), Block(5, 6, ((0, 2),)))


def test_the_same_reply_twice_is_computed_once_and_counts_twice() -> None:
    tree = tree_of({0: Item((1,), (2, 3)), 1: Item((1,), (2, 3))})
    assert tree.ids.tolist() == [1, 2, 3]
    assert [r.at.tolist() for r in tree.responses] == [[0, 1], [0, 1]]


def path_to(tree_ends: list[int], place: int) -> list[int]:
    """A token's ancestors and itself, by walking back over those whose subtree it lies in."""
    return [k for k in range(place + 1) if tree_ends[k] > place]


@given(ITEMS)
def test_a_tree_holds_every_beginning_once_and_every_response_where_it_follows(items: dict[int, Item]) -> None:
    tree = tree_of(items)
    ids, ends = tree.ids.tolist(), tree.ends.tolist()
    assert len(tree) == len(prefixes(items))
    for place, depth in enumerate(tree.depths.tolist()):
        assert len(path_to(ends, place)) == depth + 1
    assert sorted(r.item for r in tree.responses) == sorted(items)
    for response in tree.responses:
        check_response(response, items[response.item], ids, ends)


def check_response(response: Response, item: Item, ids: list[int], ends: list[int]) -> None:
    assert response.targets == item.response_ids
    whole = item.prompt_ids + item.response_ids
    for offset, place in enumerate(response.at.tolist()):
        assert tuple(ids[k] for k in path_to(ends, place)) == whole[: len(item.prompt_ids) + offset]


@given(ITEMS)
def test_blocks_cover_the_tree_and_know_their_history(items: dict[int, Item]) -> None:
    tree = tree_of(items)
    assert [place for block in tree.blocks for place in range(block.start, block.end)] == list(range(len(tree)))
    for block in tree.blocks:
        history = [place for start, end in block.prefix for place in range(start, end)]
        for place in range(block.start, block.end):
            assert path_to(tree.ends.tolist(), place) == [*history, *range(block.start, place + 1)]


def test_a_padded_tree_asks_the_same_of_the_same_tokens() -> None:
    tree = tree_of({0: Item((1, 2), (3,)), 1: Item((1, 5), (6,))})
    padded = tree.padded(3)
    assert len(padded) == len(tree) + 3
    assert padded.responses == tree.responses
    assert path_to(padded.ends.tolist(), 7) == [5, 6, 7]
    assert path_to(padded.ends.tolist(), 4) == path_to(tree.ends.tolist(), 4)


@given(ITEMS, st.integers(1, 30))
def test_packs_hold_every_item_once_within_the_budget(items: dict[int, Item], budget: int) -> None:
    packs = packs_of(items, budget)
    assert sorted(number for pack in packs for number in pack) == sorted(items)
    for pack in packs:
        assert all(items[number] is item for number, item in pack.items())
        assert len(tree_of(pack)) <= budget or len(lines_of(pack)) == 1


@given(ITEMS, st.integers(1, 30), st.randoms(use_true_random=False))
def test_packs_do_not_depend_on_the_order_of_items_that_differ(
    items: dict[int, Item], budget: int, random: object
) -> None:
    shuffled = list(items)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert packs_of({number: items[number] for number in shuffled}, budget) == packs_of(items, budget)


@given(ITEMS)
def test_without_branches_every_pack_is_one_line(items: dict[int, Item]) -> None:
    packs = packs_of(items, budget=1000, branches=False)
    assert sorted(number for pack in packs for number in pack) == sorted(items)
    for pack in packs:
        assert len(tree_of(pack).blocks) == 1


def test_the_largest_go_first_into_the_first_pack_with_room() -> None:
    lengths = {0: 4, 1: 7, 2: 3, 3: 6}
    items = {n: Item((n + 1,) * (length - 1), (9,)) for n, length in lengths.items()}
    # 7 + 3 and 6 + 4
    assert [sorted(pack) for pack in packs_of(items, budget=10)] == [[1, 2], [0, 3]]


def test_a_tree_above_the_budget_is_cut_between_its_lines() -> None:
    root = (1, 2, 3, 4)
    items = {n: Item(root, (10 + n, 20)) for n in range(4)}
    # the root and two replies of two tokens make 8
    packs = packs_of(items, budget=8)
    assert [sorted(pack) for pack in packs] == [[0, 1], [2, 3]]
    assert [len(tree_of(pack)) for pack in packs] == [8, 8]


def test_a_line_above_the_budget_stays_whole() -> None:
    long = {0: Item((1, 2, 3), (4, 5)), 1: Item((1, 2, 3, 4, 5, 6), (7,))}
    assert [list(pack) for pack in packs_of(long, budget=2)] == [[0, 1]]
    assert list(takewhile(bool, packs_of({}, budget=2))) == []
