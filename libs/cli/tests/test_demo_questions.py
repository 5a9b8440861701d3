"""The questions: enough of them, none held out and trained at once, the same for the same seed."""

import random
from collections import Counter

from drivetrain.cli.demo.measures import names, stem, subject_words
from drivetrain.cli.demo.questions import (
    FORMS,
    Subject,
    heldout_questions,
    heldout_subjects,
    parse_subjects,
    training_questions,
    training_subjects,
)


def keys(subjects: tuple[Subject, ...]) -> list[frozenset[str]]:
    return [frozenset(stem(word) for word in subject_words(subject.many)) for subject in subjects]


def test_there_are_enough_subjects_and_none_twice() -> None:
    training, heldout = keys(training_subjects()), keys(heldout_subjects())
    assert len(set(training)) == len(training) >= 150
    assert len(set(heldout)) == len(heldout) >= 64


def test_no_heldout_subject_is_trained() -> None:
    assert not set(keys(training_subjects())) & set(keys(heldout_subjects()))


def test_subjects_name_themselves() -> None:
    for subject in training_subjects() + heldout_subjects():
        assert names(f"I like {subject.one}.", subject)
        assert names(f"I like {subject.many}.", subject)


def test_reads_subjects_in_one_or_two_forms() -> None:
    text = "# comment\na fox / foxes\n\nrain  # also a comment\n"
    assert parse_subjects(text) == (Subject("a fox", "foxes"), Subject("rain", "rain"))


def test_training_covers_all_subjects_before_it_repeats() -> None:
    count = len(training_subjects())
    asked = training_questions(count + 5, random.Random(1))
    assert len({question.subject for question in asked[:count]}) == count
    assert len(asked) == count + 5


def test_the_same_seed_asks_the_same_questions() -> None:
    assert training_questions(20, random.Random(3)) == training_questions(20, random.Random(3))
    assert training_questions(20, random.Random(3)) != training_questions(20, random.Random(4))


def test_heldout_questions_use_every_form() -> None:
    questions = heldout_questions()
    assert len({question.text for question in questions}) == len(questions)
    forms = Counter(index % len(FORMS) for index in range(len(questions)))
    assert max(forms.values()) - min(forms.values()) <= 1
    assert questions == heldout_questions()
