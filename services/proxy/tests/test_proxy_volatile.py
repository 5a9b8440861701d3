"""OpenClaw ends each request with a message that the next one does not have, and after a failure it says things anew:
still one sequence of tokens, and one next state a turn."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from drivetrain.common.events import Message
from drivetrain.common.tokens import unpack_ids
from drivetrain.proxy.conversations.echoes import Link, continued
from tests.proxy_world import Talk, World, known, past_of, said, user

Encode = Callable[[str], list[int]]
QUESTION, THANKS, BYE = user("The capital of France?"), user("Thanks"), user("Bye")


def context(number: int) -> Message:
    return user(f"internal context {number}")


async def chat(proxy: Any, messages: list[Message], **more: Any) -> httpx.Response:
    body = {"model": "default", "messages": messages, "max_tokens": 50, **more}
    async with httpx.AsyncClient() as http:
        return await http.post(f"{proxy.url}/v1/chat/completions", json=body, timeout=20)


def tokens_of(turns: list[Any]) -> list[int]:
    return [token for turn in turns for token in unpack_ids(turn.prompt_ids) + unpack_ids(turn.response_ids)]


async def test_a_conversation_with_a_volatile_tail_is_one_sequence_of_tokens_on_any_replica(
    start_proxy: Any, engine: Any, encode: Encode
) -> None:
    replies = [engine.say(encode(text)) for text in ("Paris.", "Gladly.", "Bye.")]
    async with start_proxy([engine.url]) as one, start_proxy([engine.url], name="two", bus=one.bus) as two:
        history = [QUESTION]
        for number, (proxy, text, after) in enumerate(
            [(one, "Paris.", THANKS), (two, "Gladly.", BYE), (one, "Bye.", None)]
        ):
            assert (await chat(proxy, [*history, context(number)])).status_code == 200
            history += [said(text), after] if after else []
        await two.events()
        turns = sorted(await one.recorded(), key=lambda turn: turn.started_at)
        states = await one.followed()
    first, second, third = turns
    assert (second.parent, third.parent) == (first.turn, second.turn)
    assert {(turn.drift, turn.drift_cause) for turn in (second, third)} == {("realigned", "volatile_kept")}
    assert [turn.messages for turn in turns] == [[QUESTION, context(0)], [THANKS, context(1)], [BYE, context(2)]]
    assert [(state.turn, state.messages) for state in states] == [(first.turn, [THANKS]), (second.turn, [BYE])]
    prompts = [request["token_ids"] for request in engine.requests]
    assert tokens_of(turns) == prompts[2] + replies[2]
    assert prompts[1][: len(prompts[0] + replies[0])] == prompts[0] + replies[0]


async def test_what_the_model_saw_is_dropped_where_it_would_not_fit(
    start_proxy: Any, engine: Any, encode: Encode
) -> None:
    engine.say_always(encode("Paris."))
    long = user("internal context " * 14)
    async with start_proxy([engine.url]) as roomy:
        assert (await chat(roomy, [QUESTION, long])).status_code == 200
        (one,) = await roomy.recorded()
        tokens = len(unpack_ids(one.prompt_ids))
        async with start_proxy([engine.url], name="two", bus=roomy.bus, context_tokens=2 * tokens) as proxy:
            assert (await chat(proxy, [QUESTION, said("Paris."), THANKS, long])).status_code == 200
            _, two = await proxy.recorded()
    assert (two.parent, two.session, two.drift, two.drift_cause) == (None, one.session, "forked", "history_edited")
    assert two.messages == [QUESTION, said("Paris."), THANKS, long]
    assert len(engine.requests[1]["token_ids"]) < 2 * tokens


async def test_a_request_that_nobody_answered_says_nothing_and_its_retry_in_other_words_does(
    proxy: Any, engine: Any, encode: Encode
) -> None:
    engine.say(encode("Paris."))
    await chat(proxy, [QUESTION, context(0)])
    engine.say([1], status=500)
    assert (await chat(proxy, [QUESTION, said("Paris."), THANKS, context(1)])).status_code == 503
    engine.say(encode("Gladly."))
    again = user("Thanks (this is sent once more, for something failed)")
    await chat(proxy, [QUESTION, said("Paris."), again, context(2)])
    one, two = await proxy.recorded()
    assert two.parent == one.turn
    assert [(state.turn, state.messages) for state in await proxy.followed()] == [(one.turn, [again])]


async def test_a_request_that_was_cut_and_comes_again_in_other_words_is_one_next_state_and_one_turn(
    proxy: Any, engine: Any, encode: Encode
) -> None:
    engine.say(encode("Paris."))
    await chat(proxy, [QUESTION, context(0)])
    engine.say(encode("Gladly, whenever."), die_after=3)
    await chat(proxy, [QUESTION, said("Paris."), THANKS, context(1)], stream=True)
    engine.say(encode("Gladly."))
    again = user("Thanks (this is sent once more, for something failed)")
    await chat(proxy, [QUESTION, said("Paris."), again, context(2)])
    engine.say(encode("Bye."))
    await chat(proxy, [QUESTION, said("Paris."), again, said("Gladly."), BYE, context(3)])
    one, cut, whole, last = await proxy.recorded()
    assert (cut.finish, cut.parent, whole.parent, last.parent) == ("error", one.turn, one.turn, whole.turn)
    states = sorted((state.turn, state.kind, str(state.messages)) for state in await proxy.followed())
    assert states == sorted(
        [
            (one.turn, "messages", str([THANKS])),
            (cut.turn, "superseded", "[]"),
            (whole.turn, "messages", str([BYE])),
        ]
    )


async def test_cut_again_and_again_in_other_words_it_stays_one_request() -> None:
    talk = Talk(World())
    first, _ = await talk.say([user("a")], said("b"))
    cut = [(await talk.say([user("a"), said("b"), user("c" * n)], said("d"), "aborted"))[0] for n in (1, 2, 3)]
    whole, _ = await talk.say([user("a"), said("b"), user("cccc")], said("e"))
    await talk.say([user("a"), said("b"), user("cccc"), said("e"), user("f")], said("g"))
    assert [state.messages for state in talk.world.states(first)] == [[user("c")]]
    assert [[state.kind for state in talk.world.states(turn)] for turn in cut] == [["superseded"]] * 3
    assert [state.messages for state in talk.world.states(whole)] == [[user("f")]]


async def test_a_message_that_is_edited_after_its_retry_was_answered_is_a_branch_of_its_own() -> None:
    talk = Talk(World())
    first, _ = await talk.say([user("a")], said("b"))
    await talk.say([user("a"), said("b"), user("c")], said("d"), "aborted")
    whole, _ = await talk.say([user("a"), said("b"), user("c")], said("e"))
    await talk.say([user("a"), said("b"), user("another")], said("f"))
    await talk.say([user("a"), said("b"), user("another"), said("f"), user("g")], said("h"))
    assert [state.messages for state in talk.world.states(first)] == [[user("c")], [user("another")]]
    assert talk.world.states(whole) == []


async def test_a_request_long_after_a_cut_one_is_another() -> None:
    talk = Talk(World())
    first, _ = await talk.say([user("a")], said("b"))
    await talk.say([user("a"), said("b"), user("c")], said("d"), "aborted")
    talk.world.now += 3600
    await talk.say([user("a"), said("b"), user("another")], said("f"))
    assert [state.messages for state in talk.world.states(first)] == [[user("c")], [user("another")]]


IMAGE = [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]


@pytest.mark.parametrize(
    ("content", "keeps"), [("words", True), ([{"type": "text", "text": "w"}], True), (IMAGE, False)]
)
def test_only_words_are_kept_for_the_model(content: Any, keeps: bool) -> None:
    seen = [user("a"), {"role": "user", "content": content}, said("b")]
    link = Link(past_of(known(messages=seen[:2], depth=3), seen), depth=2)
    sent = [user("a"), said("b"), user("c")]
    messages, past = continued(sent, link, keep=True)
    assert messages == ([*seen, user("c")] if keeps else sent)
    assert (past is not None) == keeps
    assert continued(sent, link, keep=False) == (sent, None)
