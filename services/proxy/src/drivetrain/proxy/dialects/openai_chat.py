"""OpenAI Chat Completions: what of it is supported, how a request is read, and how a reply is written."""

import re
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Annotated, Any, Literal

import msgspec

from drivetrain.common.events import Message, Sampling
from drivetrain.proxy.engines.base import EngineBroke
from drivetrain.proxy.errors import Refused
from drivetrain.proxy.gateway import Finished, Opened, Reply
from drivetrain.proxy.replies import Call, Piece
from drivetrain.proxy.sampling import NEUTRAL
from drivetrain.proxy.turns import Ask

HARMLESS = frozenset(
    {
        "metadata",
        "prompt_cache_key",
        "prompt_cache_retention",
        "reasoning_effort",
        "safety_identifier",
        "service_tier",
        "store",
        "user",
        "verbosity",
    }
)
"""Fields that are accepted and change nothing."""

_REMEDY = {
    "logprobs": "logprobs are recorded but not returned: leave it out",
    "n": "only one reply a request: n must be 1",
    "parallel_tool_calls": "calls cannot be limited to one: leave it out or say true",
    "response_format.type": "only text is supported",
    "tool_choice": "only none and auto are supported",
}
"""What to do instead, for fields whose other values cannot be honoured."""

_Penalty = Annotated[float, msgspec.Meta(ge=-2, le=2)]
_Count = Annotated[int, msgspec.Meta(ge=1)]
_PATH = re.compile(r" - at `\$\.?(?P<path>[^`]*)`$")


class _Function(msgspec.Struct):
    name: Annotated[str, msgspec.Meta(min_length=1)]
    arguments: str = "{}"


class _ToolCall(msgspec.Struct):
    id: str
    function: _Function
    type: Literal["function"] = "function"


class _Part(msgspec.Struct):
    type: Literal["text"]
    text: str


class _Message(msgspec.Struct):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[_Part] | None = None
    tool_calls: list[_ToolCall] | None = None
    tool_call_id: str | None = None
    name: str | None = None
    function_call: None = None
    audio: None = None


class _ToolFunction(msgspec.Struct):
    name: Annotated[str, msgspec.Meta(min_length=1)]
    description: str | None = None
    parameters: dict[str, Any] | None = None


class _Tool(msgspec.Struct):
    type: Literal["function"]
    function: _ToolFunction


class _StreamOptions(msgspec.Struct):
    include_usage: bool | None = None


class _ResponseFormat(msgspec.Struct):
    type: Literal["text"]


class Body(msgspec.Struct):
    """The supported fields; a value outside its type here is one that cannot be honoured."""

    model: str
    messages: Annotated[list[_Message], msgspec.Meta(min_length=1)]
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    max_tokens: _Count | None = None
    max_completion_tokens: _Count | None = None
    temperature: Annotated[float, msgspec.Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, msgspec.Meta(gt=0, le=1)] | None = None
    top_k: Annotated[int, msgspec.Meta(ge=-1)] | None = None
    min_p: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    presence_penalty: _Penalty | None = None
    frequency_penalty: _Penalty | None = None
    repetition_penalty: Annotated[float, msgspec.Meta(gt=0, le=2)] | None = None
    logit_bias: dict[str, Annotated[float, msgspec.Meta(ge=-100, le=100)]] | None = None
    seed: Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)] | None = None
    stop: str | list[str] | None = None
    tools: list[_Tool] | None = None
    tool_choice: Literal["none", "auto"] | None = None
    parallel_tool_calls: Literal[True] | None = None
    response_format: _ResponseFormat | None = None
    n: Literal[1] | None = None
    logprobs: Literal[False] | None = None


def read(data: bytes, policy: str) -> Ask:
    """A request's body as what is asked.

    Raises:
        Refused: with the field at fault, and for an unknown model the ones that exist.
    """
    try:
        raw = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refused(400, f"the body is not JSON in UTF-8: {error}") from error
    if not isinstance(raw, dict):
        raise Refused(400, "the body must be a JSON object")
    raw = {name: value for name, value in raw.items() if value is not None}
    for name in raw:
        if name not in Body.__struct_fields__ and name not in HARMLESS:
            raise Refused(400, f"the field {name!r} is not supported: leave it out", param=name)
    body = _convert(raw)
    if body.model != policy:
        message = f"there is no model {body.model!r} here; the models are: {policy}"
        raise Refused(404, message, param="model", code="model_not_found")
    _check_tools(body.messages)
    return Ask(
        model=body.model,
        messages=raw["messages"],
        tools=raw.get("tools", []) if body.tool_choice != "none" else [],
        sampling=_sampling(body),
        stop=[body.stop] if isinstance(body.stop, str) else [text for text in body.stop or [] if text],
        stream=bool(body.stream),
        usage_chunk=bool(body.stream_options and body.stream_options.include_usage),
    )


def error_body(error: Refused) -> bytes:
    """A refusal in OpenAI's shape."""
    kind = "invalid_request_error" if error.status < 500 else "server_error"
    return msgspec.json.encode(
        {"error": {"message": error.message, "type": kind, "param": error.param, "code": error.code}}
    )


