"""The event base class and its msgpack codec.

Payloads are msgpack maps that carry their schema version as `v`. Unknown fields are ignored, a missing required
field is an `InvalidEvent` (the message is dead-lettered), a newer major version is a `NewerVersion` (the consumer
stops: during a rolling upgrade the stream must not drain into dead letters).
"""

import zlib
from typing import Any, ClassVar, TypeVar

import msgspec

Message = dict[str, Any]
"""A chat message in OpenAI form: `role`, `content`, and for tools `tool_calls` or `tool_call_id`."""


class InvalidEvent(ValueError):
    """A payload that no version of this code can read: malformed msgpack, or a field missing or of a wrong type."""


class NewerVersion(RuntimeError):
    """A payload written by a newer major version of the schema. Upgrade this service; the message is kept."""


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all events. Subclasses set `STREAM`, `VERSION`, `PREFIX` and build their subject. With `ONCE` false the
    last event of a subject takes the place of the one before."""

    STREAM: ClassVar[str]
    PREFIX: ClassVar[str]
    VERSION: ClassVar[int] = 1
    ONCE: ClassVar[bool] = True

    v: int = 1

    def subject(self, shards: int = 1) -> str:
        """The one subject under which this event is stored; `shards` is the bus-wide number of shards."""
        return ".".join([self.PREFIX, *self.subject_tokens(shards)])

    def subject_tokens(self, shards: int) -> list[str]:
        """What follows `PREFIX` in the subject; every event defines it."""
        raise NotImplementedError(f"{type(self).__name__} defines no subject")

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "PREFIX" in cls.__dict__:
            _TYPES[cls.PREFIX] = cls


class _Version(msgspec.Struct):
    v: int


_TYPES: dict[str, type[Event]] = {}
_encoder = msgspec.msgpack.Encoder()
_version_decoder = msgspec.msgpack.Decoder(_Version)

E = TypeVar("E", bound=Event)


def shard_of(session: str, shards: int) -> str:
    """The shard token of a session: a stable hash, so that every publisher agrees."""
    return str(zlib.crc32(session.encode()) % shards)


def event_type(subject: str) -> type[Event]:
    """The event class stored under a subject.

    Raises:
        InvalidEvent: no event uses that subject.
    """
    tokens = subject.split(".")
    for length in (2, 1):
        if found := _TYPES.get(".".join(tokens[:length])):
            return found
    raise InvalidEvent(f"no event is published under the subject {subject!r}")


def encode(event: Event) -> bytes:
    """An event as a msgpack map."""
    return _encoder.encode(event)


def decode(payload: bytes, kind: type[E]) -> E:
    """Read a msgpack map as an event of the given class.

    Raises:
        NewerVersion: the payload's `v` is above what this code knows.
        InvalidEvent: it is not msgpack, or a required field is missing or of a wrong type.
    """
    try:
        version = _version_decoder.decode(payload).v
        if version > kind.VERSION:
            raise NewerVersion(
                f"{kind.__name__} has version {version}, this service reads up to {kind.VERSION}: upgrade the service"
            )
        return msgspec.msgpack.decode(payload, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidEvent(f"{kind.__name__}: {error}") from error
