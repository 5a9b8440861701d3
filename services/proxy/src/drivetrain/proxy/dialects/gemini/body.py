"""The request of Gemini's generateContent, as far as it is honoured."""

from typing import Annotated, Any, Literal

import msgspec

from drivetrain.proxy.dialects.base import Support
from drivetrain.proxy.dialects.reading import HINT_NOTES, IMAGES, Hints

_Name = Annotated[str, msgspec.Meta(min_length=1)]
_Count = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
_Penalty = Annotated[float, msgspec.Meta(ge=-2, le=2)]


class Blob(msgspec.Struct, rename="camel"):
    """The bytes of an image."""

    mime_type: Annotated[str, msgspec.Meta(pattern="^image/[a-z0-9.+-]+$")]
    data: Annotated[str, msgspec.Meta(pattern="^[A-Za-z0-9+/_-]+=*$")]


class FunctionCall(msgspec.Struct, rename="camel"):
    """A call that an earlier reply made."""

    name: _Name
    args: dict[str, Any] = {}
    id: str | None = None


class Shown(msgspec.Struct, rename="camel"):
    """An image among the results of a call."""

    inline_data: Blob
    file_data: None = None


class FunctionResponse(msgspec.Struct, rename="camel"):
    """What came of a call; `parts` may show images."""

    name: _Name
    response: dict[str, Any] = {}
    id: str | None = None
    parts: list[Shown] | None = None


class Part(msgspec.Struct, rename="camel"):
    """One of these; `thought` marks text as reasoning."""

    text: str | None = None
    thought: bool | None = None
    thought_signature: str | None = None
    inline_data: Blob | None = None
    function_call: FunctionCall | None = None
    function_response: FunctionResponse | None = None
    file_data: None = None
    executable_code: None = None
    code_execution_result: None = None


class Content(msgspec.Struct, rename="camel"):
    """What one side says."""

    parts: list[Part] = []
    role: Literal["user", "model", "function"] | None = None


class Instruction(msgspec.Struct, rename="camel"):
    """The system prompt."""

    parts: list[Part] = []


class Function(msgspec.Struct, rename="camel"):
    """A function that the model may call."""

    name: _Name
    description: str | None = None
    parameters: dict[str, Any] | None = None
    parameters_json_schema: dict[str, Any] | None = None


class CallingConfig(msgspec.Struct, rename="camel"):
    """Whether a function has to be called."""

    mode: Literal["MODE_UNSPECIFIED", "AUTO", "ANY", "NONE", "VALIDATED"] = "AUTO"
    allowed_function_names: list[str] | None = None


class ToolConfig(msgspec.Struct, rename="camel"):
    """How tools are used."""

    function_calling_config: CallingConfig | None = None


class GenerationConfig(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """How the reply is sampled, and its form."""

    temperature: Annotated[float, msgspec.Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, msgspec.Meta(gt=0, le=1)] | None = None
    top_k: Annotated[float, msgspec.Meta(ge=0)] | None = None
    max_output_tokens: _Count | None = None
    candidate_count: Annotated[int, msgspec.Meta(ge=1, le=16)] | None = None
    stop_sequences: list[str] | None = None
    seed: Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)] | None = None
    presence_penalty: _Penalty | None = None
    frequency_penalty: _Penalty | None = None
    response_mime_type: Literal["text/plain", "application/json"] | None = None
    response_schema: dict[str, Any] | None = None
    response_json_schema: dict[str, Any] | None = None
    response_logprobs: bool | None = None
    logprobs: Annotated[int, msgspec.Meta(ge=0, le=20)] | None = None
    response_modalities: list[Literal["TEXT"]] | None = None
    thinking_config: dict[str, Any] | None = None
    media_resolution: str | None = None


class CountBody(Hints, kw_only=True, rename="camel"):
    """The fields that decide the prompt."""

    contents: Annotated[list[Content], msgspec.Meta(min_length=1)]
    system_instruction: Instruction | None = None
    tools: list[dict[str, Any]] | None = None
    tool_config: ToolConfig | None = None


class Body(CountBody, kw_only=True, rename="camel"):
    """The supported fields; a value outside its type here is one that cannot be honoured."""

    generation_config: GenerationConfig | None = None


SUPPORT = Support(
    body=Body,
    notes=HINT_NOTES
    | {
        "contents": "roles user, model, function; text, thoughts (in signatures too), functionCall, functionResponse; "
        f"{IMAGES}",
        "generationConfig": "sampling, candidateCount, stopSequences, seed, penalties, logprobs; `responseMimeType` "
        "and schemas hold the reply to a grammar: recorded as inexact; `thinkingConfig` and `mediaResolution` change "
        "nothing",
        "toolConfig": "`ANY` holds the reply to a grammar: recorded as inexact",
        "tools": "functionDeclarations; tools that servers run are refused, or left out by `limits.server_tools`",
    },
    harmless={
        "labels": "",
        "model": "the path names it",
        "safetySettings": "",
        "serviceTier": "",
        "store": "replies are kept as consent says",
    },
    refused={
        "cachedContent": "send the contents themselves: the engine caches by itself",
        "contents[].parts[].fileData": "send the image itself, as inlineData",
        "contents[].parts[].executableCode": "code is run by the client: offer a function",
        "contents[].parts[].codeExecutionResult": "code is run by the client: offer a function",
        "contents[].parts[].functionResponse.parts[].fileData": "send the image itself, as inlineData",
        "contents[].parts[].functionResponse.parts[].inlineData": "send the image itself, as inlineData",
        "contents[].parts[].functionResponse.parts[].inlineData.mimeType": "only images are read",
        "contents[].parts[].inlineData.mimeType": "only images are read: say other things in words",
        "generationConfig.responseModalities[]": "only text is produced",
    },
)
"""What is made of each field."""