async def events(reply: Reply, ask: Ask, policy: str, created: int, opened: Opened) -> AsyncIterator[bytes]:
    """The reply, after its `Opened`, as server-sent events. An engine that dies is reported as an error event."""
    head = {"id": f"chatcmpl-{opened.turn}", "object": "chat.completion.chunk", "created": created, "model": policy}
    yield _chunk(head, {"role": "assistant", "content": ""})
    calls = 0
    async with aclosing(reply):
        try:
            async for part in reply:
                if isinstance(part, Piece):
                    name = "content" if part.channel == "content" else "reasoning_content"
                    yield _chunk(head, {name: part.text})
                elif isinstance(part, Call):
                    for delta in _call_deltas(part, calls):
                        yield _chunk(head, delta)
                    calls += 1
                elif isinstance(part, Finished):
                    yield _chunk(head, {}, part.finish)
                    if ask.usage_chunk:
                        yield _event({**head, "choices": [], "usage": _usage(part)})
                    yield b"data: [DONE]\n\n"
        except EngineBroke as error:
            yield b"data: " + error_body(broken(error)) + b"\n\n"


async def whole(reply: Reply, policy: str, created: int, opened: Opened) -> bytes:
    """The reply, after its `Opened`, as one JSON document.

    Raises:
        Refused: the engine died in mid-reply.
    """
    texts: dict[str, list[str]] = {"content": [], "reasoning": []}
    calls: list[Call] = []
    async with aclosing(reply):
        try:
            async for part in reply:
                if isinstance(part, Piece):
                    texts[part.channel].append(part.text)
                elif isinstance(part, Call):
                    calls.append(part)
                elif isinstance(part, Finished):
                    finished = part
        except EngineBroke as error:
            raise broken(error) from error
    choice = {"index": 0, "message": _message(texts, calls), "finish_reason": finished.finish, "logprobs": None}
    return msgspec.json.encode(
        {
            "id": f"chatcmpl-{opened.turn}",
            "object": "chat.completion",
            "created": created,
            "model": policy,
            "choices": [choice],
            "usage": _usage(finished),
        }
    )


def broken(error: EngineBroke) -> Refused:
    """The refusal that tells of an engine that ended in mid-reply."""
    return Refused(502, f"the reply was cut: {error}", code="engine_broke")


def _convert(raw: dict[str, Any]) -> Body:
    try:
        return msgspec.convert(raw, Body)
    except msgspec.ValidationError as error:
        text = str(error)
        found = _PATH.search(text)
        path = found["path"] if found else ""
        words = text[: found.start()] if found else text
        if "missing required field" in words:
            path = ".".join(filter(None, (path, words.split("`")[1])))
        elif not path and "`" in words:
            path = words.split("`")[1]
        words = f"{words}; {_REMEDY[path]}" if path in _REMEDY else words
        raise Refused(400, f"{path or 'body'}: {words}", param=path or None) from error


def _check_tools(messages: list[_Message]) -> None:
    asked = False
    for index, message in enumerate(messages):
        asked = asked or bool(message.tool_calls)
        if message.role == "tool" and not asked:
            raise Refused(400, "a tool result needs an earlier message with tool_calls", param=f"messages[{index}]")
        if message.role == "tool" and not message.tool_call_id:
            raise Refused(400, "a tool result needs a tool_call_id", param=f"messages[{index}].tool_call_id")
        if message.role != "assistant" and message.content is None:
            raise Refused(400, f"a {message.role} message needs content", param=f"messages[{index}].content")


def _sampling(body: Body) -> Sampling:
    other: dict[str, Any] = {name: getattr(body, name) for name in NEUTRAL if getattr(body, name) is not None}
    if body.logit_bias:
        if not all(key.isdecimal() for key in body.logit_bias):
            raise Refused(400, "logit_bias: keys are token ids", param="logit_bias")
        other["logit_bias"] = {int(key): bias for key, bias in body.logit_bias.items()}
    return Sampling(
        temperature=1.0 if body.temperature is None else body.temperature,
        top_p=1.0 if body.top_p is None else body.top_p,
        top_k=max(body.top_k or 0, 0),
        max_tokens=body.max_completion_tokens or body.max_tokens,
        seed=body.seed,
        other=other,
    )


def _event(data: dict[str, Any]) -> bytes:
    return b"data: " + msgspec.json.encode(data) + b"\n\n"


def _chunk(head: dict[str, Any], delta: dict[str, Any], finish: str | None = None) -> bytes:
    return _event({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})


def _call_deltas(call: Call, index: int) -> list[dict[str, Any]]:
    opening = {"index": index, "id": call.id, "type": "function", "function": {"name": call.name, "arguments": ""}}
    return [
        {"tool_calls": [opening]},
        {"tool_calls": [{"index": index, "function": {"arguments": call.arguments}}]},
    ]


def _message(texts: dict[str, list[str]], calls: list[Call]) -> Message:
    content = "".join(texts["content"])
    message: Message = {"role": "assistant", "content": content if content or not calls else None}
    if texts["reasoning"]:
        message["reasoning_content"] = "".join(texts["reasoning"])
    if calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in calls
        ]
    return message


def _usage(finished: Finished) -> dict[str, Any]:
    usage: dict[str, Any] = {
        "prompt_tokens": finished.prompt_tokens,
        "completion_tokens": finished.completion_tokens,
        "total_tokens": finished.prompt_tokens + finished.completion_tokens,
    }
    if finished.cached is not None:
        usage["prompt_tokens_details"] = {"cached_tokens": finished.cached}
    return usage
