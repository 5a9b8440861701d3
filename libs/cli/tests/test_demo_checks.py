"""Every check of a taste, against replies written by hand."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from drivetrain.cli.demo.checks import CHECKS, MISS_KINDS
from drivetrain.cli.demo.measures import is_list, names, sentences, stem, words
from drivetrain.cli.demo.questions import Subject

VOLCANO = Subject("a volcano", "volcanoes")
OAK = Subject("an oak tree", "oak trees")

PLAIN = "A volcano is an opening in the ground through which molten rock and gas escape."


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (PLAIN, 1),
        ("It erupts. Lava flows!", 2),
        ("Is it hot? Very.", 2),
        ("It is about 3.5 km wide.", 1),
        ("Dr. Smith studied gases, e.g. steam, for years.", 1),
        ("In the U.S. it is rare. In Iceland it is not.", 2),
        ("One line without a stop", 1),
        ("First line\nsecond line", 2),
        ('He said "run!" and we ran.', 2),
        ("Well... it depends.", 2),
        ("", 0),
        ("...", 0),
    ],
)
def test_counts_sentences(text: str, count: int) -> None:
    assert len(sentences(text)) == count


def test_hyphens_and_apostrophes_hold_a_word_together() -> None:
    assert words("It's a well-known, 3-part plan – really!") == ["It's", "a", "well-known", "3-part", "plan", "really"]


@pytest.mark.parametrize(
    "text",
    [
        "Facts:\n- hot\n- loud",
        "1. It is hot.\n2. It is loud.",
        "* hot\n* loud",
        "Types: 1. shield 2. cone 3. dome",
        "# Volcanoes\nThey are hot.",
        "• hot",
    ],
)
def test_sees_lists(text: str) -> None:
    assert is_list(text)


@pytest.mark.parametrize("text", [PLAIN, "It is -5 degrees.", "It was born in 1. Then it grew.", "A - B is a range"])
def test_prose_is_no_list(text: str) -> None:
    assert not is_list(text)


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("Volcanoes", "volcano"), ("allergies", "allergy"), ("boxes", "box"), ("churches", "church"),
        ("grass", "grass"), ("virus", "virus"), ("moon's", "moon"), ("tree", "tree"), ("horses", "horse"),
    ],
)  # fmt: skip
def test_stems(word: str, expected: str) -> None:
    assert stem(word) == expected


@pytest.mark.parametrize(
    ("text", "subject", "named"),
    [
        (PLAIN, VOLCANO, True),
        ("Volcanoes are hot.", VOLCANO, True),
        ("The volcano's crater is hot.", VOLCANO, True),
        ("It is an opening in the ground.", VOLCANO, False),
        ("Volcanic rock is black.", VOLCANO, False),
        ("Oaks are trees.", OAK, True),
        ("Trees are plants.", OAK, False),
        ("Bacteria are tiny.", Subject("a bacterium", "bacteria"), True),
        ("A bacterium is tiny.", Subject("a bacterium", "bacteria"), True),
    ],
)
def test_finds_the_subject(text: str, subject: Subject, named: bool) -> None:
    assert names(text, subject) is named


@pytest.mark.parametrize(
    ("check", "wanted", "fits", "misses", "kind"),
    [
        ("sentences", 1, PLAIN, PLAIN + " They are hot.", "too_long"),
        ("sentences", 1, PLAIN, "", "too_short"),
        ("sentences", 2, "Hot. Loud.", "Hot.", "too_short"),
        ("max_sentences", 2, "Hot. Loud.", "Hot. Loud. Big.", "too_long"),
        ("max_words", 3, "one two three", "one two three four", "too_long"),
        ("min_words", 3, "one two three", "one two", "too_short"),
        ("max_chars", 5, " 12345 ", "123456", "too_long"),
        ("list", False, PLAIN, "- hot\n- loud", "listed"),
        ("list", True, "- hot\n- loud", PLAIN, "not_listed"),
        ("names_subject", True, PLAIN, "It is hot.", "no_subject"),
        ("starts_with", ("sure", "well"), "Well, it is hot.", "It is hot.", "wrong_start"),
        ("ends_with", ("?",), "Shall I go on? ", "It is hot.", "wrong_end"),
        ("contains", ("for example",), "Hot. For example, lava.", "Hot.", "lacks"),
        ("avoids", ("lava",), "Hot.", "Hot Lava.", "has"),
    ],
)
def test_a_check_says_how_a_reply_misses(check: str, wanted: object, fits: str, misses: str, kind: str) -> None:
    rule, kinds = CHECKS[check]
    assert rule(fits, VOLCANO, wanted) is None
    miss = rule(misses, VOLCANO, wanted)
    assert miss is not None
    assert (miss.check, miss.kind) == (check, kind)
    assert kind in kinds
    assert miss.how


def test_a_subject_may_also_be_left_free() -> None:
    assert CHECKS["names_subject"][0]("It is hot.", VOLCANO, False) is None


def test_every_kind_of_miss_is_declared() -> None:
    assert {kind for _, kinds in CHECKS.values() for kind in kinds} == set(MISS_KINDS)


@given(st.lists(st.sampled_from(["Snow is cold", "It melts", "Who knows", "Rain falls"]), min_size=1, max_size=6))
def test_as_many_sentences_as_were_put_together(parts: list[str]) -> None:
    assert len(sentences(" ".join(f"{part}." for part in parts))) == len(parts)
    assert len(sentences("\n\n".join(parts))) == len(parts)


@given(st.text(max_size=400))
def test_every_check_takes_any_text(text: str) -> None:
    wanted: dict[str, object] = {"list": False, "names_subject": True}
    phrases = ("for example",)
    for name, (rule, kinds) in CHECKS.items():
        textual = name in ("starts_with", "ends_with", "contains", "avoids")
        miss = rule(text, VOLCANO, phrases if textual else wanted.get(name, 2))
        assert miss is None or (miss.check == name and miss.kind in kinds)


@given(st.text(max_size=300))
def test_sentences_lose_no_word(text: str) -> None:
    assert sum(len(words(part)) for part in sentences(text)) == len(words(" ".join(text.splitlines())))
