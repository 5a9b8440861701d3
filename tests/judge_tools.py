"""Tool results and calls for tests of what the judge reads in them."""

import json
from typing import Any

from drivetrain.common.events import Message
from drivetrain.judge.sources.base import Case
from drivetrain.judge.sources.environment import Environment

REPLY: Message = {"role": "assistant", "content": ""}


def tool(text: str, **fields: Any) -> Message:
    return {"role": "tool", "tool_call_id": "c", "content": text, **fields}


def call(name: str, **arguments: Any) -> Message:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "type": "function", "function": function}]}


async def votes(*after: Message, reply: Message = REPLY) -> list[tuple[float, str]]:
    return [(vote.value, vote.evidence) for vote in (await Environment().judge(Case((), reply, after))).votes]
