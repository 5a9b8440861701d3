"""Who is speaking, and which conversation goes on: over keys, paths, headers, lineage, replicas and without Redis."""

import asyncio
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from drivetrain.common.events import RolloutRef, Signal
from drivetrain.common.identity import RolloutKey, rollout_session, session_id, sign_rollout_key
from drivetrain.common.telemetry.admin import listen
from drivetrain.common.tokens import unpack_ids

SECRET = b"a secret of the tests"
Encode = Callable[[str], list[int]]
QUESTION = {"role": "user", "content": "The capital of France?"}
REPLY = {"role": "assistant", "content": "Paris."}
THANKS = {"role": "user", "content": "Thanks"}


async def chat(proxy: Any, messages: list[Any], path: str = "", status: int = 200, **headers: str) -> Any:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    body = {"model": "default", "messages": messages, "max_tokens": 50, "temperature": 0.5}
    async with httpx.AsyncClient() as http:
        answer = await http.post(f"{proxy.url}{path}/v1/chat/completions", json=body, headers=sent, timeout=20)
    assert answer.status_code == status, answer.text
    return answer.json()


async def give(proxy: Any, body: dict[str, Any], path: str = "", **headers: str) -> httpx.Response:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    async with httpx.AsyncClient() as http:
        return await http.post(f"{proxy.url}{path}/v1/feedback", json=body, headers=sent)


def rollout_key(policy: str = "default", expires_at: float = 2e10, secret: bytes = SECRET) -> str:
    rollout = RolloutRef(run="run", group="group", rollout="rollout", group_size=2)
    return sign_rollout_key(secret, RolloutKey(rollout=rollout, policy=policy, expires_at=expires_at))


@pytest.fixture(autouse=True)
def replies(engine: Any, encode: Encode) -> None:
    """The engine says "Paris." to everything, six times."""
    for _ in range(6):
        engine.say(encode("Paris."))


async def test_a_session_in_the_path_or_a_header_is_the_same_session(proxy: Any) -> None:
    await chat(proxy, [QUESTION], path="/s/anna")
    await chat(proxy, [{"role": "user", "content": "Another subject"}], X_Session_Id="anna")
    expected = session_id(SECRET, "local", "default", "anna")
    assert {turn.session for turn in await proxy.recorded()} == {expected}


async def test_the_path_comes_before_the_header(proxy: Any) -> None:
    await chat(proxy, [QUESTION], path="/s/anna", X_Session_Id="ben")
    assert [turn.session for turn in await proxy.recorded()] == [session_id(SECRET, "local", "default", "anna")]


async def test_without_a_name_the_history_tells(proxy: Any) -> None:
    await chat(proxy, [QUESTION])
    await chat(proxy, [QUESTION, {**REPLY, "content": " Paris.\n"}, THANKS])
    await chat(proxy, [{"role": "user", "content": "Something else"}])
    one, two, three = await proxy.recorded()
    assert (two.session, two.parent) == (one.session, one.turn)
    assert three.session != one.session


async def test_two_sessions_with_the_same_words_stay_apart(proxy: Any) -> None:
    await chat(proxy, [QUESTION], path="/s/anna")
    await chat(proxy, [QUESTION, REPLY, THANKS], path="/s/ben")
    await chat(proxy, [QUESTION, REPLY, THANKS])
    one, two, three = await proxy.recorded()
    assert two.parent is None
    assert three.parent is None
    assert len({one.session, two.session, three.session}) == 3
    assert await proxy.followed() == []


async def test_a_rollout_key_names_its_session_and_sets_the_sampling(proxy: Any, engine: Any) -> None:
    key = rollout_key()
    await chat(proxy, [QUESTION], path="/s/other", Authorization=f"Bearer {key}")
    (turn,) = await proxy.recorded()
    rollout = RolloutRef(run="run", group="group", rollout="rollout", group_size=2)
    assert turn.session == rollout_session(SECRET, RolloutKey(rollout=rollout, policy="default", expires_at=2e10))
    assert (turn.tenant, turn.rollout) == ("rollouts", rollout)
    assert (turn.sampling.temperature, turn.exact) == (1.0, True)
    assert engine.requests[0]["sampling_params"]["temperature"] == 1.0


