"""Real harnesses through the real proxy: every model call is a turn with its exact tokens, in its place.

Only the engine is scripted: the prompts of most of them need a larger model than a test can run.
"""

from typing import Any

import pytest

from drivetrain.cli.connecting.programs import find
from drivetrain.common.harnesses import Harness, load_harnesses
from drivetrain.common.tokens import unpack_ids
from drivetrain.proxy.prompts.templates import Template
from tests.harnesses.conftest import captured
from tests.harnesses.driving import MADE, ROOT, Model, Tool, drive, whole_prompt
from tests.proxy_engine import Script, StubEngine
from tests.proxy_served import Proxy

SHELLS = {
    "claude-code": Tool("Bash", others={"description": "write a file"}),
    "codex": Tool("exec_command", "cmd"),
    "pi": Tool("bash"),
    "openclaw": Tool("exec"),
    "mini-swe-agent": Tool("bash", last="echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"),
    "opencode": Tool("bash", others={"description": "write a file"}),
    "qwen-code": Tool("run_shell_command", others={"is_background": False}),
    "gemini-cli": Tool("run_shell_command"),
    "cline": Tool("run_commands", "commands", many=True),
    "nanobot": Tool("exec"),
    "hermes": Tool("terminal"),
    "openhands": Tool("terminal", others={"security_risk": "LOW"}),
}
ALWAYS = ("claude-code", "codex", "pi", "openclaw", "mini-swe-agent")
"""Those that `make test` installs and runs; the others run in `make test-all`, as far as they are installed."""
KNOWN = load_harnesses()
NOT_CUT = {
    ("gemini-cli", "gemini"): "ends its run",
    ("openclaw", "messages"): "ends its run",
    ("qwen-code", "chat"): "ends its run",
    ("cline", "chat"): "ends its run",
    ("nanobot", "chat"): "ends its run",
    ("hermes", "chat"): "goes on from the half reply as another conversation",
}
"""What these do when they are told that a reply broke off in its middle."""


def cases(names: Any = SHELLS) -> list[Any]:
    """Each harness in each dialect that it speaks."""
    return [
        pytest.param(KNOWN[name], dialect, marks=[] if name in ALWAYS else [pytest.mark.long], id=f"{name}-{dialect}")
        for name in names
        for dialect in KNOWN[name].dialects
        if name in ALWAYS or dialect == next(iter(KNOWN[name].dialects))
    ]


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Harnesses are those of this checkout. One of the five that is missing is an error of the set-up."""
    monkeypatch.setenv("DRIVETRAIN_HOME", str(ROOT / ".harness"))
    harness: Harness = request.getfixturevalue("harness")
    if find(harness) is None:
        assert harness.name not in ALWAYS, f"{harness.name} is missing: `make test` installs it"
        pytest.skip(f"`DRIVETRAIN_HOME=.harness drivetrain harness install {harness.name}` installs it")


@pytest.mark.parametrize(("harness", "dialect"), cases())
async def test_every_model_call_is_a_turn_in_its_place(
    harness: Harness, dialect: str, proxy: Proxy, engine: StubEngine, template: Template
) -> None:
    run = await drive(harness, dialect, proxy, engine, Model(template, SHELLS[harness.name]))
    assert run.trial.status == 0, run.trial.output
    captured(harness, dialect, run, len(engine.requests))
    assert len(run.turns) == len(engine.requests)
    first, last = run.work
    assert (last.parent, last.session, last.thread) == (first.turn, first.session, first.thread)
    assert last.drift in ("clean", "realigned"), last.drift_cause
    sent = {tuple(request["token_ids"]) for request in engine.requests}
    assert {tuple(whole_prompt(turn, run.turns)) for turn in run.turns} == sent
    begun = whole_prompt(first, run.turns) + unpack_ids(first.response_ids)
    assert whole_prompt(last, run.turns)[: len(begun)] == begun
    (told,) = [followed for followed in run.followed if followed.turn == first.turn and followed.kind == "messages"]
    assert MADE in str(told.messages), "what the tool said is the next state"


@pytest.mark.parametrize(("harness", "dialect"), cases())
async def test_a_retry_is_still_one_trajectory(
    harness: Harness, dialect: str, proxy: Proxy, engine: StubEngine, template: Template
) -> None:
    model = Model(template, SHELLS[harness.name])
    half = model.ids("I was going to say something longer than this.")
    cut = [] if (harness.name, dialect) in NOT_CUT else [Script(half, die_after=4)]
    engine.scripts = [Script([], status=500), Script(half, reset=True), *cut]
    run = await drive(harness, dialect, proxy, engine, model)
    assert run.trial.status == 0, run.trial.output
    first, last = run.work
    assert (last.parent, last.session) == (first.turn, first.session)
    if harness.name != "openclaw":  # after a failure it rewrites its first message, with the minute in it
        assert {turn.session for turn in run.turns} == {first.session}
    told = [followed.turn for followed in run.followed if followed.kind == "messages"]
    assert told == [first.turn]
