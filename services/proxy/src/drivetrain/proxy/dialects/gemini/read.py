"""A request of Gemini's generateContent as what is asked, in the form of OpenAI chat. The path names the model."""

from typing import Any

import msgspec

from drivetrain.common.events import Sampling
from drivetrain.proxy.dialects.gemini.body import SUPPORT, Body, CountBody, Function, GenerationConfig
from drivetrain.proxy.dialects.gemini.contents import conversation
from drivetrain.proxy.dialects.gemini.schemas import as_json_schema
from drivetrain.proxy.dialects.reading import hints_of, parse, typed
from drivetrain.proxy.engines.grammar import json_of
from drivetrain.proxy.errors import Refused, quoted
from drivetrain.proxy.turns import Ask


def read(data: bytes) -> Ask:
    """See `drivetrain.proxy.dialects.base.Dialect`."""
    body = typed(_camel(parse(data)), SUPPORT, Body)
    config = body.generation_config or GenerationConfig()
    tools, server = _tools(body)
    if config.logprobs and not config.response_logprobs:
        raise Refused(400, "logprobs needs responseLogprobs: true", param="generationConfig.logprobs")
    return Ask(
        model="",
        messages=conversation(body),
        tools=[] if _mode(body) == "NONE" else tools,
        server_tools=server,
        must_call=_must_call(body, tools),
        sampling=_sampling(config),
        stop=[text for text in config.stop_sequences or [] if text],
        logprobs=bool(config.response_logprobs),
        top_logprobs=config.logprobs or 0,
        replies=config.candidate_count or 1,
        hints=hints_of(body),
    )


def read_count(data: bytes) -> Ask:
    """The body of `countTokens`: contents, or a whole request of which they are a part.

    Raises:
        Refused: as `read` does.
    """
    raw = _camel(parse(data))
    inner = raw.pop("generateContentRequest", None)
    raw = _camel(inner) if isinstance(inner, dict) else raw
    body = typed({name: value for name, value in raw.items() if name != "generationConfig"}, SUPPORT, CountBody)
    return Ask(model="", messages=conversation(body), tools=_tools(body)[0], hints=hints_of(body))


def _camel(raw: dict[str, Any]) -> dict[str, Any]:
    """Google's APIs take the names of fields in both forms; those at the top are given in either one."""
    return {_CAMEL.get(name, name): value for name, value in raw.items()}


_CAMEL = {
    "system_instruction": "systemInstruction",
    "generation_config": "generationConfig",
    "tool_config": "toolConfig",
    "safety_settings": "safetySettings",
    "cached_content": "cachedContent",
}


def _sampling(config: GenerationConfig) -> Sampling:
    given = {"presence_penalty": config.presence_penalty, "frequency_penalty": config.frequency_penalty}
    other: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    return Sampling(
        temperature=1.0 if config.temperature is None else config.temperature,
        top_p=1.0 if config.top_p is None else config.top_p,
        top_k=int(config.top_k or 0),
        max_tokens=config.max_output_tokens,
        seed=config.seed,
        other=other | _form(config),
    )


def _form(config: GenerationConfig) -> dict[str, Any]:
    """The form that the reply's text must have, as sampling parameters."""
    schema = config.response_json_schema or as_json_schema(config.response_schema)
    if schema and config.response_mime_type != "application/json":
        words = "a schema needs responseMimeType: application/json"
        raise Refused(400, words, param="generationConfig.responseMimeType")
    return json_of(schema) if config.response_mime_type == "application/json" else {}


def _tools(body: CountBody) -> tuple[list[dict[str, Any]], list[str]]:
    """The functions that are offered, and the tools that only Google's servers could run."""
    functions: list[dict[str, Any]] = []
    server: list[str] = []
    for index, tool in enumerate(body.tools or ()):
        for kind, declared in tool.items():
            if kind in ("functionDeclarations", "function_declarations"):
                functions += _declared(declared, f"tools[{index}].functionDeclarations")
            else:
                server.append(kind)
    return functions, server


def _declared(declared: Any, at: str) -> list[dict[str, Any]]:
    try:
        found = msgspec.convert(declared, list[Function])
    except msgspec.ValidationError as error:
        raise Refused(400, f"{at}: {error}", param=at) from error
    return [{"type": "function", "function": _function(each)} for each in found]


def _function(function: Function) -> dict[str, Any]:
    schema = function.parameters_json_schema or as_json_schema(function.parameters)
    parameters = schema or {"type": "object", "properties": {}}
    return {"name": function.name, "description": function.description or "", "parameters": parameters}


def _mode(body: CountBody) -> str:
    config = body.tool_config.function_calling_config if body.tool_config else None
    return config.mode if config else "AUTO"


def _must_call(body: CountBody, tools: list[dict[str, Any]]) -> list[str]:
    """The functions of which one has to be called; none if the model may choose."""
    if _mode(body) != "ANY":
        return []
    assert body.tool_config
    assert body.tool_config.function_calling_config
    allowed = body.tool_config.function_calling_config.allowed_function_names
    names = [tool["function"]["name"] for tool in tools]
    at = "toolConfig.functionCallingConfig"
    if not names:
        raise Refused(400, "the mode ANY needs functionDeclarations", param=f"{at}.mode")
    if missing := [name for name in allowed or () if name not in names]:
        words = f"there is no function {quoted(missing[0])} among the tools"
        raise Refused(400, words, param=f"{at}.allowedFunctionNames")
    return allowed or names
