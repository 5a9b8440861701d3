"""Feedback of people on what they were told: of a reply, or of a session's last one; of their own tenant's alone."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from drivetrain.common.events import Signal
from tests.proxy_sessions import QUESTION, REPLY, THANKS, chat, rollout_key

Encode = Callable[[str], list[int]]


async def give(proxy: Any, body: dict[str, Any], path: str = "", **headers: str) -> httpx.Response:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    async with httpx.AsyncClient() as http:
        return await http.post(f"{proxy.url}{path}/v1/feedback", json=body, headers=sent)


@pytest.fixture(autouse=True)
def replies(engine: Any, encode: Encode) -> None:
    """The engine says "Paris." to everything, six times."""
    for _ in range(6):
        engine.say(encode("Paris."))


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
