"""aider edits by a format of its own in plain text: one turn of work, and a call beside it for the commit's words."""

from pathlib import Path
from typing import Any

import pytest

from drivetrain.cli.connecting.programs import find
from drivetrain.common.harnesses import load_harnesses
from drivetrain.proxy.prompts.templates import Template
from tests.harnesses.conftest import captured
from tests.harnesses.driving import MODEL, ROOT, drive, whole_prompt
from tests.proxy_engine import Script, StubEngine
from tests.proxy_served import Proxy

EDIT = "hello.txt\n```\n<<<<<<< SEARCH\n=======\nmade-42\n>>>>>>> REPLACE\n```\n"
WORDS = "feat: add hello.txt"


@pytest.mark.long
async def test_the_edit_is_the_work_and_the_commits_words_are_beside_it(
    proxy: Proxy, engine: StubEngine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DRIVETRAIN_HOME", str(ROOT / ".harness"))
    aider = load_harnesses()["aider"]
    if find(aider) is None:
        pytest.skip("`DRIVETRAIN_HOME=.harness drivetrain harness install aider` installs it")
    tokenizer = Template(str(MODEL)).tokenizer

    def model(request: dict[str, Any]) -> Script:
        words = WORDS if "commit message" in tokenizer.decode(request["token_ids"]) else EDIT
        return Script(list(tokenizer.encode(f"{words}<|im_end|>", add_special_tokens=False)))

    run = await drive(aider, None, proxy, engine, model)
    assert run.trial.status == 0, run.trial.output
    captured(aider, "chat", run, len(engine.requests))
    assert "Applied edit to hello.txt" in run.trial.output
    assert WORDS in run.trial.output
    assert [turn.kind for turn in run.turns] == ["main", "side"]
    assert [whole_prompt(turn, run.turns) for turn in run.turns] == [sent["token_ids"] for sent in engine.requests]
