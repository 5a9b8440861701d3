"""The model's tokenizer and chat template: messages to token ids, and sampled ids back to tool calls."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import TemplateError
from renderers import DefaultRendererConfig, config_from_name, create_renderer
from renderers.base import load_tokenizer
from renderers.reasoning import prompt_ends_in_reasoning

from drivetrain.common.events import Message
from drivetrain.proxy.lineage import arguments_of, text_of

STREAMABLE = frozenset(
    ("default", "qwen3", "prime-qwen3", "qwen3.5", "qwen3.6", "qwen3.8", "glm-4.5", "glm-5", "glm-5.1", "nemotron-3")
)
"""Renderers whose replies mark reasoning with <think> and tool calls with <tool_call>, so that they can be streamed."""

JSON_CALLS = frozenset(("default", "qwen3", "prime-qwen3"))
"""Renderers whose tool calls are JSON with name and arguments inside <tool_call>, so that a call can be required."""

_PROBE_TOOL = {"type": "function", "function": {"name": "probe", "description": "", "parameters": {"type": "object"}}}


class BadModel(ValueError):
    """The model folder or the renderer cannot be used; the message says what to change."""


class BadConversation(ValueError):
    """The chat template refuses these messages; the message carries its words."""


class Template:
    """One model's chat template with its tokenizer. Not safe for two threads at once: load one for each."""

    def __init__(self, folder: str, renderer: str = "auto", tool_parser: str = "qwen3") -> None:
        """
        Raises:
            BadModel: no folder, no tokenizer or chat template in it, or an unknown renderer.
        """
        self.folder = folder
        self.tokenizer = _tokenizer(folder)
        self.renderer = _renderer(self.tokenizer, renderer, tool_parser)
        self.stop_ids = _stop_ids(self.renderer, folder)
        hidden = set(self.tokenizer.all_special_ids) - self._marker_ids()
        self.hidden_ids = frozenset(hidden | set(self.stop_ids))
        self.renders_tools = self._probe_tools()
        self.json_calls = self.renderer.config.name in JSON_CALLS

    def render(self, messages: Sequence[Message], tools: list[dict[str, Any]], *, generation: bool = True) -> list[int]:
        """The token ids of a conversation, by default up to where the next reply begins.

        Raises:
            BadConversation: the template refuses the messages.
        """
        try:
            return list(
                self.renderer.render_ids(
                    [plain(message) for message in messages], tools=tools or None, add_generation_prompt=generation
                )
            )
        except (TemplateError, ValueError, TypeError, KeyError) as error:
            raise BadConversation(f"the model's chat template refuses these messages: {error}") from error

    def bridge(
        self, prompt: list[int], response: list[int], new: Sequence[Message], tools: list[dict[str, Any]]
    ) -> list[int] | None:
        """The next prompt without a new rendering of history, or None when the renderer cannot promise it."""
        bridged = self.renderer.bridge_to_next_turn(prompt, response, [plain(m) for m in new], tools=tools or None)
        return None if bridged is None else list(bridged.token_ids)

    def starts_in_reasoning(self, prompt: list[int]) -> bool:
        """Whether the prompt already opened the reasoning that the reply will continue."""
        return bool(prompt_ends_in_reasoning(self.tokenizer, prompt, stop_ids=set(self.stop_ids)))

    def calls(
        self, prompt: list[int], response: list[int], tools: list[dict[str, Any]]
    ) -> list[tuple[str, object] | None]:
        """Every attempted tool call of a reply as (name, arguments); None for one that cannot be read."""
        parsed = self.renderer.parse_response(response, tools=tools or None, prompt_ids=prompt)
        return [(c.name, c.arguments) if c.status == "ok" and c.name else None for c in parsed.tool_calls]

    def _marker_ids(self) -> set[int]:
        tokens = ("<think>", "</think>", "<tool_call>", "</tool_call>")
        return {self.tokenizer.convert_tokens_to_ids(token) for token in tokens} - {self.tokenizer.unk_token_id}

    def _probe_tools(self) -> bool:
        probe = [{"role": "user", "content": "probe"}]
        try:
            return self.render(probe, [_PROBE_TOOL]) != self.render(probe, [])
        except BadConversation as error:
            raise BadModel(f"the chat template in {self.folder} cannot write a user's message: {error}") from error


def plain(message: Message) -> Message:
    """A message as chat templates expect it: text as a string, `developer` as `system`, tool arguments as data."""
    role = "system" if message["role"] == "developer" else message["role"]
    result: Message = {"role": role, "content": text_of(message.get("content"))}
    for name in ("name", "tool_call_id", "reasoning_content"):
        if message.get(name):
            result[name] = message[name]
    if message.get("tool_calls"):
        result["tool_calls"] = [_plain_call(call) for call in message["tool_calls"]]
    return result


def context_of(folder: str) -> int | None:
    """How many tokens the model was built for, as its configuration says, or None if it does not say."""
    path = Path(folder) / "config.json"
    if not path.is_file():
        return None
    config = json.loads(path.read_text())
    found = config.get("max_position_embeddings") or (config.get("text_config") or {}).get("max_position_embeddings")
    return int(found) if found else None


def _plain_call(call: dict[str, Any]) -> dict[str, Any]:
    function = call["function"]
    plain_function = {"name": function["name"], "arguments": arguments_of(function.get("arguments") or "{}")}
    return {"type": "function", "id": call.get("id", ""), "function": plain_function}


def _tokenizer(folder: str) -> Any:
    if not Path(folder).is_dir():
        raise BadModel(f"the model folder {folder} does not exist: set `model` to a folder with a tokenizer")
    try:
        tokenizer = load_tokenizer(folder)
    except Exception as error:
        raise BadModel(
            f"the model folder {folder} has no usable tokenizer ({error}): it needs tokenizer.json and "
            "tokenizer_config.json beside the weights"
        ) from error
    if not getattr(tokenizer, "chat_template", None):
        raise BadModel(f"the tokenizer in {folder} has no chat template: add chat_template.jinja to that folder")
    return tokenizer


def _renderer(tokenizer: Any, name: str, tool_parser: str) -> Any:
    if name not in STREAMABLE | {"auto"}:
        raise BadModel(f"unknown renderer {name!r}: choose auto or one of {', '.join(sorted(STREAMABLE))}")
    default = DefaultRendererConfig(tool_parser=tool_parser, reasoning_parser="think")
    try:
        renderer = create_renderer(tokenizer, default if name == "default" else config_from_name(name))
        if name == "auto" and type(renderer).__name__ == "DefaultRenderer":
            renderer = create_renderer(tokenizer, default)
    except Exception as error:
        raise BadModel(f"the renderer {name!r} cannot be used with this tokenizer: {error}") from error
    if name == "auto" and renderer.config.name not in STREAMABLE:
        raise BadModel(f"replies in the form of {renderer.config.name!r} cannot be streamed: set `renderer` to default")
    return renderer


def _stop_ids(renderer: Any, folder: str) -> list[int]:
    """Tokens that end a reply: the renderer's, and those of the model's generation configuration."""
    stop = set(renderer.get_stop_token_ids())
    path = Path(folder) / "generation_config.json"
    if path.is_file():
        extra = json.loads(path.read_text()).get("eos_token_id")
        stop |= set(extra) if isinstance(extra, list) else {extra} - {None}
    return sorted(stop)
