"""Drives a real harness through the real proxy; the engine behind it follows a script, which looks at the prompt."""

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from drivetrain.cli.connecting.trying import Trial, run_once
from drivetrain.common.events import TurnFollowed, TurnRecorded
from drivetrain.common.harnesses import Harness
from drivetrain.common.tokens import unpack_ids
from drivetrain.proxy.prompts.templates import Template
from tests.proxy_engine import Script, StubEngine
from tests.proxy_served import Proxy

ROOT = Path(__file__).parents[2]
MODEL = ROOT / ".cache" / "tokenizers" / "qwen3"
COMMAND = "printf 'made-%s' 42 > hello.txt; cat hello.txt"
MADE = "made-42"
"""What the command says: it stands in no prompt until a harness has run it."""
INSTRUCTION = "Write hello.txt with the shell, then say that it is done."
DONE = "It is done."


@dataclass(frozen=True)
class Tool:
    """The shell of one harness: its name as a function, its arguments for a command, and how the harness is told that
    the work is done."""

    name: str
    argument: str = "command"
    others: Mapping[str, Any] = field(default_factory=dict)
    many: bool = False
    last: str | None = None

    def call(self, command: str) -> str:
        """A call as Qwen's models write one."""
        arguments = {self.argument: [command] if self.many else command, **self.others}
        return f"<tool_call>\n{json.dumps({'name': self.name, 'arguments': arguments})}\n</tool_call>"

    @property
    def end(self) -> str:
        """The last reply."""
        return self.call(self.last) if self.last else DONE


Choose = Callable[[dict[str, Any]], Script]
"""What the engine answers to a request."""


class Model:
    """Answers like a model with one plan: call the shell, and when its output is there, say that it is done. Prompts of
    calls beside the work have no such tool and get a few words."""

    def __init__(self, template: Template, tool: Tool) -> None:
        self._template, self._tool = template, tool

    def __call__(self, request: dict[str, Any]) -> Script:
        prompt = self._template.tokenizer.decode(request["token_ids"])
        if f'"name": "{self._tool.name}"' not in prompt.replace('"name":"', '"name": "'):
            return Script(self.ids("A short title"))
        return Script(self.ids(self._tool.end if MADE in prompt else f"I run it.\n{self._tool.call(COMMAND)}"))

    def ids(self, text: str) -> list[int]:
        """A reply as tokens."""
        return list(self._template.tokenizer.encode(f"{text}<|im_end|>", add_special_tokens=False))


@dataclass(frozen=True)
class Run:
    """How a harness ended, and what was recorded of it."""

    trial: Trial
    turns: list[TurnRecorded]
    followed: list[TurnFollowed]

    @property
    def work(self) -> list[TurnRecorded]:
        """The whole replies of the work itself, in order."""
        return [turn for turn in self.turns if turn.kind == "main" and turn.finish not in ("error", "aborted")]


async def drive(
    harness: Harness, dialect: str | None, proxy: Proxy, engine: StubEngine, model: Choose, timeout_s: float = 90.0
) -> Run:
    """Let a harness work on the instruction against the proxy."""
    engine.choose = model
    values: dict[str, str | int] = {
        "proxy_url": proxy.url,
        "key": "a-key-of-the-tests",
        "model": "default",
        "context": 120_000,
        "reply": 4_096,
        "instruction": INSTRUCTION,
    }
    trial = await asyncio.to_thread(run_once, harness, values, dialect, timeout_s)
    turns = sorted(await proxy.recorded(), key=lambda turn: turn.started_at)
    return Run(trial, turns, await proxy.followed())


def whole_prompt(turn: TurnRecorded, turns: list[TurnRecorded]) -> list[int]:
    """All tokens that the model was given for a turn: those of its ancestors and their replies, then its own."""
    own = unpack_ids(turn.prompt_ids)
    parent = next((other for other in turns if other.turn == turn.parent), None)
    return own if parent is None else [*whole_prompt(parent, turns), *unpack_ids(parent.response_ids), *own]
