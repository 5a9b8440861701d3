"""Sampled token ids to what the caller sees: text as it is sampled, reasoning apart, tool calls when they are whole."""

import json
import re
from collections.abc import Sequence
from typing import Any, Literal, Protocol

import msgspec
from tokenizers.decoders import DecodeStream

from drivetrain.common.events import Message

TOOL_OPEN = "<tool_call>"
THINK_OPEN, THINK_CLOSE = "<think>", "</think>"
_BLOCK = re.compile(r"<tool_call>(.*?)(?:</tool_call>|\Z)", re.DOTALL)


class Piece(msgspec.Struct, frozen=True):
    """A piece of text for one channel of the reply."""

    channel: Literal["content", "reasoning"]
    text: str


class Call(msgspec.Struct, frozen=True):
    """A whole tool call; `arguments` is JSON text."""

    id: str
    name: str
    arguments: str


class Reads(Protocol):
    """What replies need of a template; see `drivetrain.proxy.templates.Template`."""

    @property
    def tokenizer(self) -> Any: ...

    @property
    def hidden_ids(self) -> frozenset[int]: ...

    def starts_in_reasoning(self, prompt: list[int]) -> bool: ...

    def calls(
        self, prompt: list[int], response: list[int], tools: list[dict[str, Any]]
    ) -> list[tuple[str, object] | None]: ...


class Decoder:
    """Token ids to text, a token at a time; bytes of an unfinished character wait for the rest of it."""

    def __init__(self, tokenizer: Any, hidden: frozenset[int]) -> None:
        self._backend = tokenizer.backend_tokenizer
        self._hidden = hidden
        self._stream = DecodeStream(skip_special_tokens=False)

    def feed(self, ids: Sequence[int]) -> str:
        """The text that these tokens complete."""
        return "".join(self._stream.step(self._backend, i) or "" for i in ids if i not in self._hidden)


