"""The exact prompt of a turn: the recorded tokens of the turn before, then only what is new."""

from collections.abc import Sequence
from typing import Any, Literal, Protocol

import msgspec

from drivetrain.common.events import Message
from drivetrain.proxy.turns import Past

Drift = Literal["root", "clean", "realigned", "forked"]


class Renders(Protocol):
    """What prompts need of a template; see `drivetrain.proxy.templates.Template`."""

    @property
    def stop_ids(self) -> Sequence[int]: ...

    def render(
        self, messages: Sequence[Message], tools: list[dict[str, Any]], *, generation: bool = True
    ) -> list[int]: ...

    def bridge(
        self, prompt: list[int], response: list[int], new: Sequence[Message], tools: list[dict[str, Any]]
    ) -> list[int] | None: ...


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """Prompt token ids. The first `shared` of them are the parent's recorded tokens, unchanged; 0 means no parent.

    `drift`: `root` without history; `clean` when the template's own rendering agrees with the recorded tokens or the
    renderer bridged them; `realigned` when it would write history otherwise and the recorded tokens were kept;
    `forked` when they could not be kept.
    """

    ids: list[int]
    shared: int
    drift: Drift

    @property
    def new_ids(self) -> list[int]:
        """The tokens that follow the parent's."""
        return self.ids[self.shared :]


def build(
    template: Renders, messages: Sequence[Message], tools: list[dict[str, Any]], past: Past | None, *, same_tools: bool
) -> Prompt:
    """The prompt for the next reply. `past` is the recorded turn that `messages[: past.known.depth]` repeats;
    `same_tools` says whether the tools are those it was rendered with."""
    if past is None:
        return Prompt(ids=template.render(messages, tools), shared=0, drift="root")
    if not same_tools:
        return Prompt(ids=template.render(messages, tools), shared=0, drift="forked")
    recorded = past.prompt + past.response
    new = messages[past.known.depth :]
    bridged = template.bridge(past.prompt, past.response, new, tools)
    if bridged is not None and bridged[: len(recorded)] == recorded:
        return Prompt(ids=bridged, shared=len(recorded), drift="clean")
    return _splice(template, messages, tools, recorded, past.known.depth)


def _splice(
    template: Renders, messages: Sequence[Message], tools: list[dict[str, Any]], recorded: list[int], depth: int
) -> Prompt:
    """Recorded tokens, then what the template itself writes after the last recorded reply's end token."""
    whole = template.render(messages, tools)
    before = template.render(messages[:depth], tools, generation=False)
    end = _last_of(before, template.stop_ids)
    if end is None or whole[: len(before)] != before:
        return Prompt(ids=whole, shared=0, drift="forked")
    closed = bool(recorded) and recorded[-1] in template.stop_ids
    ids = recorded + whole[end + 1 if closed else end :]
    return Prompt(ids=ids, shared=len(recorded), drift="clean" if ids == whole else "realigned")


def _last_of(ids: Sequence[int], wanted: Sequence[int]) -> int | None:
    stops = frozenset(wanted)
    return next((i for i in range(len(ids) - 1, -1, -1) if ids[i] in stops), None)
