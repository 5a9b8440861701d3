"""The events of a stream, numbered, and the items that they build piece by piece."""

from typing import Any, Literal

import msgspec

Channel = Literal["content", "reasoning"]


class Events:
    """Writes events in order."""

    def __init__(self) -> None:
        self._number = 0

    def event(self, kind: str, **data: Any) -> bytes:
        """The next event, `response.<kind>`."""
        body = {"type": f"response.{kind}", "sequence_number": self._number, **data}
        self._number += 1
        return f"event: response.{kind}\ndata: ".encode() + msgspec.json.encode(body) + b"\n\n"

    def call(self, item: dict[str, Any], at: int) -> bytes:
        """All events of a whole call."""
        kind, field = ("custom_tool_call_input", "input")
        if item["type"] == "function_call":
            kind, field = ("function_call_arguments", "arguments")
        place = {"item_id": item["id"], "output_index": at}
        named = {"name": item["name"]} if field == "arguments" else {}
        return (
            self.event("output_item.added", output_index=at, item={**item, field: "", "status": "in_progress"})
            + self.event(f"{kind}.delta", **place, delta=item[field])
            + self.event(f"{kind}.done", **place, **named, **{field: item[field]})
            + self.event("output_item.done", output_index=at, item=item)
        )


class Building:
    """An item of text, or of reasoning, that grows."""

    def __init__(self, events: Events, channel: str, identity: str, at: int) -> None:
        self.channel = channel
        self._events, self._id, self._at = events, identity, at
        self._texts: list[str] = []
        self._logprobs: list[dict[str, Any]] = []

    @property
    def text(self) -> str:
        """All of it so far."""
        return "".join(self._texts)

    def opened(self) -> bytes:
        """The item begins, and its one part."""
        added = self._events.event("output_item.added", output_index=self._at, item=self._item("in_progress", []))
        return added + self._events.event("content_part.added", **self._place, part=self._part("", []))

    def delta(self, text: str, logprobs: list[dict[str, Any]]) -> bytes:
        """It grows by a piece."""
        self._texts.append(text)
        self._logprobs += logprobs
        kind = "output_text" if self.channel == "content" else "reasoning_text"
        told = {"logprobs": logprobs} if self.channel == "content" else {}
        return self._events.event(f"{kind}.delta", **self._place, delta=text, **told)

    def item(self, sealed: str | None) -> dict[str, Any]:
        """The item as it stands; `sealed` is its reasoning for clients that keep no plain one."""
        item = self._item("completed", [self._part(self.text, self._logprobs)])
        return item | ({"encrypted_content": sealed} if self.channel == "reasoning" and sealed else {})

    def closed(self, item: dict[str, Any]) -> bytes:
        """It is whole."""
        kind = "output_text" if self.channel == "content" else "reasoning_text"
        told = {"logprobs": self._logprobs} if self.channel == "content" else {}
        return (
            self._events.event(f"{kind}.done", **self._place, text=self.text, **told)
            + self._events.event("content_part.done", **self._place, part=item["content"][0])
            + self._events.event("output_item.done", output_index=self._at, item=item)
        )

    @property
    def _place(self) -> dict[str, Any]:
        return {"item_id": self._id, "output_index": self._at, "content_index": 0}

    def _part(self, text: str, logprobs: list[dict[str, Any]]) -> dict[str, Any]:
        if self.channel == "reasoning":
            return {"type": "reasoning_text", "text": text}
        return {"type": "output_text", "text": text, "annotations": [], "logprobs": logprobs}

    def _item(self, status: str, content: list[dict[str, Any]]) -> dict[str, Any]:
        if self.channel == "reasoning":
            return {"type": "reasoning", "id": self._id, "summary": [], "content": content, "status": status}
        return {"type": "message", "id": self._id, "role": "assistant", "content": content, "status": status}
