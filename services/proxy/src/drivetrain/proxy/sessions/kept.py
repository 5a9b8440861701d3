"""A turn as it is kept, in Redis and in memory: its tokens apart, all else packed until it is asked for."""

from collections.abc import Callable

import msgspec

from drivetrain.common.events import Message
from drivetrain.common.tokens import unpack_ids
from drivetrain.proxy.turns import KnownTurn, Past

_encoder = msgspec.msgpack.Encoder()
_known_decoder = msgspec.msgpack.Decoder(KnownTurn)


class Address(msgspec.Struct, frozen=True):
    """Which turn of which session; as text it is the tail of the subject under which the turn lies in the stream."""

    policy: str
    session: str
    turn: str

    def __str__(self) -> str:
        return f"{self.policy}.{self.session}.{self.turn}"

    @classmethod
    def parse(cls, text: bytes | str) -> "Address":
        """Reads what `str` wrote."""
        return cls(*(text.decode() if isinstance(text, bytes) else text).split("."))


class Kept(msgspec.Struct, frozen=True, array_like=True):
    """`rest` is the packed `KnownTurn` without its token ids."""

    parent: str | None
    prompt_ids: bytes
    response_ids: bytes
    rest: bytes

    @property
    def known(self) -> KnownTurn:
        """The turn, unpacked."""
        known = _known_decoder.decode(self.rest)
        return msgspec.structs.replace(known, prompt_ids=self.prompt_ids, response_ids=self.response_ids)

    @property
    def size(self) -> int:
        """About how many bytes of memory it takes."""
        return len(self.prompt_ids) + len(self.response_ids) + len(self.rest) + 300


_kept_decoder = msgspec.msgpack.Decoder(Kept)


def keep(known: KnownTurn) -> Kept:
    """A known turn, packed."""
    rest = _encoder.encode(msgspec.structs.replace(known, prompt_ids=b"", response_ids=b""))
    return Kept(known.parent, known.prompt_ids, known.response_ids, rest)


def pack(kept: Kept) -> bytes:
    """As bytes; only what is new since the turn's parent."""
    return _encoder.encode(kept)


def unpack(data: bytes) -> Kept:
    """What `pack` wrote."""
    return _kept_decoder.decode(data)


def chain(turn: str, get: Callable[[str], Kept | None]) -> tuple[list[Kept], str | None]:
    """A turn and its ancestors, youngest first, and the first one of them that `get` does not have, if any."""
    found: list[Kept] = []
    at: str | None = turn
    while at is not None:
        kept = get(at)
        if kept is None:
            return found, at
        found.append(kept)
        at = kept.parent
    return found, None


def past(whole: list[Kept]) -> Past:
    """A turn with its whole token sequence, from its complete chain of ancestors, youngest first."""
    before = [part for kept in reversed(whole[1:]) for part in (kept.prompt_ids, kept.response_ids)]
    prompt = unpack_ids(b"".join((*before, whole[0].prompt_ids)))
    response = unpack_ids(whole[0].response_ids)
    return Past(known=whole[0].known, prompt=prompt, response=response, seen=lambda: _seen(whole))


def _seen(whole: list[Kept]) -> list[Message]:
    turns = [kept.known for kept in reversed(whole)]
    return [message for known in turns for message in (*known.messages, known.reply)]
