"""The request of OpenAI Responses, as far as it is honoured."""

from typing import Annotated, Any, Literal

import msgspec

from drivetrain.proxy.dialects.base import Support
from drivetrain.proxy.dialects.openai import Count, Top
from drivetrain.proxy.dialects.openai_responses.items import Item
from drivetrain.proxy.dialects.reading import DATA_ALONE, HINT_NOTES, IMAGES, Hints

_Name = Annotated[str, msgspec.Meta(min_length=1)]


class NamedChoice(msgspec.Struct):
    """A choice of one tool."""

    type: Literal["function", "custom"]
    name: _Name


class AllowedTool(msgspec.Struct):
    """One of the tools that may be called."""

    type: Literal["function", "custom"]
    name: _Name


class AllowedTools(msgspec.Struct, tag_field="type", tag="allowed_tools"):
    """A choice among some of the tools."""

    mode: Literal["auto", "required"]
    tools: list[AllowedTool]


class Format(msgspec.Struct):
    """The form of the reply's text."""

    type: Literal["text", "json_object", "json_schema"] = "text"
    schema: dict[str, Any] | None = None


class TextOptions(msgspec.Struct):
    """How the reply's text is given."""

    format: Format | None = None
    verbosity: str | None = None


class StreamOptions(msgspec.Struct):
    """Options of a stream; nothing is ever padded."""

    include_obfuscation: bool | None = None


class Body(Hints, kw_only=True):
    """The supported fields; a value outside its type here is one that cannot be honoured."""

    model: str
    input: str | list[Item]
    instructions: str | None = None
    previous_response_id: str | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_output_tokens: Count | None = None
    temperature: Annotated[float, msgspec.Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, msgspec.Meta(gt=0, le=1)] | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: Literal["none", "auto", "required"] | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    text: TextOptions | None = None
    top_logprobs: Top | None = None
    include: list[str] | None = None
    background: Literal[False] | None = None


_ITEMS = (
    "message, function_call, function_call_output, custom_tool_call, custom_tool_call_output, reasoning and "
    "additional_tools are supported"
)
SUPPORT = Support(
    body=Body,
    notes=HINT_NOTES
    | {
        "include": "`message.output_text.logprobs` and `reasoning.encrypted_content`; others add nothing",
        "input": f"{_ITEMS}; {IMAGES}",
        "instructions": "with `previous_response_id` they take the place of those before",
        "parallel_tool_calls": "false ends a reply with the first call",
        "previous_response_id": "a reply that was recorded here, of the same tenant",
        "text": "`format` holds the reply to a grammar: recorded as inexact; `verbosity` changes nothing",
        "tool_choice": "`required` and a named tool hold the reply to a grammar: recorded as inexact",
        "tools": "functions, custom tools (their grammar is not enforced) and namespaces; those that servers run are "
        "refused, or left out by the setting `limits.server_tools`",
        "top_logprobs": "0 to 20, with `include: [message.output_text.logprobs]`",
    },
    harmless={
        "client_metadata": "",
        "context_management": "the client's history is the prompt",
        "max_tool_calls": "it counts calls that servers run",
        "metadata": "",
        "prompt_cache_options": "",
        "prompt_cache_retention": "",
        "reasoning": "the model's template decides whether it reasons; reasoning is always shown",
        "safety_identifier": "",
        "service_tier": "",
        "store": "replies are kept as consent says",
        "truncation": "a prompt that is too long is always refused, so that the client compacts",
        "user": "",
    },
    refused={
        "background": "send the request without it, and read its stream",
        "conversation": "send the history, or previous_response_id",
        "input[].content[].image_url": DATA_ALONE,
        "input[].content[].type": "input_text, input_image and output_text are supported: say other things in words",
        "input[].type": f"{_ITEMS}: say other things in words",
        "moderation": "leave it out",
        "prompt": "send the prompt itself as input",
    },
)
"""What is made of each field."""
