"""How a person's next message is read, without a model."""

import json
import time
from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drivetrain.judge.reading import read

LABELLED = [json.loads(line) for line in (Path(__file__).parent / "reactions.jsonl").read_text().splitlines()]
REPLIES = [json.loads(line) for line in (Path(__file__).parent / "reactions_to_replies.jsonl").read_text().splitlines()]
ASKED = "What is photosynthesis?"


def accuracy(label: int) -> float:
    examples = [example for example in LABELLED if example["label"] == label]
    right = [example for example in examples if read(example["text"], [example["asked"]]).verdict == label]
    return len(right) / len(examples)


def test_the_labelled_set_is_large_and_without_copies() -> None:
    by_label: dict[int, set[tuple[str, str]]] = defaultdict(set)
    for example in LABELLED:
        by_label[example["label"]].add((example["text"], example["asked"]))
    assert {label: len(texts) >= 100 for label, texts in by_label.items()} == {-1: True, 0: True, 1: True}
    assert sum(map(len, by_label.values())) == len(LABELLED)


@pytest.mark.parametrize(("label", "floor"), [(-1, 0.95), (1, 0.95), (0, 0.90)])
def test_readings_agree_with_people(label: int, floor: float) -> None:
    assert accuracy(label) >= floor


@pytest.mark.parametrize("language", ["en", "zh"])
def test_readings_of_short_reactions_to_all_kinds_of_replies(language: str) -> None:
    clear, silent = [], []
    for example in (example for example in REPLIES if example["language"] == language):
        verdict = read(example["text"], [example["asked"]], example["reply"]).verdict
        (clear if example["label"] else silent).append(verdict == example["label"])
    assert len(clear) >= 100
    assert len(silent) >= 60
    assert sum(clear) / len(clear) >= 0.90
    assert sum(silent) / len(silent) >= 0.90


@pytest.mark.parametrize(
    ("asked", "reply", "text", "verdict"),
    [
        ("What's 18% of 350?", "18% of 350 is 61.", "I get 63 on my calculator.", -1),
        ("What's 15% of 240?", "15% of 240 is 36.", "36, right.", 1),
        ("I'm away till the 14th, write a note.", "I am off until the 24th.", "14th, not 24th.", -1),
        ("Remind me at 6.", "I will remind you at 6 in the morning.", "6 pm obviously", -1),
        ("Plan a vegan dinner.", "Risotto with parmesan.", "parmesan isn't vegan", -1),
        ("Plan a vegan dinner.", "Risotto with mushrooms.", "Do I need a pan?", 0),
        ("Write a limerick.", "There once was a form…", "and the rest?", -1),
        ("Turn on the kitchen light.", "The bedroom light is on.", "kitchen!", -1),
        ("Plan a trip to Rome.", "Two days in Rome.", "How far is Ostia?", 0),
        ("祝妈妈生日快乐，提到广场舞", "祝妈妈生日快乐！", "广场舞呢？", -1),
        ("杭州有什么好玩的？", "西湖。", "那苏州呢？", 0),
        ("周六晚上六点请客，写个短信", "周五晚六点见！", "是周六……", -1),
        ("15乘以26等于多少", "15乘以26等于380。", "计算器算的是390", -1),
    ],
)
def test_a_message_is_held_against_the_reply(asked: str, reply: str, text: str, verdict: int) -> None:
    assert read(text, [asked], reply).verdict == verdict


def test_what_is_taken_back_counts_for_nothing() -> None:
    assert read("请你用中文回答，哦不好意思看错了，没事", ["问"]).verdict == 0
    assert read("That's wrong. Oh, my mistake.", [ASKED]).verdict == 0


def test_a_reading_says_how_sure_it_is() -> None:
    sure = read("That's wrong.", [ASKED])
    guessed = read("Titan belongs to Saturn.", ["Name the moons of Mars."], "Phobos and Titan.")
    assert (sure.verdict, guessed.verdict) == (-1, -1)
    assert guessed.confidence < sure.confidence <= 1


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("Thanks, but that's too long.", -1),
        ("Lovely, though I'd rather have one sentence.", -1),
        ("Thank you. Next time please start with the subject.", -1),
        ("No, that's perfect.", 1),
        ("One sentence, just as I asked. Thanks!", 1),
        ("Not bad at all.", 1),
        ("Not good.", -1),
        ("Great! And how do tides work?", 1),
        ("", 0),
        ("…?!", 0),
    ],
)
def test_mixed_and_negated_messages(text: str, verdict: int) -> None:
    assert read(text, [ASKED]).verdict == verdict


@pytest.mark.parametrize(
    ("asked", "text", "verdict"),
    [
        ("What is photosynthesis?", "What is photosynthesis?", -1),
        ("What is photosynthesis?", "Okay, so explain photosynthesis.", -1),
        ("How do plants make food from sunlight?", "Describe how plants turn sunlight into food.", -1),
        ("What is photosynthesis?", "Does photosynthesis need water?", 0),
        ("When was the Eiffel Tower built?", "Where was the Eiffel Tower built?", 0),
        ("What is the capital of Peru?", "What is the capital of Chile?", 0),
        ("How far is the sun from the earth?", "How far is the moon from the earth?", 0),
    ],
)  # fmt: skip
def test_only_the_same_question_asked_again_is_an_objection(asked: str, text: str, verdict: int) -> None:
    assert read(text, [asked]).verdict == verdict


def test_bad_things_in_the_world_are_no_objection() -> None:
    for text in ("I have a bad cold. What helps?", "Why do bad tyres burst?", "What was the worst storm ever?"):
        assert read(text, [ASKED]).verdict == 0


def test_code_and_quotes_do_not_speak() -> None:
    assert read("```\n# wrong, too long, terrible\n```", [ASKED]).verdict == 0
    assert read('Who wrote "That is wrong"?', [ASKED]).verdict == 0


def test_the_evidence_quotes_what_was_written() -> None:
    text = "Thanks. But that's WAY too long, honestly."
    assert "that's WAY too long" in read(text, [ASKED]).evidence


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=400), st.text(max_size=100))
def test_any_text_can_be_read(text: str, asked: str) -> None:
    reading = read(text, [asked])
    assert reading.verdict in (-1, 0, 1)
    assert len(reading.evidence) <= 400
    for clause in reading.clauses:
        assert 0 <= clause.start < clause.end <= len(text)


WORDS = ["no", "not", "too", "long", "it", "that", "list", "sentence", "?", ",", ".", "please", "but", "thanks", "you"]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(WORDS), max_size=60))
def test_any_words_can_be_read(words: list[str]) -> None:
    assert read(" ".join(words), [ASKED]).verdict in (-1, 0, 1)


@pytest.mark.parametrize(
    "text", ["please " * 20_000, "a" * 200_000, "no, " * 40_000, "<" * 99_999, "不对，" * 40_000, "太" * 99_999]
)
def test_a_huge_message_is_read_in_bounded_time(text: str) -> None:
    started = time.process_time()
    read(text, [text])
    assert time.process_time() - started < 2
