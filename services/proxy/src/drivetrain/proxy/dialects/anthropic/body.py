"""The request of Anthropic Messages, as far as it is honoured."""

from typing import Annotated, Any, Literal

import msgspec

from drivetrain.proxy.dialects.anthropic.blocks import AssistantBlock, SystemBlock, UserBlock
from drivetrain.proxy.dialects.base import Support
from drivetrain.proxy.dialects.reading import DATA_ALONE, HINT_NOTES, IMAGES, Hints

_Name = Annotated[str, msgspec.Meta(min_length=1)]


class UserMessage(msgspec.Struct, tag_field="role", tag="user"):
    """What the user, or a tool, says."""

    content: str | list[UserBlock]


class AssistantMessage(msgspec.Struct, tag_field="role", tag="assistant"):
    """What the model said."""

    content: str | list[AssistantBlock]


class SystemMessage(msgspec.Struct, tag_field="role", tag="system"):
    """Instructions inside the conversation."""

    content: str | list[SystemBlock]


Message = UserMessage | AssistantMessage | SystemMessage


class Tool(msgspec.Struct):
    """A tool that the client runs."""

    name: _Name
    input_schema: dict[str, Any]
    description: str | None = None
    type: Literal["custom"] | None = None


class ToolChoice(msgspec.Struct):
    """Whether a tool has to be called."""

    type: Literal["auto", "any", "tool", "none"]
    name: _Name | None = None
    disable_parallel_tool_use: bool | None = None


class Format(msgspec.Struct):
    """The form of the reply's text."""

    type: Literal["json_schema"]
    schema: dict[str, Any]


class OutputConfig(msgspec.Struct):
    """How the reply is given."""

    format: Format | None = None
    effort: str | None = None


class Metadata(msgspec.Struct):
    """Who asks."""

    user_id: str | None = None


class CountBody(Hints, kw_only=True):
    """The fields that decide the prompt."""

    model: str
    messages: Annotated[list[Message], msgspec.Meta(min_length=1)]
    system: str | list[SystemBlock] | None = None
    tools: list[Tool] | None = None
    tool_choice: ToolChoice | None = None


class Body(CountBody, kw_only=True):
    """The supported fields; a value outside its type here is one that cannot be honoured."""

    max_tokens: Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
    stream: bool | None = None
    temperature: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    top_p: Annotated[float, msgspec.Meta(gt=0, le=1)] | None = None
    top_k: Annotated[int, msgspec.Meta(ge=-1, le=2**31 - 1)] | None = None
    stop_sequences: list[str] | None = None
    metadata: Metadata | None = None
    output_config: OutputConfig | None = None
    output_format: Format | None = None


_GRAMMAR = "hold the reply to a grammar: recorded as inexact"
_BLOCKS = "text, image, tool_use, tool_result, thinking and redacted_thinking are supported"
SUPPORT = Support(
    body=Body,
    notes=HINT_NOTES
    | {
        "messages": f"roles user, assistant, system; {_BLOCKS}; {IMAGES}, those of tool results as the user's",
        "metadata": "`user_id` tells who speaks",
        "output_config": "`format` holds the reply to a grammar: recorded as inexact; `effort` changes nothing",
        "output_format": "holds the reply to a grammar: recorded as inexact",
        "tool_choice": f"`any` and a named tool {_GRAMMAR}; `disable_parallel_tool_use` ends it with the first call",
        "tools": "tools that the client runs; all are offered at once, whatever `defer_loading` says",
    },
    harmless={
        "betas": "",
        "cache_control": "prompts are cached by the engine itself; in blocks and tools too",
        "container": "",
        "context_management": "the client's history is the prompt",
        "diagnostics": "",
        "inference_geo": "",
        "service_tier": "",
        "speed": "",
        "thinking": "the model's template decides whether it reasons; reasoning is always shown",
    },
    refused={
        "mcp_servers": "tools are run by the client: offer them in tools",
        "messages[].content[].type": f"{_BLOCKS}: say other things in words",
        "messages[].content[].source.type": DATA_ALONE,
        "messages[].content[].content[].source.type": DATA_ALONE,
        "messages[].content[].content[].type": "tool results are text and images: say other things in words",
        "tools[].type": "tools that a server runs are not supported: leave them out",
        "tools[].input_schema": "say what the tool takes; tools that a server runs are not supported",
    },
)
"""What is made of each field."""
