"""The tools of OpenAI Responses, and what they are called where every tool is a function with a name.

A tool with free input becomes a function of one text, `input`. The functions of a namespace are called
`<namespace>__<name>`.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any

import msgspec

from drivetrain.proxy.errors import Refused, quoted

_Name = Annotated[str, msgspec.Meta(min_length=1)]
_FREE_INPUT = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
SERVER_TOOLS = frozenset(
    (
        *("web_search", "web_search_preview", "file_search", "code_interpreter", "image_generation", "mcp"),
        *("computer", "computer_use_preview", "local_shell", "shell", "apply_patch", "tool_search"),
    )
)
"""Tools that only OpenAI's servers, or a client that they know, can run."""


class Function(msgspec.Struct, tag_field="type", tag="function"):
    """A function that the model may call."""

    name: _Name
    description: str | None = None
    parameters: dict[str, Any] | None = None


class Custom(msgspec.Struct, tag_field="type", tag="custom"):
    """A tool whose input is any text."""

    name: _Name
    description: str | None = None


class Namespace(msgspec.Struct, tag_field="type", tag="namespace"):
    """Tools under one name."""

    name: _Name
    tools: list[Function | Custom]
    description: str | None = None


class Named(msgspec.Struct, frozen=True):
    """What a tool is called in this dialect; `free` if its input is any text."""

    name: str
    namespace: str | None = None
    free: bool = False

    @property
    def function(self) -> str:
        """Its name as a function."""
        return f"{self.namespace}__{self.name}" if self.namespace else self.name


class Offered(msgspec.Struct, frozen=True):
    """The tools of a request: as functions, their own names by those, and which ones only a server could run."""

    functions: list[dict[str, Any]]
    names: dict[str, Named]
    server: list[str]


def offered(tools: Iterable[tuple[str, Mapping[str, Any]]]) -> Offered:
    """Tools, each with the path of its field, as what is offered to the model.

    Raises:
        Refused: a tool that nobody knows, or that is malformed.
    """
    found = Offered([], {}, [])
    for at, raw in tools:
        if raw.get("type") in SERVER_TOOLS:
            found.server.append(str(raw["type"]))
            continue
        for named, tool in _flat(_tool(at, raw)):
            if named.function not in found.names:
                found.names[named.function] = named
                found.functions.append({"type": "function", "function": _function(named, tool)})
    return found


def free_input(arguments: str) -> str:
    """The free input in the arguments of a call; what is no such object stays visible as it is."""
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    given = value.get("input") if isinstance(value, dict) and len(value) == 1 else None
    return given if isinstance(given, str) else arguments


def as_arguments(text: str) -> str:
    """Free input as arguments of a function."""
    return json.dumps({"input": text}, ensure_ascii=False)


def _tool(at: str, raw: Mapping[str, Any]) -> Function | Custom | Namespace:
    try:
        return msgspec.convert(dict(raw), Function | Custom | Namespace)
    except msgspec.ValidationError as error:
        kind = raw.get("type")
        if kind not in ("function", "custom", "namespace"):
            words = f"the type {quoted(str(kind))} is not known: functions, custom tools and namespaces are supported"
            raise Refused(400, words, param=f"{at}.type") from error
        raise Refused(400, f"{at}: {error}", param=at) from error


def _flat(tool: Function | Custom | Namespace) -> Iterator[tuple[Named, Function | Custom]]:
    if isinstance(tool, Namespace):
        yield from ((Named(inner.name, tool.name, isinstance(inner, Custom)), inner) for inner in tool.tools)
    else:
        yield Named(tool.name, None, isinstance(tool, Custom)), tool


def _function(named: Named, tool: Function | Custom) -> dict[str, Any]:
    parameters = _FREE_INPUT if isinstance(tool, Custom) else tool.parameters or {"type": "object", "properties": {}}
    return {"name": named.function, "description": tool.description or "", "parameters": parameters}
