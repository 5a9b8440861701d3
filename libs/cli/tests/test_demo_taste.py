"""Tastes as data: the built-in ones, files of one's own, and errors that name the key."""

import re
from pathlib import Path

import pytest

from drivetrain.cli.demo.checks import MISS_KINDS
from drivetrain.cli.demo.questions import Subject
from drivetrain.cli.demo.taste import BadTaste, Taste, built_in, load_taste, parse_taste

GRAVITY = Subject("gravity", "gravity")

SMALL = """
name = "loud"
about = "ends with an exclamation mark"
[checks]
ends_with = "!"
[wordings.first]
thanks = ["Yes!"]
[wordings.first.objections]
wrong_end = ["Please end with an exclamation mark. {question}"]
"""


def every_text(taste: Taste) -> list[str]:
    return [text for kind in MISS_KINDS for text in taste.objections(kind)] + list(taste.thanks())


@pytest.fixture(params=built_in())
def taste(request: pytest.FixtureRequest) -> Taste:
    return load_taste(Path(request.param))


def test_the_default_taste_is_one_sentence() -> None:
    assert load_taste().name == "one-sentence"


@pytest.mark.parametrize(
    ("reply", "kinds"),
    [
        ("Gravity is the force that pulls things toward each other.", []),
        ("Gravity pulls. It is a force that acts on everything with mass.", ["too_long"]),
        ("Gravity is force.", ["too_short"]),
        ("It is the force that pulls things toward each other.", ["no_subject"]),
        ("- Gravity is a force that pulls things together", ["listed"]),
        ("Gravity " + "very " * 30 + "strong.", ["too_long"]),
        ("", ["too_short", "too_short", "no_subject"]),
    ],
)
def test_the_default_taste_judges(reply: str, kinds: list[str]) -> None:
    assert [miss.kind for miss in load_taste().misses(reply, GRAVITY)] == kinds


def test_the_second_taste_wants_a_list() -> None:
    taste = load_taste(Path("short-list"))
    good = "- Gravity pulls things together.\n- Gravity holds the air.\n- It bends light."
    assert taste.misses(good, GRAVITY) == []
    assert [miss.kind for miss in taste.misses(good.replace("- ", "").replace("\n", " "), GRAVITY)] == ["not_listed"]
    assert [miss.kind for miss in taste.misses("1. It pulls.\n2. It holds.", GRAVITY)] == ["too_short", "no_subject"]


def test_the_default_taste_has_two_full_halves_of_wordings() -> None:
    taste = load_taste()
    assert taste.wordings.first.count() >= 30
    assert taste.wording_count() >= 60


def test_the_second_half_has_as_many_wordings_as_it_should(taste: Taste) -> None:
    least = {"one-sentence": 32, "short-list": 16}
    assert taste.wordings.second.count() >= least[taste.name]
    assert set(taste.wordings.second.objections) == set(taste.wordings.first.objections)


STATES_A_REWARD = re.compile(
    r"\d|\b(rewards?|scores?|points? (for|off)|stars?|thumbs?|rating|percent|out of)\b", re.IGNORECASE
)


def test_objections_ask_again_and_nobody_states_a_reward(taste: Taste) -> None:
    assert [text for text in every_text(taste) if STATES_A_REWARD.search(text)] == []


def test_no_wording_is_used_twice(taste: Taste) -> None:
    texts = every_text(taste)
    assert len(texts) == len(set(texts)) == taste.wording_count()


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    file = tmp_path / "loud.toml"
    file.write_text(SMALL)
    taste = load_taste(file)
    assert taste.misses("Gravity pulls!", GRAVITY) == []
    assert taste.misses("Gravity pulls.", GRAVITY)[0].how == "no '!' at the end"


def test_both_halves_of_the_wordings_are_used() -> None:
    text = (
        SMALL + '[wordings.second]\nthanks = "Wow."\n[wordings.second.objections]\nwrong_end = "Shout it. {question}"\n'
    )
    taste = parse_taste(text, "loud.toml")
    assert taste.thanks() == ("Yes!", "Wow.")
    assert len(taste.objections("wrong_end")) == 2
    assert taste.wording_count() == 4


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("ends_with", "ends_wiht", r"unknown key checks\.ends_wiht"),
        ('ends_with = "!"', "max_words = true", r"checks\.max_words"),
        ('ends_with = "!"', 'max_words = "ten"', r"checks\.max_words"),
        ('ends_with = "!"', "max_words = 0", r"checks\.max_words"),
        ('ends_with = "!"', "", r"checks: a taste needs at least one check"),
        ('ends_with = "!"', 'avoids = "um"', r"avoids needs wordings in wordings\.first\.objections\.has"),
        ('ends_with = "!"', "list = true", r"wordings\.first\.objections\.not_listed"),
        ('about = "ends with an exclamation mark"', "", r"about is missing"),
        ('name = "loud"', 'name = "Loud one"', r"name: "),
        ('["Yes!"]', "[]", r"wordings\.first\.thanks is empty"),
        ("wrong_end = ", "wrong_tone = ", r"wordings\.first\.objections\.wrong_tone"),
        ("{question}", "", r"does not ask again"),
        ("{question}", "{question} {reply}", r"unknown placeholder \{reply\}"),
        ("[checks]", "[checks", r"not valid TOML"),
    ],
)
def test_errors_name_the_file_and_the_key(old: str, new: str, named: str) -> None:
    assert old in SMALL
    with pytest.raises(BadTaste, match=named) as caught:
        parse_taste(SMALL.replace(old, new), "loud.toml")
    assert "loud.toml" in str(caught.value)


def test_a_missing_file_names_the_built_in_tastes() -> None:
    with pytest.raises(BadTaste, match=r"nowhere\.toml.*one-sentence"):
        load_taste(Path("nowhere.toml"))
