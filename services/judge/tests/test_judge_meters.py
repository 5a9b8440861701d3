"""What the judge reports of itself: votes by source and result, disagreement, parse failures, latency, spend."""

from typing import Any

from aiohttp import web
from prometheus_client import REGISTRY

from drivetrain.common.events import Vote
from drivetrain.judge.chain import Judgement
from drivetrain.judge.meters import Meters
from tests.judge_model_server import CASE, server
from tests.judge_world import bench, feedback, followed, recorded, tool, user


class Counted:
    """How much the judge's metrics grew since this was made."""

    def __init__(self) -> None:
        self._before = self._all()

    def __call__(self, name: str, **labels: str) -> float:
        key = (f"drivetrain_judge_{name}", tuple(sorted(labels.items())))
        return self._all().get(key, 0.0) - self._before.get(key, 0.0)

    def _all(self) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
        return {(s.name, tuple(sorted(s.labels.items()))): s.value for f in REGISTRY.collect() for s in f.samples}


def vote(source: str, value: float) -> Vote:
    return Vote(source=source, value=value, evidence="-")


def judgement(*votes: Vote, reward: float | None = 1.0, failed: str | None = None) -> Judgement:
    return Judgement(reward, votes, (), votes[-1].source if votes else None, failed)


async def test_a_running_judge_counts_votes_scores_hints_and_time() -> None:
    counted = Counted()
    async with bench() as judge:
        await judge.put(recorded("t"), followed("t", tool("bash: x: command not found"), user("thanks")))
        await judge.put(recorded("u"), feedback("f", value=-1.0, turn="u", text="Always write one sentence."))
        await judge.scores(2)
    assert counted("votes_total", source="environment", result="negative") == 1
    assert counted("votes_total", source="reaction", result="positive") == 1
    assert counted("votes_total", source="feedback", result="negative") == 1
    assert (counted("scores_total", decided_by="environment"), counted("scores_total", decided_by="feedback")) == (1, 1)
    assert counted("hints_total") >= 1
    assert counted("disagreements_total", among="votes") == 1
    assert counted("judging_seconds_count", kind="messages") == counted("judging_seconds_count", kind="feedback") == 1
    assert counted("delay_seconds_count", kind="messages") == 1


def test_disagreement_is_told_apart_within_the_model_and_between_sources() -> None:
    counted, meters = Counted(), Meters()
    meters.scored(judgement(vote("model", 1), vote("model", -1), vote("model", 1)))
    meters.scored(judgement(vote("model", 1), vote("model", 0)))
    meters.scored(judgement(vote("environment", -1), vote("reaction", 0.5)))
    assert (counted("disagreements_total", among="model votes"), counted("disagreements_total", among="votes")) == (
        1,
        1,
    )


def test_turns_without_a_reward_are_counted_by_why() -> None:
    counted, meters = Counted(), Meters()
    meters.scored(judgement(reward=None))
    meters.scored(judgement(reward=None, failed="model"))
    assert counted("unresolved_total", reason="no evidence") == counted("unresolved_total", reason="model failed") == 1


async def test_a_judge_model_s_calls_tokens_price_and_parse_failures_are_counted() -> None:
    async def answer(body: dict[str, Any], n: int) -> web.Response:
        if body["seed"] == 2:
            return web.json_response({"choices": [{"message": {"content": "I vote 1."}}]})
        usage = {"prompt_tokens": 1000, "completion_tokens": 200}
        content = '{"vote": 1, "evidence": "one plain sentence", "hint": null}'
        return web.json_response({"choices": [{"message": {"content": content}}], "usage": usage})

    counted = Counted()
    async with server(answer, price_prompt=2.0, price_completion=10.0) as (judge, _):
        await judge.judge(CASE)
        await judge.judge(CASE)
    assert counted("model_unparsed_total") == 1
    assert counted("model_cached_total") == 1
    assert counted("model_calls_total", result="answered") == counted("model_call_seconds_count") == 3
    assert counted("model_tokens_total", kind="prompt") == 2000
    assert round(counted("model_spend_total"), 9) == (2000 * 2.0 + 400 * 10.0) / 1e6
