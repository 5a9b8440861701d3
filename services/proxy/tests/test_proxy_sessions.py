"""Who is speaking, and which conversation goes on: over keys, paths, headers and lineage."""

from collections.abc import Callable
from typing import Any

import pytest

from drivetrain.common.events import RolloutRef
from drivetrain.common.identity import RolloutKey, rollout_session, session_id
from tests.proxy_sessions import QUESTION, REPLY, SECRET, THANKS, chat, rollout_key

Encode = Callable[[str], list[int]]


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
