"""The items of which a conversation is made in OpenAI Responses, as far as they are supported."""

from typing import Annotated, Any, Literal

import msgspec

from drivetrain.proxy.dialects.reading import DataUrl

_Name = Annotated[str, msgspec.Meta(min_length=1)]


class InputText(msgspec.Struct, tag_field="type", tag="input_text"):
    """Words for the model."""

    text: str


class OutputText(msgspec.Struct, tag_field="type", tag="output_text"):
    """Words of the model."""

    text: str


class Refusal(msgspec.Struct, tag_field="type", tag="refusal"):
    """Words with which a model declined."""

    refusal: str


class InputImage(msgspec.Struct, tag_field="type", tag="input_image"):
    """Something to look at, inside a URL."""

    image_url: DataUrl
    detail: str | None = None


Content = InputText | OutputText | Refusal | InputImage


class Message(msgspec.Struct, tag_field="type", tag="message"):
    """Something that was said."""

    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[Content]


class FunctionCall(msgspec.Struct, tag_field="type", tag="function_call"):
    """A call that an earlier reply made; `arguments` is JSON text."""

    call_id: _Name
    name: _Name
    arguments: str = "{}"
    namespace: str | None = None


class CustomCall(msgspec.Struct, tag_field="type", tag="custom_tool_call"):
    """A call whose input is any text."""

    call_id: _Name
    name: _Name
    input: str
    namespace: str | None = None


class FunctionOutput(msgspec.Struct, tag_field="type", tag="function_call_output"):
    """What came of a call."""

    call_id: _Name
    output: str | list[Content]


class CustomOutput(msgspec.Struct, tag_field="type", tag="custom_tool_call_output"):
    """What came of a call with free input."""

    call_id: _Name
    output: str | list[Content]


class ReasoningText(msgspec.Struct):
    """A piece of reasoning."""

    text: str


class Reasoning(msgspec.Struct, tag_field="type", tag="reasoning"):
    """What the model thought. Ours comes back whole in `encrypted_content`, or in `content`."""

    content: list[ReasoningText] | None = None
    encrypted_content: str | None = None
    summary: list[Any] = []


class AdditionalTools(msgspec.Struct, tag_field="type", tag="additional_tools"):
    """Tools that are offered from here on."""

    tools: list[dict[str, Any]]


Call = FunctionCall | CustomCall
Output = FunctionOutput | CustomOutput
Item = Message | FunctionCall | CustomCall | FunctionOutput | CustomOutput | Reasoning | AdditionalTools
