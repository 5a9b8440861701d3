"""While the judge model is down, turns wait in the stream: none is scored, none comes a second time, none is lost."""

import asyncio
import json
from typing import Any

import httpx

from drivetrain.common.bus import MemoryBus
from drivetrain.common.events import TurnFollowed, TurnRecorded, TurnScored
from drivetrain.common.events.turns import Sampling
from drivetrain.common.lifecycle import Lifecycle
from drivetrain.judge.app import consumers, rules, serve
from drivetrain.judge.asking.asker import Asker
from drivetrain.judge.endpoint import Endpoint
from drivetrain.judge.settings import JudgeSettings, ModelSettings
from drivetrain.judge.sources.model import ModelJudge

SETTINGS = JudgeSettings(
    concurrency=4,
    model=ModelSettings(
        enabled=True, url="http://judge/v1", model="m", attempts=1, breaker_failures=3, breaker_wait_s=0.01
    ),
)
WHO = {"tenant": "acme", "policy": "p", "session": "s"}


def followed(turn: str) -> TurnFollowed:
    said = [{"role": "user", "content": f"And {turn}?"}]
    asked = [{"role": "user", "content": "What is rain?"}]
    reply = {"role": "assistant", "content": "water"}
    return TurnFollowed(**WHO, turn=turn, n=0, messages=said, before=asked, reply=reply, at=1.0)


def recorded(turn: str, parent: str | None) -> TurnRecorded:
    sides: dict[str, Any] = {"messages": [{"role": "user", "content": f"about {turn}"}], "reply": {"content": "ok"}}
    tokens: dict[str, Any] = {"prompt_ids": b"", "response_ids": b"", "logprobs": b"", "versions": []}
    return TurnRecorded(
        **WHO, **sides, **tokens, turn=turn, parent=parent, sampling=Sampling(), finish="stop", exact=True,
        started_at=1.0, finished_at=2.0,
    )  # fmt: skip


class Model:
    """A judge model that is up or down, and remembers what it was shown."""

    def __init__(self) -> None:
        self.up = False
        self.refused = asyncio.Event()
        self.shown: list[str] = []

    def answer(self, request: httpx.Request) -> httpx.Response:
        if not self.up:
            self.refused.set()
            return httpx.Response(503)
        self.shown.append(json.loads(request.content)["messages"][-1]["content"])
        content = json.dumps({"vote": 1, "evidence": "And", "hint": None})
        return httpx.Response(200, json={"choices": [{"message": {"content": content}}]})


async def test_turns_wait_in_the_stream_until_the_model_answers_again() -> None:
    bus, model = MemoryBus(), Model()
    turns = [followed(f"t{number}") for number in range(40)]
    await bus.publish(recorded("root", None))
    for turn in turns:
        await bus.publish(recorded(turn.turn, "root" if turn.turn == "t0" else None))
        await bus.publish(turn)
    async with (
        asyncio.timeout(30),
        httpx.AsyncClient(transport=httpx.MockTransport(model.answer)) as client,
        asyncio.TaskGroup() as group,
        bus.consume(consumers(SETTINGS, 1)[0]) as watched,
    ):
        life, asker = Lifecycle(group), Asker(SETTINGS.model, Endpoint(SETTINGS.model, client))
        life.started()
        serve(life, SETTINGS, bus, [ModelJudge(asker), *rules(SETTINGS)], asker)
        await model.refused.wait()
        while not life.unready():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert life.unready() == ["the judge model answers"]
        assert bus.streams["SCORES"] == []
        waiting = await watched.pending()
        assert waiting >= 32  # at most what was in work when it went away is out of the stream
        await asyncio.sleep(0.1)
        assert await watched.pending() == waiting
        model.up = True
        while len(bus.streams["SCORES"]) < 40:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        life.stop()
    scores = [stored.event for stored in await bus.last("SCORES", "turn.scored.>")]
    assert {score.turn for score in scores if isinstance(score, TurnScored)} == {turn.turn for turn in turns}
    assert all(isinstance(score, TurnScored) and score.reward == 1 for score in scores)
    assert (len(bus.streams["SCORES"]), bus.streams["DEAD"]) == (40, [])
    assert any("about root" in shown and "And t0?" in shown for shown in model.shown)  # the conversation before it
