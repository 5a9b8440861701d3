"""Which replicas there are, and what the proxy may ask of each. The last event of a subject is the one that holds."""

from typing import ClassVar

import msgspec

from drivetrain.common.events.base import Event


class ReplicaSeen(Event, frozen=True, kw_only=True):
    """A replica's heartbeat: where it is, the policies that it is for, the version that it says it serves (None while
    it says none), and how many requests are at it. `name` is one token."""

    STREAM: ClassVar[str] = "REPLICAS"
    PREFIX: ClassVar[str] = "replica.seen"
    ONCE: ClassVar[bool] = False

    name: str
    url: str
    policies: list[str]
    version: int | None
    load: int
    at: float

    def subject_tokens(self, shards: int) -> list[str]:
        return [self.name]


class Post(msgspec.Struct, frozen=True, kw_only=True):
    """What one replica serves of a policy, as it proved: full weights with the label `label` (None: no known ones), and
    these versions as adapters, each under the name `policy@version` and only while the label is the one said here.
    `out` says why it must not be asked; empty where it may."""

    url: str
    label: int | None
    adapters: list[int] = []
    out: str = ""


class ReplicaRotation(Event, frozen=True, kw_only=True):
    """Who answers a policy's requests: `version` is promoted; a `share` of the sessions gets the version `canary`, if
    there is one. With `sticky` a session keeps its version until it ends."""

    STREAM: ClassVar[str] = "REPLICAS"
    PREFIX: ClassVar[str] = "replica.rotation"
    ONCE: ClassVar[bool] = False

    policy: str
    version: int
    posts: list[Post]
    canary: int | None = None
    share: float = 0.0
    sticky: bool = False
    at: float

    def subject_tokens(self, shards: int) -> list[str]:
        return [self.policy]