@pytest.mark.parametrize(
    ("key", "status"),
    [
        (rollout_key(secret=b"another secret"), 401),
        (rollout_key(expires_at=1.0), 401),
        (rollout_key(policy="other"), 403),
        ("dtr_nonsense", 401),
    ],
)
async def test_a_bad_rollout_key_is_refused(proxy: Any, key: str, status: int) -> None:
    await chat(proxy, [QUESTION], status=status, X_Api_Key=key)


async def test_side_turns_are_marked_and_are_no_next_state(proxy: Any) -> None:
    await chat(proxy, [QUESTION])
    await chat(proxy, [QUESTION, REPLY, {"role": "user", "content": "Write a title"}], X_Turn_Type="side")
    await chat(proxy, [QUESTION, REPLY, THANKS])
    assert [turn.kind for turn in await proxy.recorded()] == ["main", "side", "main"]
    assert [state.messages for state in await proxy.followed()] == [[THANKS]]


async def test_off_stores_nothing_anywhere(proxy: Any) -> None:
    await chat(proxy, [QUESTION], X_Drivetrain_Record="off")
    await chat(proxy, [QUESTION, REPLY, THANKS], X_Drivetrain_Record="off")
    assert await proxy.events() == []
    assert [key async for key in proxy.redis.scan_iter(match=proxy.index._prefix + "*")] == []


async def test_record_is_stored_and_not_trainable(proxy: Any) -> None:
    await chat(proxy, [QUESTION], X_Drivetrain_Record="record")
    await chat(proxy, [QUESTION, REPLY, THANKS])
    assert [turn.consent for turn in await proxy.recorded()] == ["record", "train"]
    assert [state.trainable for state in await proxy.followed()] == [False]


async def test_a_done_session_ends_its_last_turn(proxy: Any) -> None:
    await chat(proxy, [QUESTION], X_Session_Id="anna")
    await chat(proxy, [QUESTION, REPLY, THANKS], X_Session_Id="anna", X_Session_Done="true")
    one, two = await proxy.recorded()
    first, last = await proxy.followed()
    assert (first.turn, first.kind, first.n) == (one.turn, "messages", 1)
    assert (last.turn, last.kind, last.n, last.messages) == (two.turn, "ended", 1, [])


@pytest.mark.parametrize("header", ["X_Turn_Type", "X_Drivetrain_Record", "X_Session_Done"])
async def test_headers_that_mean_nothing_are_refused_by_name(proxy: Any, header: str) -> None:
    error = (await chat(proxy, [QUESTION], status=400, **{header: "perhaps"}))["error"]
    assert error["param"] == header.lower().replace("_", "-")
    assert "perhaps" in error["message"]


async def test_any_replica_of_the_proxy_continues_any_conversation(start_proxy: Any, engine: Any) -> None:
    async with start_proxy([engine.url]) as one, start_proxy([engine.url], name="two", bus=one.bus) as two:
        history = [QUESTION]
        for proxy in (one, two, one, two):
            await chat(proxy, history)
            history = [*history, REPLY, THANKS]
        await two.events()
        turns = sorted(await one.recorded(), key=lambda turn: turn.started_at)
        states = await one.followed()
    assert [turn.parent for turn in turns] == [None, *(turn.turn for turn in turns[:-1])]
    assert [turn.drift for turn in turns] == ["root", "clean", "clean", "clean"]
    assert len({(state.turn, state.n) for state in states}) == 3
    whole = [token for turn in turns for token in unpack_ids(turn.prompt_ids) + unpack_ids(turn.response_ids)]
    assert whole[: len(engine.requests[-1]["token_ids"])] == engine.requests[-1]["token_ids"]


