"""What becomes a hint, and what never does."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drivetrain.judge.chain import Chain
from drivetrain.judge.hints import AT_MOST, LONGEST, SHORTEST, Leaks, accept, directives
from drivetrain.judge.sources.base import Case
from drivetrain.judge.sources.reaction import Reaction

ASKED = ["What is photosynthesis?"]
NO_LEAKS = Leaks.of([])


@pytest.mark.parametrize(
    ("said", "hints"),
    [
        (
            "Please answer in one sentence that names the subject. What is photosynthesis?",
            ["Please answer in one sentence that names the subject."],
        ),
        ("That's too long, keep it under thirty words.", ["Keep it under thirty words."]),
        ("I'd like a single plain sentence.", ["I'd like a single plain sentence."]),
        ("Next time start with the subject!", ["Next time start with the subject!"]),
        ("could you put that in one line", ["Could you put that in one line."]),
        ("no bullet points, just one sentence", ["No bullet points, just one sentence."]),
        ("I asked for one sentence, not a list!", ["I asked for one sentence, not a list!"]),
        ("Thanks, but could you answer in one line, please?", ["Could you answer in one line, please?"]),
        ("What is photosynthesis, in one sentence?", ["In one sentence."]),
        ("Please mention photosynthesis in your answer.", ["Please mention photosynthesis in your answer."]),
        ("Please end with a question.", ["Please end with a question."]),
        ("Nobody talks like that. Something relaxed, please.", ["Something relaxed, please."]),
        ("Not this one. And a bit less cheerful.", ["A bit less cheerful."]),
        ("太正式了，我们老师才二十多岁，写得活泼一点", ["写得活泼一点。"]),
        ("太长了，一句话就行", ["一句话就行。"]),
        ("能不能说人话，我是给我奶奶解释的", ["能不能说人话，我是给我奶奶解释的。"]),
        ("不错，但是短一点", ["短一点。"]),
        ("下次别加感叹号，谢谢", ["下次别加感叹号，谢谢。"]),
    ],
)
def test_a_directive_is_a_hint_without_the_repeated_question(said: str, hints: list[str]) -> None:
    assert directives(said, ASKED) == hints


@pytest.mark.parametrize(
    "said",
    [
        "Too long. What is photosynthesis?",
        "That's a list.",
        "No, I meant tomorrow.",
        "No, the capital is Canberra.",
        "Thanks, perfect!",
        "How do tides work?",
        "Write a function that sorts a list of numbers.",
        "You never mention photosynthesis.",
        "That is less helpful.",
        "Something broke.",
        "发错人了！是伟大的伟",
        "这不是五言，重写",
        "完美！",
        "那苏州呢？",
    ],
)
def test_complaints_answers_and_new_questions_are_no_hints(said: str) -> None:
    assert directives(said, ASKED) == []


def test_hints_are_few_distinct_and_shortest_first() -> None:
    candidates = [
        "Be brief.",
        "Use one plain sentence.",
        "use one plain sentence",
        "Name the subject first.",
        "No lists, please.",
    ]
    candidates += ["Keep every reply under thirty words.", "x" * (LONGEST + 1)]
    assert accept(candidates, NO_LEAKS) == ["No lists, please.", "Name the subject first.", "Use one plain sentence."]


@pytest.mark.parametrize(
    ("output", "hint"),
    [
        ("AssertionError: expected 'teal' but got 'blue'", "Return teal for that colour."),
        ("assert total == 4721", "The total should be 4721 here."),
        ("config at /etc/app/conf.d is read by load_config", "Call load_config before you start."),
        ("the quick brown fox jumps over the dog", "Say that the quick brown fox jumps."),
    ],
)
def test_what_a_tool_printed_does_not_leak(output: str, hint: str) -> None:
    assert accept([hint], NO_LEAKS) == [hint]
    assert accept([hint], Leaks.of([output])) == []


def test_characters_of_chinese_count_for_three_and_leak_in_runs_of_four() -> None:
    assert accept(["别列要点。", "写短一点。", "短点"], NO_LEAKS) == ["写短一点。", "别列要点。"]
    assert accept(["价格写成四十七块两毛。"], Leaks.of(["总价：四十七块两毛"])) == []
    assert accept(["请写得短一点。"], Leaks.of(["总价：四十七块两毛"])) == ["请写得短一点。"]


def test_code_and_quotes_do_not_leak() -> None:
    assert accept(["Use `sorted(x)` here.", 'Answer with "Paris is the capital".'], NO_LEAKS) == []
    shown = Leaks.of([], ["```\nreturn value plus one always\n```"])
    assert accept(["Make it return value plus one always."], shown) == []


def test_an_ordinary_wish_is_no_leak() -> None:
    leaks = Leaks.of(["3 files changed, 30 insertions", "ok"], ["I want a sentence of 30 words"])
    assert accept(["Keep it under 30 words."], leaks) == ["Keep it under 30 words."]


@pytest.mark.parametrize(
    ("asked", "reply", "said", "advice"),
    [
        ("How many letters has the word?", "It has nine letters.", "that's eight", "check every number"),
        ("Book the table for Friday", "Booked for Thursday.", "Friday!", "check every number"),
        ("Write a poem of five lines", "One line.", "and the rest?", "leave nothing of it out"),
        ("妈妈生日，写祝福，提到广场舞", "祝妈妈生日快乐！", "广场舞呢？", "一样也不漏"),
        ("周几开会？", "会议在周五。", "是周六……", "核对每个数字"),
        ("How many?", "Nine.", "That's eight. Please count again step by step.", ""),
    ],
)
async def test_what_was_amiss_gives_advice_only_where_the_person_gave_none(
    asked: str, reply: str, said: str, advice: str
) -> None:
    case = Case(
        ({"role": "user", "content": asked},),
        {"role": "assistant", "content": reply},
        ({"role": "user", "content": said},),
    )
    judgement = await Chain([Reaction()]).judge(case)
    assert judgement.reward == -1
    given = " ".join(judgement.hints)
    assert advice in given
    assert bool(advice) == (
        "step by step, and" in given or "nothing of it" in given or "一样也" in given or "核对" in given
    )


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=500), st.text(max_size=200))
def test_any_text_gives_bounded_hints(text: str, output: str) -> None:
    hints = accept(directives(text, [output]), Leaks.of([output], [text]))
    assert len(hints) <= AT_MOST
    assert all(SHORTEST <= len(hint) <= LONGEST and "`" not in hint for hint in hints)
    assert [len(hint) for hint in hints] == sorted(len(hint) for hint in hints)
