"""A rubric: criteria with weights, in a TOML file that a policy names."""

import math
import tomllib
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from drivetrain.common.errors import CannotStart

Name = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_]{0,39}$")]
"""Of a criterion: it is a key of what the judge model answers."""


class BadRubric(CannotStart):
    """A rubric that cannot be used; the message names the file, the key, and the remedy."""


class Criterion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`text` says what meets it."""

    name: Name
    text: Annotated[str, Meta(min_length=1, max_length=2000)]
    weight: Annotated[float, Meta(gt=0, le=1000)] = 1.0


class Rubric(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a reply is held against."""

    criteria: Annotated[tuple[Criterion, ...], Meta(min_length=1, max_length=20)]


def load_rubric(path: Path) -> Rubric:
    """The rubric in a TOML file, with a `[[criteria]]` for each criterion.

    Raises:
        BadRubric: no such file, no TOML, an unknown key, a value out of range, or two criteria of one name.
    """
    try:
        rubric = msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), Rubric)
    except OSError as error:
        raise BadRubric(f"the rubric {path} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadRubric(f"the rubric {path} is not a TOML file: {error}") from error
    except msgspec.ValidationError as error:
        raise BadRubric(f"the rubric {path}: {error}: a criterion has name, text, weight, and nothing else") from error
    names = [criterion.name for criterion in rubric.criteria]
    if twice := [name for name in names if names.count(name) > 1]:
        raise BadRubric(f"the rubric {path} has two criteria of the name {twice[0]!r}: name each once")
    return rubric


def weighted_mean(values: list[tuple[float | None, float]]) -> float | None:
    """The mean of (value, weight) pairs over those with a value, in their range; None where none has one."""
    known = [(value, weight) for value, weight in values if value is not None]
    total = math.fsum(weight for _, weight in known)
    return math.fsum(value * weight for value, weight in known) / total if known else None
