"""How a finished turn may come back: the digests under which its conversation will be found, and what then is new.

Beside the plain case (every message repeated, then the reply) there are harnesses that keep one volatile message at
the end of every request, which is gone in the next one, harnesses that after a failure send their message again in
other words, and harnesses that, after a reply was cut in its middle, ask for the rest of it and send both halves back
as one message.
"""

from collections.abc import Sequence

import msgspec

from drivetrain.common.events import Message
from drivetrain.proxy.conversations.lineage import candidates, extend, text_of
from drivetrain.proxy.turns import KnownTurn, Past, Speaker

RETRY_WITHIN_S = 300.0
"""A harness gives a cut request up after that; the longest pause between two attempts that was seen is 40 s."""

_WORLD = ("user", "tool")


class Link(msgspec.Struct, frozen=True):
    """The turn that a request continues. The first `depth` of the request's messages are that turn's conversation."""

    past: Past
    depth: int

    @property
    def unchanged(self) -> bool:
        """Whether the request repeats every message of the turn, so that its tokens can be kept."""
        return self.depth == self.past.known.depth

    @property
    def volatile(self) -> bool:
        """Whether the last message that the turn answered is gone: then each request's last message is of that kind."""
        return self.depth == self.past.known.depth - 1


class Where(msgspec.Struct, frozen=True, kw_only=True):
    """Where a request stands: who speaks, the digest of each prefix of its messages, the turn that it continues, and
    what the attempts share that it repeats in other words."""

    speaker: Speaker
    digests: Sequence[str]
    link: Link | None
    again: str = ""

    @property
    def asked(self) -> str:
        """What all attempts of this request share."""
        return self.again or asked(self.digests, self.link)


def link(past: Past, digests: Sequence[str], messages: Sequence[Message]) -> Link:
    """Where in a request the conversation of a turn ends that was found by the request's digests."""
    lines = {past.known.line, *past.known.also}
    end = next(digest for digest in candidates(digests, messages) if digest in lines)
    return Link(past, digests.index(end) + 1)


def asked(digests: Sequence[str], found: Link | None) -> str:
    """The digest that all attempts of one request share; what is volatile does not count."""
    return digests[-2] if found and found.volatile and len(digests) > found.depth + 1 else digests[-1]


def lines(digests: Sequence[str], messages: Sequence[Message], reply: Message, found: Link | None) -> list[str]:
    """The digests of the histories that mean this turn: first the plain one, then what harnesses may make of it.

    `digests` are those of the `messages` that the reply answered, and `found` is the turn that they continue. Empty
    for a reply that says nothing: no history can repeat it.
    """
    if not text_of(reply.get("content")).strip() and not reply.get("tool_calls"):
        return []
    result = [extend(digests[-1], reply)]
    if len(messages) > 1 and messages[-1]["role"] == "user" and messages[-2]["role"] in _WORLD:
        result.append(extend(digests[-2], reply))
    if found and found.depth > 1 and found.past.known.cut and _asks_on(messages[found.depth :]):
        halves = (messages[found.depth - 1], found.past.known.reply)
        result += [extend(digests[found.depth - 2], joined(first, reply)) for first in halves]
    return list(dict.fromkeys(result))


def next_state(messages: Sequence[Message], found: Link) -> list[Message]:
    """What the world sent after the turn's reply: all messages up to the next reply, but for a volatile last one."""
    after = messages[found.depth :]
    end = next((i for i, message in enumerate(after) if message["role"] == "assistant"), len(after))
    volatile = found.volatile and end == len(after) > 1 and after[-1]["role"] == "user"
    return list(after[: end - 1 if volatile else end])


def joined(first: Message, second: Message) -> Message:
    """Two halves of a reply as one."""
    calls = [*(first.get("tool_calls") or ()), *(second.get("tool_calls") or ())]
    whole: Message = {"role": "assistant", "content": text_of(first.get("content")) + text_of(second.get("content"))}
    return whole | ({"tool_calls": calls} if calls else {})


def continued(messages: Sequence[Message], found: Link | None, *, keep: bool) -> tuple[list[Message], Past | None]:
    """What is to be written for the model, and the turn whose tokens it goes on from.

    Where only a volatile message was taken out, what the model saw stays as it was, with that message in its place: the
    conversation is one sequence of tokens. With `keep` false, and where history was changed otherwise, the request is
    written as it was sent.
    """
    if found is None or found.unchanged:
        return list(messages), found.past if found else None
    seen = found.past.seen() if found.volatile and keep else []
    if not seen or not _words_only(seen[-2]):
        return list(messages), None
    known = msgspec.structs.replace(found.past.known, depth=len(seen))
    past = msgspec.structs.replace(found.past, known=known)
    return [*seen, *messages[found.depth :]], past


def superseded(known: KnownTurn, others: Sequence[KnownTurn]) -> list[KnownTurn]:
    """The attempts of the same request in the same session that were not the one that went on."""
    return [o for o in others if (o.asked, o.session) == (known.asked, known.session) and o.turn != known.turn]


def superseded_at_end(known: KnownTurn, others: Sequence[KnownTurn]) -> list[KnownTurn]:
    """The same when nothing went on: the attempts that were over when this one began. Replies that were asked for
    together have no order."""
    return [other for other in superseded(known, others) if other.finished_at <= known.started_at]


def replaced(known: KnownTurn, others: Sequence[KnownTurn]) -> bool:
    """Whether a whole reply was given to the same request after this one was over."""
    return any(other.awaited and known.finished_at <= other.started_at for other in superseded(known, others))


def cut_before(known: KnownTurn, others: Sequence[KnownTurn], now: float) -> KnownTurn | None:
    """The last request that followed this turn a moment ago and whose reply was cut: what follows now is that one
    again, whatever its words."""
    cut = [o for o in others if o.cut and (o.parent, o.session) == (known.turn, known.session)]
    return next((other for other in reversed(cut) if now - other.finished_at < RETRY_WITHIN_S), None)


def _words_only(message: Message) -> bool:
    content = message.get("content")
    return isinstance(content, str) or all("text" in part for part in content or ())


def _asks_on(new: Sequence[Message]) -> bool:
    return len(new) == 1 and new[0]["role"] == "user"
