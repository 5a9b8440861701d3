"""The exact prompt of a turn: the recorded tokens of the turn before, then only what is new."""

from collections.abc import Sequence
from typing import Any, Literal, Protocol

import msgspec

from drivetrain.common.events import Message
from drivetrain.proxy.prompts.splices import Difference, Obstacle, Spliced, Writes, mark, splice
from drivetrain.proxy.turns import Past

Drift = Literal["root", "clean", "realigned", "forked"]
Cause = (
    Literal["first", "history_unknown", "appended", "history_edited", "tools_changed", "volatile_kept"]
    | Difference
    | Obstacle
)
"""Why: no history at all; history of which no turn is known; only new messages; replies in it that no turn recorded;
other tools than the turn before; a message that the harness shows in one request only stays where the model saw it.
See `splices` for the others."""


class Renders(Writes, Protocol):
    """What prompts need of a template; see `drivetrain.proxy.prompts.templates.Template`."""

    def render(self, messages: Sequence[Message], tools: list[dict[str, Any]]) -> list[int]: ...

    def bridge(
        self, prompt: list[int], response: list[int], new: Sequence[Message], tools: list[dict[str, Any]]
    ) -> list[int] | None: ...


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """Prompt token ids. The first `shared` of them are the parent's recorded tokens, unchanged; 0 means no parent.

    `drift`: `root` without history; `clean` when the template writes the reply before as it was recorded, or the
    renderer bridged it; `realigned` when it would write it otherwise and the recorded tokens were kept; `forked` when
    they could not be kept. `cause` says why. `rendered` marks the template's text, for the next splice. `images` are
    the URLs of those that the messages show, one for each place that the template marks.
    """

    ids: list[int]
    shared: int
    drift: Drift
    cause: Cause = "first"
    rendered: str = ""
    images: list[str] = []

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
        return _whole(template, messages, tools, "root", "history_unknown" if _replies(messages) else "first")
    if not same_tools:
        return _whole(template, messages, tools, "forked", "tools_changed")
    new, recorded = messages[past.known.depth :], past.prompt + past.response
    bridged = None if _replies(new) else template.bridge(past.prompt, past.response, new, tools)
    if bridged is not None:
        return Prompt(ids=recorded + bridged, shared=len(recorded), drift="clean", cause="appended")
    spliced = splice(template, messages, tools, past)
    if isinstance(spliced, Spliced):
        return _continued(recorded, spliced, edited=_replies(new))
    whole = _whole(template, messages, tools, "forked", spliced)
    if whole.ids[: len(recorded)] == recorded:
        return msgspec.structs.replace(whole, shared=len(recorded), drift="clean", cause="appended")
    return whole


def _whole(
    template: Renders, messages: Sequence[Message], tools: list[dict[str, Any]], drift: Drift, cause: Cause
) -> Prompt:
    if not template.splices:
        return Prompt(ids=template.render(messages, tools), shared=0, drift=drift, cause=cause)
    text = template.text(messages, tools)
    rendered = mark(text, template.opening)
    return Prompt(ids=template.encode(text), shared=0, drift=drift, cause=cause, rendered=rendered)


def _continued(recorded: list[int], spliced: Spliced, *, edited: bool) -> Prompt:
    return Prompt(
        ids=recorded + spliced.ids,
        shared=len(recorded),
        drift="realigned" if spliced.difference else "clean",
        cause=spliced.difference or ("history_edited" if edited else "appended"),
        rendered=spliced.rendered,
    )


def _replies(messages: Sequence[Message]) -> bool:
    return any(message["role"] == "assistant" for message in messages)
