"""The records that pass between the proxy's rooms: who asks, what is asked, and what is known of earlier turns."""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from drivetrain.common.events import Message, RolloutRef, Sampling
from drivetrain.common.tokens import unpack_ids

Consent = Literal["off", "record", "train"]
Finish = Literal["stop", "length", "tool_calls", "aborted", "error"]
Kind = Literal["main", "side"]


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """Who speaks. `session` is None when only the conversation's own content can tell."""

    tenant: str
    policy: str
    session: str | None = None
    rollout: RolloutRef | None = None
    kind: Kind = "main"
    consent: Consent = "train"
    done: bool = False

    @property
    def scope(self) -> str:
        """Where this caller's conversations are looked up: its session, or all unnamed ones of its tenant."""
        return "\0".join((self.tenant, self.policy, self.session or ""))


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """A request for one reply, whatever dialect it came in; messages and tools in the form of OpenAI chat.

    `model` names the policy. `prompt` is text or token ids to be continued as they are: then there are no messages.
    `must_call` names the tools of which the reply has to call one. `tokens` asks for ids and logprobs with the reply.
    `usage_chunk` asks for the usage at the end of a stream, in dialects that send it on request only.
    `replies` siblings are wanted and this is number `sibling` of them. `hints` are the body's own words on who speaks:
    session_id, turn_type, session_done, user_id, prompt_cache_key.
    """

    model: str
    messages: list[Message]
    prompt: str | list[int] | None = None
    tools: list[dict[str, Any]] = []
    must_call: list[str] = []
    sampling: Sampling = Sampling()
    stop: list[str] = []
    stream: bool = False
    usage_chunk: bool = False
    tokens: bool = False
    replies: int = 1
    sibling: int = 0
    hints: Mapping[str, str] = {}


class KnownTurn(msgspec.Struct, frozen=True, kw_only=True):
    """A finished turn as the session index keeps it: only what is new since its parent."""

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
    depth: int
    tools: str
    trainable: bool

    @property
    def tokens(self) -> list[int]:
        """This turn's own tokens: new prompt, then response."""
        return unpack_ids(self.prompt_ids) + unpack_ids(self.response_ids)


class Past(msgspec.Struct, frozen=True, kw_only=True):
    """A known turn with the whole token sequence that it ended: its full prompt, then its reply."""

    known: KnownTurn
    prompt: list[int]
    response: list[int]
