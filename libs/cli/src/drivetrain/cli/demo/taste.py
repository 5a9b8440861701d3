"""A taste as data: what a person likes in a reply, and the words in which they react. One TOML file is one taste.

```toml
name = "one-sentence"
about = "what the person likes, for people to read"

[checks]                    # see checks.py; at least one
sentences = 1
contains = ["for example"]  # any of these

[wordings.first.objections] # by kind of miss; {question} and {subject} are filled in
too_long = ["Too long! Answer in one sentence. {question}"]

[wordings.first]
thanks = ["Perfect, thanks!"]
```
`wordings.second` has the same form and adds to the first. A check whose kinds of miss have no wording is refused.
"""

import tomllib
from importlib import resources
from pathlib import Path
from string import Formatter
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator, model_validator

from drivetrain.cli.demo.checks import CHECKS, Miss, MissKind
from drivetrain.cli.demo.questions import Subject

DEFAULT = "one-sentence"
_PLACEHOLDERS = {"question", "subject"}


class BadTaste(ValueError):
    """A taste file that cannot be used; the message names the file, the key, and what is wrong with it."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def _as_tuple(value: Any) -> Any:
    """Lists of TOML become tuples, and a single text stands for a list of one."""
    if isinstance(value, str):
        return (value,)
    return tuple(value) if isinstance(value, list) else value


Text = Annotated[str, Field(min_length=1)]
Texts = Annotated[tuple[Text, ...], BeforeValidator(_as_tuple), Field(min_length=1)]
SomeTexts = Annotated[tuple[Text, ...], BeforeValidator(_as_tuple)]
Count = Annotated[int, Field(ge=1)]


class Checks(_Part):
    """Which checks a taste makes; those left out are not made."""

    list: bool | None = None
    sentences: Count | None = None
    max_sentences: Count | None = None
    max_words: Count | None = None
    max_chars: Count | None = None
    min_words: Count | None = None
    names_subject: bool | None = None
    starts_with: Texts | None = None
    ends_with: Texts | None = None
    contains: Texts | None = None
    avoids: Texts | None = None

    def made(self) -> dict[str, Any]:
        """The checks that are made, by name, in the order in which a person would complain."""
        return {name: getattr(self, name) for name in CHECKS if getattr(self, name) is not None}

    @model_validator(mode="after")
    def _some(self) -> "Checks":
        if not self.made():
            raise ValueError("a taste needs at least one check")
        return self


class Wordings(_Part):
    """How a person reacts: objections by kind of miss, and thanks."""

    objections: dict[MissKind, SomeTexts] = {}
    thanks: SomeTexts = ()

    @field_validator("objections")
    @classmethod
    def _placeholders(cls, objections: dict[MissKind, SomeTexts]) -> dict[MissKind, SomeTexts]:
        for wording in (text for texts in objections.values() for text in texts):
            fields = {name for _, name, _, _ in Formatter().parse(wording) if name is not None}
            if unknown := fields - _PLACEHOLDERS:
                raise ValueError(f"unknown placeholder {{{min(unknown)}}}: use {{question}} and {{subject}}")
            if "question" not in fields:
                raise ValueError(f"the objection {wording!r} does not ask again: put {{question}} in it")
        return objections

    def count(self) -> int:
        """How many different wordings these are."""
        return len({text for texts in (*self.objections.values(), self.thanks) for text in texts})


class WordingSets(_Part):
    """Two halves, so that one can be written without knowing what the judge makes of the other."""

    first: Wordings
    second: Wordings = Wordings()


class Taste(_Part):
    """What a person likes in a reply, and how they say so."""

    name: Annotated[str, Field(pattern="^[a-z0-9-]{1,64}$")]
    about: Text
    checks: Checks
    wordings: WordingSets

    def misses(self, reply: str, subject: Subject) -> list[Miss]:
        """Every way in which a reply misses this taste, the one to complain about first in front; empty if it fits."""
        found = (CHECKS[name][0](reply, subject, wanted) for name, wanted in self.checks.made().items())
        return [miss for miss in found if miss is not None]

    def objections(self, kind: MissKind) -> tuple[str, ...]:
        """All wordings for one kind of miss."""
        return self.wordings.first.objections.get(kind, ()) + self.wordings.second.objections.get(kind, ())

    def thanks(self) -> tuple[str, ...]:
        """All wordings of thanks."""
        return self.wordings.first.thanks + self.wordings.second.thanks

    def wording_count(self) -> int:
        """How many wordings a person with this taste has."""
        return self.wordings.first.count() + self.wordings.second.count()

    @model_validator(mode="after")
    def _speakable(self) -> "Taste":
        for name, wanted in self.checks.made().items():
            for kind in _possible_kinds(name, wanted):
                if not self.objections(kind):
                    raise ValueError(f"the check {name} needs wordings in wordings.first.objections.{kind}")
        if not self.thanks():
            raise ValueError("wordings.first.thanks is empty: write at least one")
        return self


def _possible_kinds(name: str, wanted: Any) -> tuple[MissKind, ...]:
    if name == "list":
        return ("not_listed",) if wanted else ("listed",)
    return () if wanted is False else CHECKS[name][1]


def parse_taste(text: str, source: str) -> Taste:
    """Read a taste from the text of a TOML file; `source` is named in errors.

    Raises:
        BadTaste: not TOML, an unknown key, a missing or wrong value.
    """
    try:
        return Taste.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise BadTaste(f"{source} is not valid TOML: {error}") from error
    except ValidationError as error:
        raise BadTaste(f"{source}: {_explain(error)}") from error


def load_taste(file: Path | None = None) -> Taste:
    """The taste in a file, the built-in taste of that name, or the default.

    Raises:
        BadTaste: there is no such file, or it cannot be used.
    """
    name = DEFAULT if file is None else str(file)
    if name in built_in():
        packaged = resources.files("drivetrain.cli.demo") / "tastes" / f"{name}.toml"
        return parse_taste(packaged.read_text(), f"the built-in taste {name}")
    path = Path(name)
    if not path.is_file():
        raise BadTaste(f"there is no taste file {name}: give a TOML file or one of {', '.join(built_in())}")
    return parse_taste(path.read_text(), name)


def built_in() -> list[str]:
    """The names of the tastes that come with the package."""
    folder = resources.files("drivetrain.cli.demo") / "tastes"
    return sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml"))


def _explain(error: ValidationError) -> str:
    lines = []
    for problem in error.errors():
        where = ".".join(str(part) for part in problem["loc"])
        if problem["type"] == "extra_forbidden":
            lines.append(f"unknown key {where}")
        elif problem["type"] == "missing":
            lines.append(f"{where} is missing")
        else:
            lines.append(": ".join(part for part in (where, problem["msg"].removeprefix("Value error, ")) if part))
    return "; ".join(lines)
