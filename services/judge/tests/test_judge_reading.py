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
    "text", ["please " * 20_000, "a" * 200_000, "no, " * 40_000, "i would rather " * 9_000, "<" * 99_999]
)
def test_a_huge_message_is_read_in_bounded_time(text: str) -> None:
    started = time.process_time()
    read(text, [text])
    assert time.process_time() - started < 2
