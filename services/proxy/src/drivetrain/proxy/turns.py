"""The records that pass between the proxy's rooms: who asks, what is asked, and what is known of earlier turns."""

from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec

from drivetrain.common.events import Message, RolloutRef, Sampling
from drivetrain.common.keys import Role

Consent = Literal["off", "record", "train"]
Finish = Literal["stop", "length", "tool_calls", "aborted", "error"]
Kind = Literal["main", "side"]
CUT: tuple[Finish, ...] = ("aborted", "error")
"""How a reply ends that is not whole."""
MAIN = "main"
"""The thread of a session that is no sub-agent's."""


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """Who speaks. Where `session`, `thread` or `kind` is None only the conversation's own content can tell. `harness`
    is the one that the request gives away, "" for none; `role` is that of the key."""

    tenant: str
    policy: str
    role: Role = "person"
    session: str | None = None
    thread: str | None = None
    harness: str = ""
    rollout: RolloutRef | None = None
    kind: Kind | None = None
    consent: Consent = "train"
    done: bool = False

    @property
    def scope(self) -> str:
        """Where this caller's conversations are looked up: its session, or all unnamed ones of its tenant; a named
        thread's apart from the others."""
        return "\0".join((self.tenant, self.policy, self.session or "", self.thread or ""))


class Speaker(msgspec.Struct, frozen=True):
    """Who speaks, when the conversation has told the rest."""

    session: str
    thread: str
    kind: Kind


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """A request for one reply, whatever dialect it came in; messages and tools in the form of OpenAI chat.

    `model` names the policy. `prompt` is text or token ids to be continued as they are: then there are no messages.
    `must_call` names the tools of which the reply has to call one, `one_call` ends it after its first call. `logprobs`
    and `token_ids` ask for these with the reply, `top_logprobs` for that many of the likeliest tokens at each place,
    `usage_chunk` for the usage at the end of a stream.
    `replies` siblings are wanted; all of one request have the same `family`. `hints` are the body's own words on
    who speaks: session_id, turn_type, session_done, user_id, prompt_cache_key. `continues` is the turn whose
    conversation the messages go on from, "" where they are all of it. `server_tools` were asked for beside `tools`, and
    nobody here runs them. `own` is what the dialect's writer reads of the request.
    """

    model: str
    messages: list[Message]
    prompt: str | list[int] | None = None
    tools: list[dict[str, Any]] = []
    must_call: list[str] = []
    one_call: bool = False
    sampling: Sampling = Sampling()
    stop: list[str] = []
    stream: bool = False
    usage_chunk: bool = False
    logprobs: bool = False
    top_logprobs: int = 0
    token_ids: bool = False
    replies: int = 1
    family: str = ""
    hints: Mapping[str, str] = {}
    continues: str = ""
    server_tools: list[str] = []
    own: Any = None


class KnownTurn(msgspec.Struct, frozen=True, kw_only=True):
    """A finished turn as the session index keeps it: only what is new since its parent. `line` is the digest by which
    a request that goes on from here finds it, `also` are others for harnesses that change their history, `asked` is one
    that all attempts of the same request share. See `drivetrain.proxy.conversations.echoes`."""

    turn: str
    parent: str | None
    tenant: str
    policy: str
    session: str
    rollout: RolloutRef | None
    prompt_ids: bytes
    response_ids: bytes
    messages: list[Message]
    reply: Message
    line: str
    also: list[str] = []
    asked: str = ""
    depth: int
    tools: str
    rendered: str = ""
    thread: str = MAIN
    kind: Kind
    finish: Finish = "stop"
    trainable: bool
    masked: str = ""
    started_at: float = 0.0
    finished_at: float

    @property
    def lines(self) -> tuple[str, ...]:
        """The digests of all histories that mean this turn."""
        return (self.line, *self.also) if self.line else ()

    @property
    def cut(self) -> bool:
        """Whether its reply is not whole."""
        return self.finish in CUT

    @property
    def awaited(self) -> bool:
        """Whether something should follow: the whole reply of a main turn."""
        return self.kind == "main" and not self.cut

    @property
    def requests(self) -> tuple[str, ...]:
        """What all attempts share that this turn is one of: its own request, and when its reply was cut, what follows
        the turn before."""
        return (self.asked, after(self.parent)) if self.cut and self.parent else (self.asked,)


def after(turn: str) -> str:
    """What the attempts share that follow a turn."""
    return f"after-{turn}"


class Past(msgspec.Struct, frozen=True, kw_only=True):
    """A known turn with the whole token sequence that it ended: its full prompt, then its reply. `seen` gives the
    conversation as the model saw it, reply included."""

    known: KnownTurn
    prompt: list[int]
    response: list[int]
    seen: Callable[[], list[Message]] = list