class StopCut:
    """Ends the text before the first stop string; what may be the beginning of one is held back."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops, self._held, self._over = list(stops), "", False
        self.matched: str | None = None

    def feed(self, text: str) -> str:
        """The part of the text so far that certainly precedes any stop string."""
        if self._over or not self._stops:
            return "" if self._over else text
        text = self._held + text
        found = [(at, stop) for at, stop in ((text.find(stop), stop) for stop in self._stops) if at >= 0]
        if found:
            at, self.matched = min(found)
            self._over, self._held = True, ""
            return text[:at]
        keep = len(text) - beginning_of(text, self._stops)
        self._held = text[keep:]
        return text[:keep]

    def finish(self) -> str:
        """What was held back and turned out not to be a stop string."""
        held, self._held = self._held, ""
        return held


class ReplyReader:
    """Reads one reply. `feed` gives pieces to show at once, `finish` the rest and the tool calls.

    The pieces of a channel, joined, are exactly that channel's text in `message`.
    """

    def __init__(
        self,
        template: Reads,
        turn: str,
        prompt: list[int],
        tools: list[dict[str, Any]],
        stop: Sequence[str] = (),
        *,
        chat: bool = True,
    ) -> None:
        """Without `chat` the whole reply is content: it continues a text, not a conversation."""
        self._template, self._turn, self._prompt, self._tools = template, turn, prompt, tools
        self._decoder = Decoder(template.tokenizer, template.hidden_ids)
        self._cut = StopCut(stop)
        self._state = "reasoning" if chat and template.starts_in_reasoning(prompt) else "start" if chat else "content"
        self._trim = self._state == "reasoning"
        self._pending = ""
        self._shown: dict[str, list[str]] = {"content": [], "reasoning": []}
        self.ids: list[int] = []
        self.calls: list[Call] = []

    def feed(self, ids: Sequence[int]) -> list[Piece]:
        """Take newly sampled tokens; returns what can be shown now."""
        self.ids.extend(ids)
        return self._read(self._cut.feed(self._decoder.feed(ids)))

    def finish(self) -> list[Piece]:
        """The reply is over: everything held back is shown or read as tool calls (`calls`)."""
        pieces = self._read(self._cut.finish())
        held, self._pending = self._pending, ""
        if self._state == "tools":
            return pieces + self._piece("content", self._read_calls(held))
        return pieces + self._piece("reasoning" if self._state == "reasoning" else "content", held)

    @property
    def stopped_by(self) -> str | None:
        """The stop string that ended the text, if one did."""
        return self._cut.matched

    @property
    def message(self) -> Message:
        """The reply as a chat message."""
        content, reasoning = ("".join(self._shown[channel]) for channel in ("content", "reasoning"))
        message: Message = {"role": "assistant", "content": content if content or not self.calls else None}
        if reasoning:
            message["reasoning_content"] = reasoning
        if self.calls:
            message["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                for call in self.calls
            ]
        return message

    def _read(self, text: str) -> list[Piece]:
        self._pending += text
        pieces: list[Piece] = []
        step = {"start": self._start, "reasoning": self._reasoning, "content": self._content}
        while (state := self._state) in step:
            pieces += step[state]()
            if self._state == state:
                break
        return pieces

    def _start(self) -> list[Piece]:
        """Before the first visible character: reasoning opens here or never."""
        text = self._pending.lstrip()
        if text.startswith(THINK_OPEN):
            self._state, self._pending, self._trim = "reasoning", text[len(THINK_OPEN) :], True
        elif text and not THINK_OPEN.startswith(text):
            self._state = "content"
        return []

    def _reasoning(self) -> list[Piece]:
        before, found, after = self._pending.partition(THINK_CLOSE)
        if found:
            self._state, self._pending = "content", after
            pieces = self._piece("reasoning", before.rstrip())
            self._trim = True
            return pieces
        return self._emit_safe("reasoning", [THINK_CLOSE])

    def _content(self) -> list[Piece]:
        if not self._tools:
            return self._emit_safe("content", [])
        at = self._pending.find(TOOL_OPEN)
        if at >= 0:
            before, self._pending, self._state = self._pending[:at].rstrip(), self._pending[at:], "tools"
            return self._piece("content", before)
        return self._emit_safe("content", [TOOL_OPEN])

    def _emit_safe(self, channel: Literal["content", "reasoning"], markers: list[str]) -> list[Piece]:
        """Show all but a tail that may turn out to be the beginning of a marker, with the space before it."""
        text = self._pending
        keep = len(text) - beginning_of(text, markers) if markers else len(text)
        keep = len(text[:keep].rstrip()) if markers else keep
        self._pending = text[keep:]
        return self._piece(channel, text[:keep])

    def _piece(self, channel: Literal["content", "reasoning"], text: str) -> list[Piece]:
        text = text.lstrip() if self._trim else text
        if not text:
            return []
        self._trim = False
        self._shown[channel].append(text)
        return [Piece(channel, text)]

    def _read_calls(self, held: str) -> str:
        """Read the held text's tool calls; returns the text around them, with unreadable calls left as they are."""
        blocks = list(_BLOCK.finditer(held))
        attempts = self._template.calls(self._prompt, self.ids, self._tools)
        if len(attempts) != len(blocks):
            attempts = [hermes(block.group(1)) for block in blocks]
        rest, position = "", 0
        for block, attempt in zip(blocks, attempts, strict=True):
            rest += held[position : block.start()].strip()
            position = block.end()
            if attempt is None:
                rest += block.group(0)
            else:
                self._add_call(*attempt)
        return rest + held[position:].strip()

    def _add_call(self, name: str, arguments: object) -> None:
        text = arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False)
        self.calls.append(Call(f"call_{self._turn[:20]}{len(self.calls)}", name, text))


def hermes(block: str) -> tuple[str, object] | None:
    """The call in one `<tool_call>` block of JSON with `name` and `arguments`, or None if it cannot be read."""
    try:
        call = json.loads(block)
    except ValueError:
        return None
    if not isinstance(call, dict) or not isinstance(call.get("name"), str) or not call["name"]:
        return None
    return call["name"], call.get("arguments") or {}


def beginning_of(text: str, markers: Sequence[str]) -> int:
    """Length of the longest tail of the text with which one of the markers begins."""
    longest = max((len(marker) for marker in markers), default=1) - 1
    lengths = range(min(longest, len(text)), 0, -1)
    return next((n for n in lengths if any(marker.startswith(text[-n:]) for marker in markers)), 0)
