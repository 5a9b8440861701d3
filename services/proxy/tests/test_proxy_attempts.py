"""Of several attempts of one request the one that comes back counts; volatile messages and cuts are understood."""

import pytest

from drivetrain.proxy.conversations.echoes import Where, joined
from tests.proxy_world import SYSTEM, Talk, World, said, user


def parent_of(where: Where) -> str | None:
    return where.link.past.known.turn if where.link else None


async def test_a_volatile_last_message_is_no_part_of_the_next_state() -> None:
    talk = Talk(World())
    first, _ = await talk.say([SYSTEM, user("a"), user("context 1")], said("b"))
    _, where = await talk.say([SYSTEM, user("a"), said("b"), user("c"), user("context 2")], said("d"))
    assert parent_of(where) == first
    assert [state.messages for state in talk.world.states(first)] == [[user("c")]]
    # A retry with another context is the same attempt's, and no second next state.
    _, again = await talk.say([SYSTEM, user("a"), said("b"), user("c"), user("context 3")], said("e"))
    assert len(talk.world.states(first)) == 1
    assert again.asked == where.asked


async def test_two_messages_of_a_user_are_both_next_state_when_none_is_volatile() -> None:
    talk = Talk(World())
    first, _ = await talk.say([SYSTEM, user("a")], said("b"))
    await talk.say([SYSTEM, user("a"), said("b"), user("c"), user("d")], said("e"))
    assert [state.messages for state in talk.world.states(first)] == [[user("c"), user("d")]]


@pytest.mark.parametrize("merged", [True, False], ids=["qwen", "hermes"])
async def test_a_reply_resumed_after_a_cut_is_found_merged_or_as_it_was(*, merged: bool) -> None:
    talk, resume = Talk(World()), user("go on where you were cut")
    cut, _ = await talk.say([SYSTEM, user("a")], said("It is "), "error")
    rest, where = await talk.say([SYSTEM, user("a"), said("It is "), resume], said("Paris."))
    assert parent_of(where) == cut
    assert where.link
    assert where.link.unchanged
    history = [said("It is Paris.")] if merged else [said("It is"), resume, said("Paris.")]
    _, last = await talk.say([SYSTEM, user("a"), *history, user("thanks")], said("d"))
    assert parent_of(last) == rest
    assert last.link
    assert last.link.unchanged != merged
    assert [state.messages for state in talk.world.states(rest)] == [[user("thanks")]]
    assert len({known.session for known in talk.world.memory.turns}) == 1


async def test_a_reply_cut_twice_is_found_merged() -> None:
    talk, resume = Talk(World()), user("go on")
    await talk.say([user("a")], said("one "), "error")
    await talk.say([user("a"), said("one "), resume], said("two "), "aborted")
    rest, _ = await talk.say([user("a"), said("one two "), resume], said("three"))
    _, last = await talk.say([user("a"), said("one two three"), user("b")], said("c"))
    assert parent_of(last) == rest


async def test_joined_halves_keep_their_calls() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "run", "arguments": "{}"}}
    whole = joined(said("a "), {**said("b"), "tool_calls": [call]})
    assert whole == {"role": "assistant", "content": "a b", "tool_calls": [call]}


async def test_the_attempt_that_comes_back_counts_and_the_others_are_superseded() -> None:
    talk = Talk(World(), x_session_id="s")
    attempts = [(await talk.say([user("a")], said(f"try {i}")))[0] for i in range(3)]
    await talk.say([user("a"), said("try 1"), user("b")], said("c"))
    kinds = [[state.kind for state in talk.world.states(turn)] for turn in attempts]
    assert kinds == [["superseded"], ["messages"], ["superseded"]]
    assert not any(state.trainable for turn in (attempts[0], attempts[2]) for state in talk.world.states(turn))


async def test_branches_that_both_go_on_both_get_their_next_state() -> None:
    talk = Talk(World(), x_session_id="s")
    one, two = [(await talk.say([user("a")], said(text)))[0] for text in ("x", "y")]
    _, first = await talk.say([user("a"), said("x"), user("b")], said("c"))
    _, second = await talk.say([user("a"), said("y"), user("b")], said("d"))
    assert (parent_of(first), parent_of(second)) == (one, two)
    for turn in (one, two):
        assert [s.messages for s in talk.world.states(turn) if s.kind == "messages"] == [[user("b")]]


async def test_the_last_attempt_of_a_session_that_is_done_supersedes_the_others() -> None:
    talk = Talk(World(), x_session_id="s", x_session_done="1")
    cut, _ = await talk.say([user("a")], said("It"), "aborted")
    whole, _ = await talk.say([user("a")], said("It is"))
    assert [[state.kind for state in talk.world.states(turn)] for turn in (cut, whole)] == [["superseded"], ["ended"]]


async def test_a_cut_first_request_and_its_retry_are_one_session_and_two_whole_ones_are_not() -> None:
    talk = Talk(World())
    _, cut = await talk.say([user("a")], said("It"), "aborted")
    _, again = await talk.say([user("a")], said("It is"))
    assert again.speaker.session == cut.speaker.session
    await talk.say([user("b")], said("c"))
    _, other = await talk.say([user("b")], said("c"))
    assert other.speaker.session not in {known.session for known in talk.world.memory.turns[:-1]}
    await talk.say([user("d")], said("It"), "aborted")
    talk.world.now += 3600
    _, later = await talk.say([user("d")], said("It"))
    assert later.speaker.session != talk.world.memory.turns[-2].session


async def test_harnesses_that_share_no_history_stay_one_session_by_its_name_alone() -> None:
    steps = [[SYSTEM, user(f"step {i}: so far nothing")] for i in range(3)]
    tagged, untagged = Talk(World(), x_session_id="s"), Talk(World())
    for talk, sessions in ((tagged, 1), (untagged, 3)):
        found = [(await talk.say(messages, said("{}")))[1] for messages in steps]
        assert {(where.link, where.speaker.thread, where.speaker.kind) for where in found} == {(None, "main", "main")}
        assert len({where.speaker.session for where in found}) == sessions
