"""Terminus-2 types into a terminal by JSON in plain text, and names its session itself."""

import json
import shutil
from typing import Any

import pytest

from drivetrain.cli.connecting.programs import find
from drivetrain.common.harnesses import load_harnesses
from drivetrain.proxy.prompts.templates import Template
from tests.harnesses.conftest import captured
from tests.harnesses.driving import COMMAND, MADE, MODEL, ROOT, drive, whole_prompt
from tests.proxy_engine import Script, StubEngine
from tests.proxy_served import Proxy


@pytest.mark.long
async def test_what_the_terminal_shows_is_the_next_state(
    proxy: Proxy, engine: StubEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRIVETRAIN_HOME", str(ROOT / ".harness"))
    terminus = load_harnesses()["terminus-2"]
    if find(terminus) is None or shutil.which("tmux") is None:
        pytest.skip("`drivetrain harness install terminus-2` and `apt install tmux` bring what this needs")
    tokenizer = Template(str(MODEL)).tokenizer

    def model(request: dict[str, Any]) -> Script:
        done = MADE in tokenizer.decode(request["token_ids"])
        types = [] if done else [{"keystrokes": f"{COMMAND}\n", "duration": 1.0}]
        words = json.dumps({"analysis": "-", "plan": "-", "commands": types, "task_complete": done})
        return Script(list(tokenizer.encode(f"{words}<|im_end|>", add_special_tokens=False)))

    run = await drive(terminus, None, proxy, engine, model)
    assert run.trial.status == 0, run.trial.output
    captured(terminus, "chat", run, len(engine.requests))
    first, *others = run.turns
    assert {turn.session for turn in others} == {first.session}
    assert [turn.parent for turn in others] == [turn.turn for turn in run.turns[:-1]]
    assert all(turn.exact and turn.kind == "main" for turn in run.turns)
    assert [whole_prompt(turn, run.turns) for turn in run.turns] == [sent["token_ids"] for sent in engine.requests]
    assert MADE in str([followed.messages for followed in run.followed])
