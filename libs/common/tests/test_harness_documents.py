"""Settings files: what Drivetrain puts there joins what a person has there, and what is there stays."""

import json
import tomllib
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from drivetrain.common.harnesses.documents import BadDocument, merge, written

READ: dict[str, Callable[[str], Any]] = {"json": json.loads, "yaml": yaml.safe_load, "toml": tomllib.loads}
OURS: dict[str, Any] = {"model": "mine", "providers": {"drivetrain": {"url": "http://p/v1", "size": 8192}}}


@pytest.mark.parametrize("kind", READ)
def test_a_new_file_holds_the_content_and_nothing_else(kind: str) -> None:
    assert READ[kind](written(kind, OURS)) == OURS


@pytest.mark.parametrize(
    ("kind", "before"),
    [
        ("json", '{"model": "old", "theme": "dark", "providers": {"other": {"url": "u"}}}'),
        ("yaml", "model: old\ntheme: dark\nproviders:\n  other: {url: u}\n"),
        ("toml", 'model = "old"\ntheme = "dark"\n[providers.other]\nurl = "u"\n'),
    ],
)
def test_what_a_person_had_there_stays(kind: str, before: str) -> None:
    now = READ[kind](written(kind, OURS, before))
    assert now["theme"] == "dark"
    assert now["providers"] == {"other": {"url": "u"}, **OURS["providers"]}
    assert now["model"] == "mine"
    assert written(kind, OURS, written(kind, OURS, before)) == written(kind, OURS, before)


def test_a_comment_in_toml_stays_and_a_new_key_does_not_fall_into_the_last_table() -> None:
    now = written("toml", {"model": "mine"}, "# my own settings\n[profile]\nname = 'x' # why\n")
    assert "# my own settings" in now
    assert "# why" in now
    assert tomllib.loads(now) == {"model": "mine", "profile": {"name": "x"}}


def test_an_env_file_keeps_its_other_lines() -> None:
    before = "# keys\nexport API_KEY=old\nOTHER=1\n"
    assert written("env", {"API_KEY": "new", "URL": "http://p"}, before) == (
        "# keys\nOTHER=1\nAPI_KEY=new\nURL=http://p\n"
    )


@pytest.mark.parametrize(("kind", "before"), [("json", "{"), ("json", "[1]"), ("toml", "a ="), ("yaml", "a: [")])
def test_a_file_that_cannot_be_read_is_not_touched(kind: str, before: str) -> None:
    with pytest.raises(BadDocument, match=f"not valid {kind}"):
        written(kind, OURS, before)


def test_mappings_are_merged_and_lists_replaced() -> None:
    assert merge({"a": {"b": 1, "c": [1]}, "d": 1}, {"a": {"c": [2]}, "d": {"e": 1}}) == {
        "a": {"b": 1, "c": [2]},
        "d": {"e": 1},
    }
