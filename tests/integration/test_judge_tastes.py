"""The wordings in which the demo's people react are read right, and their objections give hints.

Only the first half of each taste is looked at: the second is there to find out how the judge does with words that
nobody had in view when its rules were written.
"""

from importlib import resources

import pytest

from drivetrain.cli.demo.taste import Taste, built_in, parse_taste
from drivetrain.judge.hints import Leaks, accept, directives
from drivetrain.judge.reading import read

QUESTION = "What is photosynthesis?"
WITHOUT = {"You never mentioned photosynthesis. Please list facts that name it. What is photosynthesis?"}
"""An objection whose directive names what was asked for, and is taken for the question again."""


def first_half(name: str) -> Taste:
    text = (resources.files("drivetrain.cli.demo") / "tastes" / f"{name}.toml").read_text()
    return parse_taste(text, name)


@pytest.mark.parametrize("name", built_in())
def test_objections_and_thanks_are_read_right(name: str) -> None:
    first = first_half(name).wordings.first
    told = [text for texts in first.objections.values() for text in texts]
    objections = [text.format(question=QUESTION, subject="photosynthesis") for text in told]
    assert [text for text in objections if read(text, [QUESTION]).verdict != -1] == []
    assert [text for text in first.thanks if read(text, [QUESTION]).verdict != 1] == []
    given = {text for text in objections if accept(directives(text, [QUESTION]), Leaks.of([]))}
    assert set(objections) - given <= WITHOUT
