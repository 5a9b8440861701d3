"""A harness is one file: it is checked when it is read, and its templates are filled as they stand."""

from pathlib import Path

import pytest

from drivetrain.common.declarations import BadDeclaration
from drivetrain.orchestrator.harnesses import PLACEHOLDERS, built_in_folder, load_harnesses, parse_harness

VALUES = {name: f"<{name}>" for name in PLACEHOLDERS}
SMALLEST = {"name": "x", "argv": ["x", "{instruction}"], "install": "pip install x"}


def test_the_built_in_harnesses_point_at_the_proxy_with_the_rollouts_key() -> None:
    harnesses = load_harnesses([built_in_folder()])
    assert set(harnesses) == {"command", "mini-swe-agent"}
    for harness in harnesses.values():
        _, environment = harness.fill(VALUES)
        assert environment["OPENAI_API_KEY"] == "<key>"
        assert environment["OPENAI_API_BASE"] == "<proxy_url>/v1"


def test_mini_swe_agent_is_asked_for_the_policy_and_the_instruction() -> None:
    argv, _ = load_harnesses([built_in_folder()])["mini-swe-agent"].fill(VALUES)
    assert argv[:3] == ("mini", "-m", "openai/<model>")
    assert argv[argv.index("-t") + 1] == "<instruction>"


def test_adding_a_harness_is_one_file(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('name = "mine"\nargv = ["mine", "{instruction}"]\ninstall = "build it"\n')
    assert load_harnesses([built_in_folder(), tmp_path])["mine"].argv == ["mine", "{instruction}"]


def test_a_value_with_braces_is_inserted_as_it_is() -> None:
    argv, _ = parse_harness(SMALLEST, "x.toml").fill({**VALUES, "instruction": "print {key} and {}"})
    assert argv == ("x", "print {key} and {}")


def test_a_doubled_brace_is_literal() -> None:
    harness = parse_harness({**SMALLEST, "environment": {"JSON": '{{"k": "{key}"}}'}}, "x.toml")
    assert harness.fill(VALUES)[1] == {"JSON": '{"k": "<key>"}'}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"argv": ["x", "{keys}"]}, "argv[1] uses {keys}"),
        ({"environment": {"A": "{0}"}}, "environment.A uses {0}"),
        ({"environment": {"A": "{key!r}"}}, "environment.A uses {key}"),
        ({"environment": {"A": "{key"}}, "environment.A is no template"),
        ({"argv": []}, "argv"),
        ({"end": {"status": [0]}}, "unknown key end.status"),
        ({"dialect": "chat"}, "unknown key dialect"),
    ],
)
def test_a_bad_harness_is_refused_by_name(change: dict[str, object], said: str) -> None:
    with pytest.raises(BadDeclaration) as caught:
        parse_harness({**SMALLEST, **change}, "x.toml")
    assert said in str(caught.value)


def test_a_file_must_be_named_after_its_harness(tmp_path: Path) -> None:
    (tmp_path / "y.toml").write_text('name = "x"\nargv = ["x"]\ninstall = ""\n')
    with pytest.raises(BadDeclaration, match="rename the file or the harness"):
        load_harnesses([tmp_path])


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadDeclaration, match="correct harness_folders"):
        load_harnesses([tmp_path / "none"])


def test_a_signal_is_never_a_regular_end() -> None:
    strict = parse_harness(SMALLEST, "x.toml").end
    lenient = parse_harness({**SMALLEST, "end": {"any_status": True}}, "x.toml").end
    assert [strict.is_regular(status) for status in (0, 1, -9)] == [True, False, False]
    assert [lenient.is_regular(status) for status in (0, 1, -9)] == [True, True, False]
