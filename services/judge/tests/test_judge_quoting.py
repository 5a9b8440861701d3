"""What counts as a quotation of what a judge model was shown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivetrain.judge.asking.prompt import transcript
from drivetrain.judge.asking.quoting import is_quoted

SHOWN = [
    '{"role": "tool", "content": "FAILED tests/test_a.py::test_sum\\nassert 3 == 4\\n1 failed in 0.1s"}',
    "也不对，再短一点 👍",
]


@pytest.mark.parametrize(
    "evidence",
    [
        "assert 3 == 4",
        "1 failed",
        "ASSERT 3==4",
        "`assert 3 == 4`",
        "test_sum\nassert 3",
        "FAILED tests/test_a.py … 1 failed in 0.1s",
        "FAILED tests/test_a.py ... 1 failed",
        "再短一点",
        "👍",
    ],
)
def test_words_that_stand_there_are_a_quotation(evidence: str) -> None:
    assert is_quoted(evidence, SHOWN)


@pytest.mark.parametrize(
    "evidence",
    [
        "",
        "  ",
        "…",
        "...",
        '""',
        "assert 3 == 5",
        "2 failed",
        "the test fails",
        "FAILED tests ... all passed",
        "太长了",
        "👎",
    ],
)
def test_anything_else_is_none(evidence: str) -> None:
    assert not is_quoted(evidence, SHOWN)


def test_one_of_the_texts_must_hold_it_whole() -> None:
    assert not is_quoted("one two", ["one", "two"])
    assert is_quoted("one … two", ["one", "two"])


PLAIN = st.text(min_size=1, max_size=60).filter(lambda text: not any(part in text for part in ("\\", "…", "..")))


@given(PLAIN, st.data())
def test_any_words_of_a_message_are_a_quotation_of_its_transcript(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text) - 1))
    span = text[start : data.draw(st.integers(start + 1, len(text)))]
    shown = transcript([{"role": "user", "content": text}], 1000, mask=False)
    assert is_quoted(span, [shown]) or not any(letter.isalnum() for letter in span)
    assert not is_quoted(f"{span} and zqx", [shown])
