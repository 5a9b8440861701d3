"""Sampled token ids to what the caller sees: text as it is sampled, reasoning apart, tool calls once they are whole."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

import msgspec

from drivetrain.common.events import Message
from drivetrain.proxy.replies.decoding import MARKS, Decoder, StopCut, as_said, beginning_of


class Piece(msgspec.Struct, frozen=True):
    """A piece of text for one channel of the reply."""

    channel: Literal["content", "reasoning"]
    text: str


class Call(msgspec.Struct, frozen=True):
    """A whole tool call; `arguments` is JSON text."""

    id: str
    name: str
    arguments: str


Attempt = tuple[str, object] | None
"""A tool call as name and arguments; None for one that cannot be read."""


class Reads(Protocol):
    """What replies need of a template; see `drivetrain.proxy.prompts.templates.Template`."""

    @property
    def tokenizer(self) -> Any: ...

    @property
    def hidden_ids(self) -> frozenset[int]: ...

    @property
    def marker_ids(self) -> Mapping[int, str]: ...

    def starts_in_reasoning(self, prompt: list[int]) -> bool: ...

    def calls(self, prompt: list[int], response: list[int], tools: list[dict[str, Any]]) -> list[Attempt]: ...


class ReplyReader:
    """Reads one reply. `feed` gives what can be shown at once, `finish` the rest.

    The pieces of a channel, joined, are exactly that channel's text in `message`, and so are the calls.
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
        self._decoder = Decoder(template.tokenizer, template.hidden_ids, template.marker_ids)
        self._stops = {_marked(text, template.marker_ids): text for text in stop}
        self._cut = StopCut(list(self._stops))
        marks = [_marked(marker, template.marker_ids) for marker in MARKS]
        self._think, self._think_end, self._call, self._call_end = marks
        self._state = "reasoning" if chat and template.starts_in_reasoning(prompt) else "start" if chat else "content"
        self._trim = self._state == "reasoning"
        self._pending = ""
        self._blocks = 0
        self._shown: dict[str, list[str]] = {"content": [], "reasoning": []}
        self.ids: list[int] = []
        self.calls: list[Call] = []

    def feed(self, ids: Sequence[int]) -> list[Piece | Call]:
        """Take newly sampled tokens; returns what can be shown now."""
        self.ids.extend(ids)
        return self._read(self._cut.feed(self._decoder.feed(ids)))

    def finish(self) -> list[Piece | Call]:
        """The reply is over: everything held back is shown, or read as a tool call that was left open."""
        shown = self._read(self._cut.feed(self._decoder.finish()) + self._cut.finish())
        if self._state == "drafting" and self._template.calls(self._prompt, self.ids, self._tools):
            self._state = "calling"  # this model's calls end its reasoning
            shown += self._read("")
        held, self._pending = self._pending, ""
        if self._state == "calling":
            return shown + self._block(held)
        if self._state in ("reasoning", "drafting"):
            return shown + self._piece("reasoning", held)
        return shown + self._piece("content", held.rstrip() if self._blocks else held)

    @property
    def stopped_by(self) -> str | None:
        """The stop string that ended the text, if one did."""
        return None if self._cut.matched is None else self._stops[self._cut.matched]

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

    def _read(self, text: str) -> list[Piece | Call]:
        self._pending += text
        shown: list[Piece | Call] = []
        step = {
            "start": self._start,
            "reasoning": self._reasoning,
            "drafting": self._drafting,
            "content": self._content,
            "calling": self._calling,
        }
        while True:
            before = self._state, self._pending
            shown += step[self._state]()
            if (self._state, self._pending) == before or self._state == before[0] != "calling":
                return shown

    def _start(self) -> list[Piece | Call]:
        """Before the first visible character: reasoning opens here or never."""
        text = self._pending.lstrip()
        if text.startswith(self._think):
            self._state, self._pending, self._trim = "reasoning", text[len(self._think) :], True
        elif text and not self._think.startswith(text):
            self._state = "content"
        return []

    def _reasoning(self) -> list[Piece | Call]:
        ends = [self._think_end, self._call] if self._tools else [self._think_end]
        found = min(((at, end) for end in ends if (at := self._pending.find(end)) >= 0), default=None)
        if found is None:
            return self._emit_safe("reasoning", ends)
        at, end = found
        if end == self._call:
            before, self._pending, self._state = self._pending[:at], self._pending[at:], "drafting"
            kept = before.rstrip()
            self._pending = before[len(kept) :] + self._pending
            return self._piece("reasoning", kept)
        return self._end_reasoning(at)

    def _drafting(self) -> list[Piece | Call]:
        """A call within the reasoning is a draft if the reasoning ends after it."""
        at = self._pending.find(self._think_end)
        return self._end_reasoning(at) if at >= 0 else []

    def _end_reasoning(self, at: int) -> list[Piece | Call]:
        before, self._pending = self._pending[:at].rstrip(), self._pending[at + len(self._think_end) :]
        shown = self._piece("reasoning", before)
        self._state, self._trim = "content", True
        return shown

    def _content(self) -> list[Piece | Call]:
        if not self._tools:
            return self._emit_safe("content", [])
        at = self._pending.find(self._call)
        if at >= 0:
            before, self._pending, self._state = self._pending[:at].rstrip(), self._pending[at:], "calling"
            return self._piece("content", before)
        return self._emit_safe("content", [self._call])

    def _calling(self) -> list[Piece | Call]:
        """Within a block, or between two."""
        at = self._pending.find(self._call_end)
        if not self._pending.lstrip().startswith(self._call):
            rest = self._pending.lstrip()
            if rest and not self._call.startswith(rest):
                self._state, self._trim = "content", True
            return []
        if at < 0:
            return []
        end = at + len(self._call_end)
        block, self._pending = self._pending[:end].lstrip(), self._pending[end:]
        return self._block(block)

    def _block(self, block: str) -> list[Piece | Call]:
        """A whole block as the call that it is, or as the text that it was."""
        if not block.strip():
            return []
        inner = block.removeprefix(self._call).removesuffix(self._call_end)
        attempts = self._template.calls(self._prompt, self.ids, self._tools)
        attempt = attempts[self._blocks] if self._blocks < len(attempts) else hermes(inner)
        self._blocks += 1
        if attempt is None:
            return self._piece("content", block.rstrip())
        name, arguments = attempt
        text = arguments if isinstance(arguments, str) else _json(arguments or {})
        call = Call(f"call_{self._turn[:20]}{len(self.calls)}", _encodable(name), _encodable(text))
        self.calls.append(call)
        return [call]

    def _emit_safe(self, channel: Literal["content", "reasoning"], markers: list[str]) -> list[Piece | Call]:
        """Show all but a tail that may turn out to be the beginning of a marker, with the space before it."""
        text = self._pending
        keep = len(text) - beginning_of(text, markers) if markers else len(text)
        keep = len(text[:keep].rstrip()) if markers else keep
        self._pending = text[keep:]
        return self._piece(channel, text[:keep])

    def _piece(self, channel: Literal["content", "reasoning"], text: str) -> list[Piece | Call]:
        text = as_said(text.lstrip() if self._trim else text)
        if not text:
            return []
        self._trim = False
        self._shown[channel].append(text)
        return [Piece(channel, text)]


def hermes(block: str) -> Attempt:
    """The call in one `<tool_call>` block of JSON with `name` and `arguments`, or None if it cannot be read."""
    try:
        call = json.loads(block)
    except (ValueError, RecursionError):
        return None
    if not isinstance(call, dict) or not isinstance(call.get("name"), str) or not call["name"]:
        return None
    return call["name"], call.get("arguments") or {}


def _json(arguments: object) -> str:
    """As JSON; half a surrogate pair, which a model can say and no text can hold, stays an escape."""
    text = json.dumps(arguments, ensure_ascii=False)
    return text if _encodable(text) == text else json.dumps(arguments)


def _encodable(text: str) -> str:
    return text.encode(errors="replace").decode()


def _marked(text: str, atomic: Mapping[int, str]) -> str:
    """Text in which the markers that are one token of the model are their marks."""
    for marker in atomic.values():
        text = text.replace(marker, MARKS[marker])
    return text
