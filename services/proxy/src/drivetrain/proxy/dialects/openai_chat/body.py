"""The request of OpenAI Chat Completions, as far as it is honoured."""

from typing import Annotated, Any, Literal

import msgspec

from drivetrain.proxy.dialects import openai
from drivetrain.proxy.dialects.base import Support
from drivetrain.proxy.dialects.reading import DATA_ALONE, IMAGES, DataUrl

_Name = Annotated[str, msgspec.Meta(min_length=1)]


class Function(msgspec.Struct):
    """What is called; `arguments` is JSON text."""

    name: _Name
    arguments: str = "{}"


class ToolCall(msgspec.Struct):
    """A call that an earlier reply made."""

    id: str
    function: Function
    type: Literal["function"] = "function"


class Text(msgspec.Struct, tag_field="type", tag="text"):
    """Words."""

    text: str


class ImageUrl(msgspec.Struct):
    """The image itself, inside a URL."""

    url: DataUrl
    detail: str | None = None


class Image(msgspec.Struct, tag_field="type", tag="image_url"):
    """Something to look at."""

    image_url: ImageUrl


class Message(msgspec.Struct):
    """One message of the conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[Text | Image] | None = None
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str | None = None
    name: str | None = None
    reasoning_content: str | None = None
    function_call: None = None
    audio: None = None


class ToolFunction(msgspec.Struct):
    """A function that the model may call."""

    name: _Name
    description: str | None = None
    parameters: dict[str, Any] | None = None


class Tool(msgspec.Struct):
    """A tool that the model may call."""

    type: Literal["function"]
    function: ToolFunction


class ChosenFunction(msgspec.Struct):
    """The function that has to be called."""

    name: _Name


class NamedChoice(msgspec.Struct):
    """A choice of one tool."""

    type: Literal["function"]
    function: ChosenFunction


class JsonSchema(msgspec.Struct):
    """A schema with a name."""

    name: str = ""
    schema: dict[str, Any] | None = None


class ResponseFormat(msgspec.Struct):
    """The form of the reply's text."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchema | None = None


class Body(openai.Fields, kw_only=True):
    """The supported fields; a value outside its type here is one that cannot be honoured."""

    messages: Annotated[list[Message], msgspec.Meta(min_length=1)]
    max_completion_tokens: openai.Count | None = None
    tools: list[Tool] | None = None
    tool_choice: Literal["none", "auto", "required"] | NamedChoice | None = None
    parallel_tool_calls: bool | None = None
    response_format: ResponseFormat | None = None
    logprobs: bool | None = None
    top_logprobs: openai.Top | None = None


SUPPORT = Support(
    body=Body,
    notes=openai.NOTES
    | {
        "logprobs": "those of the sampled tokens, exactly",
        "messages": f"roles system, developer, user, assistant, tool; text; {IMAGES}",
        "response_format": "`json_object` and `json_schema` hold the reply to a grammar: recorded as inexact",
        "parallel_tool_calls": "false ends a reply with the first call",
        "tool_choice": "`required` and a named function hold the reply to a grammar: recorded as inexact",
        "top_logprobs": "0 to 20, with `logprobs`",
        "tools": "functions",
    },
    harmless=openai.HARMLESS
    | {
        "reasoning_effort": "the model's template decides whether it reasons",
        "verbosity": "",
    },
    refused={
        "audio": "only text is produced",
        "function_call": "use tool_choice",
        "functions": "use tools",
        "messages[].content[].image_url.url": DATA_ALONE,
        "messages[].content[].type": "text and image_url are supported: say other things in words",
        "modalities": "only text is produced: leave it out",
        "prediction": "leave it out",
        "tool_choice": "say none, auto, required or name a function",
        "tools[].type": "only functions are supported",
        "web_search_options": "nothing is searched for: leave it out",
    },
)
"""What is made of each field."""