async def test_a_retry_at_another_replica_is_not_a_second_next_state(start_proxy: Any, engine: Any) -> None:
    async with start_proxy([engine.url]) as one, start_proxy([engine.url], name="two", bus=one.bus) as two:
        await chat(one, [QUESTION])
        await chat(one, [QUESTION, REPLY, THANKS])
        await chat(two, [QUESTION, REPLY, THANKS])
        await two.events()
        assert [state.n for state in await one.followed()] == [1]


async def test_without_redis_the_local_cache_carries_the_conversation(start_proxy: Any, engine: Any) -> None:
    listener = listen("127.0.0.1", 0)
    port = listener.getsockname()[1]
    listener.close()
    async with start_proxy([engine.url], redis_url=f"redis://127.0.0.1:{port}/0") as proxy:
        await chat(proxy, [QUESTION])
        answer = await chat(proxy, [QUESTION, REPLY, THANKS])
        await chat(proxy, [QUESTION, REPLY, {"role": "user", "content": "No"}])
        assert answer["choices"][0]["message"]["content"] == "Paris."
        one, two, _ = await proxy.recorded()
        assert two.parent == one.turn
        assert [state.n for state in await proxy.followed()] == [1, 2]


async def test_feedback_on_a_reply_or_the_last_one_of_a_session(proxy: Any) -> None:
    first = await chat(proxy, [QUESTION], X_Session_Id="anna")
    await chat(proxy, [QUESTION, REPLY, THANKS], X_Session_Id="anna")
    assert (await give(proxy, {"response": first["id"], "thumb": "down", "text": "Wrong"})).status_code == 200
    assert (await give(proxy, {"session": "anna", "score": 0.5})).status_code == 200
    assert (await give(proxy, {"text": "Nice"}, path="/s/anna")).status_code == 200
    one, two = await proxy.recorded()
    signals = [event for event in await proxy.events() if isinstance(event, Signal)]
    assert [(s.turn, s.value, s.text) for s in signals] == [
        (one.turn, -1.0, "Wrong"),
        (two.turn, 0.5, ""),
        (two.turn, None, "Nice"),
    ]
    assert {s.session for s in signals} == {one.session}
    assert {s.kind for s in signals} == {"feedback"}


async def test_feedback_never_reaches_another_tenant(proxy: Any) -> None:
    reply = await chat(proxy, [QUESTION])
    key = f"Bearer {rollout_key()}"
    assert (await give(proxy, {"response": reply["id"], "thumb": "up"}, Authorization=key)).status_code == 404


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"thumb": "up"}, 400),
        ({"response": "chatcmpl-x", "thumb": "up"}, 404),
        ({"session": "nobody", "thumb": "up"}, 404),
        ({"response": "x"}, 400),
        ({"response": "x", "thumb": "sideways"}, 400),
        ({"response": "x", "score": 2}, 400),
        ({"response": "x", "score": 1, "thumb": "up"}, 400),
        ({"response": "x", "thumb": "up", "stars": 5}, 400),
    ],
)
async def test_feedback_that_means_nothing_is_refused(proxy: Any, body: dict[str, Any], status: int) -> None:
    assert (await give(proxy, body)).status_code == status


async def test_what_a_dead_proxy_had_spooled_comes_out_of_the_next(
    start_proxy: Any, engine: Any, tmp_path: Any
) -> None:
    async with start_proxy([engine.url]) as first:
        first.publisher._bus = None
        await chat(first, [QUESTION])
        assert first.recorder.spool.backlog_bytes > 0
    (log,) = (tmp_path / "spool").glob("*.log")
    with log.open("ab") as file:
        file.write(b"\x07\x00\x00\x00torn")
    async with start_proxy([engine.url]) as second:
        turn = await asyncio.wait_for(second.next_turn(), 5)
        assert turn.messages == [QUESTION]
