"""What the person asks about: subjects for practice and held-out ones, and the forms of the questions."""

import random
from dataclasses import dataclass
from functools import cache
from importlib import resources

FORMS = (
    "What is {one}?",
    "Can you explain what {one} is?",
    "Tell me about {many}.",
    "What can you tell me about {many}?",
    "How would you describe {one}?",
    "Could you explain {many} to me?",
    "I was reading about {many}. What is {one}?",
    "My daughter asked me what {one} is. What should I say?",
)


@dataclass(frozen=True)
class Subject:
    """A thing to ask about, as it reads in `What is …?` and in `Tell me about ….`"""

    one: str
    many: str


@dataclass(frozen=True)
class Question:
    """A question as asked, and the subject that a reply should be about."""

    text: str
    subject: Subject


def parse_subjects(text: str) -> tuple[Subject, ...]:
    """Subjects from lines such as `a volcano / volcanoes` or `gravity`; blank lines and `#` comments are skipped."""
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    forms = (line.partition("/") for line in lines if line)
    return tuple(Subject(one.strip(), many.strip() or one.strip()) for one, _, many in forms)


@cache
def training_subjects() -> tuple[Subject, ...]:
    """The subjects of the sessions that train."""
    return _packaged("training.txt")


@cache
def heldout_subjects() -> tuple[Subject, ...]:
    """The subjects of the evaluation: none of them is ever asked about in a session."""
    return _packaged("heldout.txt")


def ask_about(subject: Subject, rng: random.Random) -> Question:
    """A question about a subject, in a random form."""
    return Question(rng.choice(FORMS).format(one=subject.one, many=subject.many), subject)


def training_questions(count: int, rng: random.Random) -> list[Question]:
    """As many questions as asked for; every subject comes up once before any comes up again."""
    asked: list[Question] = []
    while len(asked) < count:
        round_of_subjects = rng.sample(training_subjects(), len(training_subjects()))
        asked += [ask_about(subject, rng) for subject in round_of_subjects]
    return asked[:count]


def heldout_questions() -> list[Question]:
    """One question about each held-out subject, the same in every run, all forms equally often."""
    return [
        Question(FORMS[index % len(FORMS)].format(one=subject.one, many=subject.many), subject)
        for index, subject in enumerate(heldout_subjects())
    ]


def _packaged(name: str) -> tuple[Subject, ...]:
    return parse_subjects((resources.files("drivetrain.cli.demo") / "subjects" / name).read_text())
