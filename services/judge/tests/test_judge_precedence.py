"""Whatever is said by whom, in whatever order of precedence: no score without a vote, the strongest decides, and all
that a score rests on was there to be read."""

import json
import re
from collections.abc import Sequence
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drivetrain.common.events import Message, Signal, TurnScored, Vote, decode, encode
from drivetrain.judge import joins
from drivetrain.judge.app import arranged
from drivetrain.judge.chain import Chain, Judgement
from drivetrain.judge.settings import SOURCES, JudgeSettings
from drivetrain.judge.sources.base import EVIDENCE, Case
from drivetrain.judge.text import content_text
from tests.judge_model_server import asked
from tests.judge_world import feedback, followed, outcome, tool, user

SAID = ["Thanks!", "That is too long.", "How do tides work?", "不对，重写一遍", "Please use one sentence", "…", "ok"]
PRINTED = [
    "fine", "bash: x: command not found", "Exit code: 1\nboom", "<returncode>2</returncode>\n<output>no</output>", "",
    "== 1 failed in 0.1s ==", "== 4 passed in 0.1s ==", '{"error": "no such city"}', "404 Not Found", "HTTP/1.1 200 OK",
]  # fmt: skip
NOISE = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=12)


@st.composite
def signals(draw: st.DrawFn) -> Signal:
    number, kind = draw(st.integers(0, 9)), draw(st.sampled_from(["value", "text", "outcome"]))
    if kind == "outcome":
        return outcome(draw(st.sampled_from([-1, 0, 0.25, 1, None])), id=f"o{number}", at=float(number))
    if kind == "text":
        return feedback(f"t{number}", text=draw(st.sampled_from(SAID)), at=float(number))
    return feedback(f"f{number}", value=draw(st.sampled_from([-1, -0.5, 0, 1])), at=float(number))


def printed(noise: st.SearchStrategy[str] = NOISE) -> st.SearchStrategy[Message]:
    return st.builds(lambda text, more: tool(text + more), st.sampled_from(PRINTED), noise)


TOLD = st.lists(signals(), max_size=3)
WRITTEN = st.builds(lambda text, more: user(f"{text} {more}"), st.sampled_from(SAID), NOISE)
AFTER = st.lists(printed() | WRITTEN, max_size=4)
BEFORE = st.lists(printed(st.just("")), max_size=2)
ORDER = st.lists(st.sampled_from([name for name in SOURCES if name != "rubric"]), min_size=1, unique=True)
CREDITS: list[dict[str, Any]] = [{}, {"credit": "discounted"}, {"credit": "step", "coef": 0.2}]
CREDIT = st.sampled_from(CREDITS)
MODEL = st.sampled_from(["down", "garbage", -1, 0, 1])
MANY = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def model_says(what: object) -> str:
    """A vote that quotes the reply, or what is none."""
    return json.dumps({"vote": what, "evidence": "it is water", "hint": None}) if isinstance(what, int) else "I like it"


async def judged(case: Case, order: Sequence[str], credit: dict[str, Any], model: object) -> Judgement:
    async with asked(lambda body: model_says(model), context_chars=100_000) as (asker, _):
        with_model = {"model": asker.settings} if "model" in order and model != "down" else {}
        known = JudgeSettings.model_validate({"precedence": order, "outcome": credit, **with_model})
        return await Chain(arranged(known, asker if with_model else None)).judge(case)


def decides(name: str, votes: Sequence[Vote]) -> float | None:
    """What a source alone decides, by the table of docs/judge.md; None: it has nothing to say, or cannot tell."""
    values = [vote.value * vote.weight for vote in votes if vote.source == name]
    if not values:
        return None
    if name in ("feedback", "outcome"):
        return values[-1]
    if name == "environment":
        value = min(values) if min(values) < 0 else max(values)
    elif name == "model":
        value = max(set(values), key=values.count)
    else:
        value = values[-1]
    return value or None


@MANY
@given(AFTER, BEFORE, TOLD, ORDER, CREDIT, MODEL)
async def test_the_strongest_that_can_tell_decides_and_nothing_comes_from_nothing(
    after: list[Message],
    before: list[Message],
    told: list[Signal],
    order: list[str],
    credit: dict[str, Any],
    model: object,
) -> None:
    case = Case(tuple(before), {"role": "assistant", "content": "it is water"}, tuple(after), signals=tuple(told))
    judgement = await judged(case, order, credit, model)
    assert {vote.source for vote in judgement.votes} <= set(order)
    winner = next((name for name in order if decides(name, judgement.votes) is not None), None)
    if judgement.failed:  # the model, which gave no vote: what is weaker decides nothing
        assert (judgement.failed, model) == ("model", "garbage")
        winner = winner if winner is not None and order.index(winner) < order.index("model") else None
        assert (judgement.reward is None) == (winner is None)
    else:
        assert (judgement.reward is None) == (not judgement.votes)
    assert judgement.decided_by == winner
    if winner is not None and not (winner == "outcome" and credit.get("credit") == "step"):
        assert judgement.reward == decides(winner, judgement.votes)
    if judgement.reward is not None and winner is None:
        assert judgement.reward == 0


@MANY
@given(AFTER, BEFORE, TOLD, CREDIT, MODEL)
async def test_every_vote_says_what_it_rests_on_how_much_it_counts_and_how_sure_it_is(
    after: list[Message], before: list[Message], told: list[Signal], credit: dict[str, Any], model: object
) -> None:
    case = Case(tuple(before), {"role": "assistant", "content": "it is water"}, tuple(after), signals=tuple(told))
    judgement = await judged(case, SOURCES, credit, model)
    event = joins.scored(followed("t"), 0, judgement, judge="j", seen=1, may_train=True, at=1.0)
    assert decode(encode(event), TurnScored).votes == list(judgement.votes)
    for vote in judgement.votes:
        assert -1 <= vote.value <= 1
        assert 0 < vote.weight <= 1
        assert 0 < vote.confidence <= 1
        assert 0 < len(vote.evidence) <= EVIDENCE
        for span in spans(vote):
            assert any(words(span) in words(text) for text in read_by(vote.source, case)), (span, vote)


def spans(vote: Vote) -> list[str]:
    """The quotations in a vote's evidence, without what the judge says in its own words."""
    own = re.sub(r"^empty$|^exit code -?\d+(: )?|^value -?[\d.]+(: )?|^\w+ -?[\d.]+ ?(?=$|\w)", "", vote.evidence)
    pieces = re.split(r" … | \(after: (?:exit code -?\d+(?:: )?)?", own.removesuffix(")") if "(after:" in own else own)
    return [piece.rstrip("…") for piece in pieces]


def read_by(source: str, case: Case) -> list[str]:
    if source in ("feedback", "outcome"):
        return [signal.text for signal in case.signals]
    if source == "model":
        return [content_text(case.reply)]
    return [content_text(message) for message in (*case.before, *case.after)] + ["\n".join(case.said)]


def words(text: str) -> str:
    """The words alone: a field of JSON is quoted without its marks."""
    return " ".join(re.findall(r"\w+", text))
