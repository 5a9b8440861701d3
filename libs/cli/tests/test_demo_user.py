"""The scripted person: objects when a reply misses, asks again, gives up at last, says thanks when it fits."""

import random

from drivetrain.cli.demo.questions import Question, Subject
from drivetrain.cli.demo.taste import load_taste
from drivetrain.cli.demo.user import Say, opening, react

TASTE = load_taste()
TIDES = Question("What is the tide?", Subject("the tide", "tides"))
GOOD = "The tide is the daily rise and fall of the sea."
LONG = "The tide is a rise of the sea. It is caused by the moon. It is daily."


def test_opens_with_the_question() -> None:
    assert opening(TIDES) == Say("ask", "What is the tide?")


def test_says_thanks_when_the_reply_fits() -> None:
    said = react(GOOD, TIDES, TASTE, objections=1, rng=random.Random(0))
    assert said is not None
    assert said.kind == "thanks"
    assert said.text in TASTE.thanks()


def test_objects_in_words_about_the_miss_and_asks_again() -> None:
    said = {react(LONG, TIDES, TASTE, 0, random.Random(seed)) for seed in range(200)}
    expected = {
        Say("object", text.format(question=TIDES.text, subject="tides")) for text in TASTE.objections("too_long")
    }
    assert said == expected
    assert all(TIDES.text in say.text for say in expected)


def test_complains_of_the_list_before_its_length() -> None:
    said = react("- The tide rises.\n- The tide falls.", TIDES, TASTE, 0, random.Random(0))
    assert said is not None
    assert said.text in {text.format(question=TIDES.text, subject="tides") for text in TASTE.objections("listed")}


def test_an_objection_can_name_the_subject() -> None:
    texts = {react("It rises and falls once every day.", TIDES, TASTE, 0, random.Random(seed)) for seed in range(50)}
    assert any(say is not None and "never mentioned tides" in say.text for say in texts)


def test_gives_up_after_two_objections() -> None:
    assert react(LONG, TIDES, TASTE, objections=1, rng=random.Random(0)) is not None
    assert react(LONG, TIDES, TASTE, objections=2, rng=random.Random(0)) is None
    assert react(LONG, TIDES, TASTE, objections=0, rng=random.Random(0), patience=0) is None


def test_the_same_randomness_says_the_same() -> None:
    assert react(LONG, TIDES, TASTE, 0, random.Random(7)) == react(LONG, TIDES, TASTE, 0, random.Random(7))
