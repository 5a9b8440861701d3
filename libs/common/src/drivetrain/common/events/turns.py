"""What the proxy says of each model call: the turn itself, and what the world sent back after it."""

from typing import Any, ClassVar, Literal

import msgspec

from drivetrain.common.events.base import Event, Message, shard_of
from drivetrain.common.events.rollouts import RolloutRef


class Span(msgspec.Struct, frozen=True):
    """Response tokens `[start, end)` were sampled by this version of the policy."""

    start: int
    end: int
    version: int


class Sampling(msgspec.Struct, frozen=True, kw_only=True):
    """Sampling parameters as the engine applied them."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    max_tokens: int | None = None
    seed: int | None = None
    stop: list[str] = []
    other: dict[str, Any] = {}


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a turn stands in its conversation, so that the proxy finds it again: `line` is a digest of all messages up
    to and with the reply ("" when the reply said nothing), `depth` their number, `tools` a digest of the tools. `also`
    are digests of what a harness may make of that history, `asked` is the same for every attempt of one request.
    `rendered` is the length and digest of what the chat template wrote before the reply, empty where it was not asked.
    """

    line: str
    also: list[str] = []
    asked: str = ""
    depth: int
    tools: str
    rendered: str = ""


class TurnRecorded(Event, frozen=True, kw_only=True):
    """One model call, exactly as sampled.

    `prompt_ids` holds only the prompt tokens that follow the parent turn's last response token (all of them when
    there is no parent); the whole prompt is the concatenation along the chain of parents. `messages` likewise holds
    only the messages after the parent's reply, and `tools` is empty with a parent: they are those of the chain's first
    turn. Token ids are little-endian int32 bytes, logprobs float32 bytes, one per response token, as the engine
    sampled (processed, so after temperature).

    `masked` names the patterns whose finds are masked in this turn or an earlier one of its chain, separated by commas:
    then it is not to be trained. A masked token has the id -1 and a NaN logprob.
    """

    STREAM: ClassVar[str] = "TURNS"
    PREFIX: ClassVar[str] = "turn.recorded"

    tenant: str
    policy: str
    session: str
    turn: str
    parent: str | None
    thread: str = "main"
    kind: Literal["main", "side"] = "main"
    prompt_ids: bytes
    response_ids: bytes
    logprobs: bytes
    versions: list[Span]
    sampling: Sampling
    finish: Literal["stop", "length", "tool_calls", "aborted", "error"]
    exact: bool
    inexact_reason: str = ""
    drift: Literal["root", "clean", "realigned", "forked"] = "root"
    drift_cause: str = ""
    messages: list[Message]
    reply: Message
    tools: list[dict[str, Any]] = []
    place: Place | None = None
    masked: str = ""
    consent: Literal["record", "train"] = "train"
    replica: str = ""
    rollout: RolloutRef | None = None
    started_at: float
    finished_at: float

    def subject_tokens(self, shards: int) -> list[str]:
        return [shard_of(self.session, shards), self.policy, self.session, self.turn]


class TurnFollowed(Event, frozen=True, kw_only=True):
    """The n-th next state of a turn: every message the world sent after the reply, or that nothing will come. A
    conversation that goes on after `idle` brings its messages as the next n. `superseded` says that another attempt
    of the same request was the one that went on: no evidence about this reply, and overruled by any `messages`.

    `before` is the turn's own new messages (what the reply answered) and `reply` the reply, so that a rule needs no
    second read. `trainable` is false for side turns, for replies the engine could not record exactly, for aborted
    replies, and without consent.
    """

    STREAM: ClassVar[str] = "TURNS"
    PREFIX: ClassVar[str] = "turn.followed"

    tenant: str
    policy: str
    session: str
    turn: str
    n: int
    kind: Literal["messages", "ended", "idle", "superseded"] = "messages"
    messages: list[Message]
    before: list[Message]
    reply: Message
    trainable: bool = True
    rollout: RolloutRef | None = None
    at: float

    def subject_tokens(self, shards: int) -> list[str]:
        return [shard_of(self.session, shards), self.policy, self.session, self.turn, str(self.n)]
