"""The blocks of which Anthropic's messages are made, as far as they are supported."""

from typing import Annotated, Any

import msgspec

_Name = Annotated[str, msgspec.Meta(min_length=1)]


class Text(msgspec.Struct, tag_field="type", tag="text"):
    """Words."""

    text: str


class Source(msgspec.Struct, tag_field="type", tag="base64"):
    """The bytes of an image."""

    media_type: Annotated[str, msgspec.Meta(pattern="^image/[a-z0-9.+-]+$")]
    data: Annotated[str, msgspec.Meta(pattern="^[A-Za-z0-9+/]+=*$")]


class Image(msgspec.Struct, tag_field="type", tag="image"):
    """Something to look at."""

    source: Source


class ToolUse(msgspec.Struct, tag_field="type", tag="tool_use"):
    """A call that an earlier reply made."""

    id: _Name
    name: _Name
    input: dict[str, Any]


class ToolReference(msgspec.Struct, tag_field="type", tag="tool_reference"):
    """A tool that a search for tools found."""

    tool_name: str


class ToolResult(msgspec.Struct, tag_field="type", tag="tool_result"):
    """What came of a call."""

    tool_use_id: _Name
    content: str | list[Text | Image | ToolReference] | None = None
    is_error: bool | None = None


class Thinking(msgspec.Struct, tag_field="type", tag="thinking"):
    """The model's reasoning; the signature is ours and carries nothing."""

    thinking: str
    signature: str | None = None


class RedactedThinking(msgspec.Struct, tag_field="type", tag="redacted_thinking"):
    """Reasoning that only another model's provider could read."""

    data: str


SystemBlock = Text
UserBlock = Text | Image | ToolResult
AssistantBlock = Text | ToolUse | Thinking | RedactedThinking
