"""Which hand-written renderer fits a model: the one that writes probe conversations as the model's own template does.

A renderer bridges from recorded tokens to the next turn without rendering history. Names of models prove nothing
(fine-tunes change templates), so it is the template's own words that decide.
"""

from collections.abc import Callable
from typing import Any

from jinja2 import TemplateError
from renderers import DefaultRendererConfig, config_from_name, create_renderer

from drivetrain.common.events import Message
from drivetrain.proxy.engines.grammar import CallForm

BRIDGING = ("qwen3", "qwen3.5", "qwen3.6", "qwen3.8", "glm-4.5", "glm-5", "glm-5.1", "nemotron-3")
"""Renderers that `auto` tries, in this order."""

STREAMABLE = frozenset(("default", "prime-qwen3", *BRIDGING))
"""Renderers whose replies mark reasoning with <think> and tool calls with <tool_call>, so that they can be streamed."""

CALL_FORMS: dict[str, CallForm] = {
    "qwen3": "json",
    "prime-qwen3": "json",
    "qwen3.5": "qwen_xml",
    "qwen3.6": "qwen_xml",
    "qwen3.8": "qwen_xml",
    "nemotron-3": "qwen_xml",
    "glm": "glm_xml",
    "glm-4.5": "glm_xml_lines",
    "glm-5": "glm_xml",
    "glm-5.1": "glm_xml",
}
"""How calls are written, by renderer, or by the tool parser of the default one: in these forms one can be required."""

Writes = Callable[[list[Message], list[dict[str, Any]]], list[int]]
"""Messages and tools to the token ids of the model's own template."""

PROBE_TOOL = {
    "type": "function",
    "function": {"name": "probe", "description": "Ünïcode", "parameters": {"type": "object", "properties": {}}},
}


class BadModel(ValueError):
    """The model folder or the renderer cannot be used; the message says what to change."""


def choose(tokenizer: Any, name: str, tool_parser: str, writes: Writes) -> tuple[Any, bool]:
    """The renderer of that name, and whether it writes what the model's own template writes.

    Raises:
        BadModel: an unknown name, or a renderer that does not fit the tokenizer.
    """
    default = create_renderer(tokenizer, DefaultRendererConfig(tool_parser=tool_parser, reasoning_parser="think"))
    if name == "default":
        return default, True
    if name == "auto":
        tried = (_made(tokenizer, candidate) for candidate in BRIDGING)
        return next((made for made in tried if made is not None and agrees(made, writes)), default), True
    if name not in STREAMABLE:
        raise BadModel(f"unknown renderer {name!r}: choose auto or one of {', '.join(sorted(STREAMABLE))}")
    made = _made(tokenizer, name)
    if made is None:
        raise BadModel(f"the renderer {name!r} cannot be used with this tokenizer: set `renderer` to auto")
    return made, agrees(made, writes)


def agrees(renderer: Any, writes: Writes) -> bool:
    """Whether a renderer writes every probe that the template accepts as the template does; it must accept some."""
    compared = 0
    for messages, tools in probes():
        try:
            expected = writes(messages, tools)
        except (TemplateError, ValueError, TypeError, KeyError):
            continue  # the template itself refuses this probe
        try:
            ids = list(renderer.render_ids(messages, tools=tools or None, add_generation_prompt=True))
        except Exception:  # noqa: BLE001 - whatever a renderer of another family trips over, it does not fit
            return False
        if ids != expected:
            return False
        compared += 1
    return compared > 0


def probes() -> list[tuple[list[Message], list[dict[str, Any]]]]:
    """Conversations on which templates differ: defaults, tools, reasoning before and after a question, white space."""
    user, system = {"role": "user", "content": "Hi 😀"}, {"role": "system", "content": "Be brief."}
    call = {"type": "function", "id": "abcdefghi", "function": {"name": "probe", "arguments": {"a": ["ü", 1]}}}
    thinking = {"role": "assistant", "content": " So: yes\n", "reasoning_content": "Why\nnot"}
    calling = {"role": "assistant", "content": "Look.", "reasoning_content": "Hm", "tool_calls": [call, call]}
    silent = {"role": "assistant", "content": "", "tool_calls": [call]}
    result = {"role": "tool", "tool_call_id": "abcdefghi", "content": "done"}
    plain = {"role": "assistant", "content": "yes"}
    turns: list[list[Message]] = [
        [user],
        [system, user, plain, user],
        [user, thinking, user, thinking, user],
        [system, user, calling, result, result],
        [user, silent, result, thinking, user],
        [user, calling, result, plain, user, silent, result],
    ]
    return [(messages, tools) for tools in ([], [PROBE_TOOL]) for messages in turns]


def _made(tokenizer: Any, name: str) -> Any:
    """The renderer of a family, or None when the tokenizer lacks that family's tokens."""
    try:
        return create_renderer(tokenizer, config_from_name(name))
    except Exception:  # noqa: BLE001 - renderers assert, raise ValueError or KeyError, each in its way
        return None
