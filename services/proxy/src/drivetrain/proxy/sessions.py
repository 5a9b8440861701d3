"""Which turn is the last of which conversation: an index in Redis, shared by all proxy replicas, and a local cache.

Redis holds only what the stream of turns holds too. When it does not answer, the local cache serves alone: replies go
out, and conversations that this replica does not know start anew.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar, cast

import msgspec
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from drivetrain.common.telemetry.logs import get_logger
from drivetrain.common.tokens import unpack_ids
from drivetrain.proxy.metrics import INDEX_ERRORS
from drivetrain.proxy.turns import KnownTurn, Past

_LAST = b"last"
_LEAVE_ALONE_S = 1.0
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(KnownTurn)
_log = get_logger("sessions")
T = TypeVar("T")
U = TypeVar("U")


def connect(url: str, timeout_s: float) -> Redis:
    """A client that gives up after the timeout and tries a closed connection once more."""
    return Redis.from_url(
        url, socket_timeout=timeout_s, socket_connect_timeout=timeout_s, retry=Retry(NoBackoff(), retries=1)
    )


class Sessions:
    """The session index of one policy's proxy.

    Keys: `line:<digest>` names the turn that a message prefix ends in, `turn:<turn>` its session, `session:<session>`
    holds the session's turns, each with only what is new, and `next:…` counts next states.
    """

    def __init__(self, redis: Redis, *, keep_s: int, cached_tokens: int, prefix: str = "drivetrain:") -> None:
        self._redis, self._keep_s, self._prefix = redis, keep_s, prefix
        self._cache = _Cache(cached_tokens)
        self._ask_again_at = 0.0

    async def find(self, digests: Sequence[str]) -> Past | None:
        """The recorded turn of the first digest that is known, with its whole token sequence."""
        cached = next((i for i, digest in enumerate(digests) if digest in self._cache.lines), len(digests))
        # A longer conversation than the cached one may have been served by another replica of the proxy.
        if cached:
            keys = [self._key("line", digest) for digest in digests[:cached]]
            for place in await self._ask(lambda: self._redis.mget(keys), []):
                if place and (past := await self._load(_text(place))):
                    return past
        for digest in digests[cached:]:
            if past := self._cache.past(self._cache.lines.get(digest)):
                return past
        return None

    async def remember(self, known: KnownTurn, digest: str) -> None:
        """Add a finished turn under the digest of its messages and reply."""
        place = f"{known.session}/{known.turn}"
        self._cache.add(known, digest)
        session, pipe = self._key("session", known.session), self._redis.pipeline(transaction=False)
        pipe.hset(session, mapping={known.turn.encode(): _encoder.encode(known), _LAST: known.turn.encode()})
        pipe.expire(session, self._keep_s)
        pipe.set(self._key("line", digest), place, ex=self._keep_s)
        pipe.set(self._key("turn", known.turn), place, ex=self._keep_s)
        await self._ask(pipe.execute, None)

    async def turn(self, turn: str) -> KnownTurn | None:
        """A known turn by its id."""
        if known := self._cache.turns.get(turn):
            return known
        place = await self._ask(lambda: self._redis.get(self._key("turn", turn)), None)
        past = await self._load(_text(place)) if place else None
        return past.known if past else None

    async def last(self, session: str) -> KnownTurn | None:
        """The turn of a session that finished last."""
        found = await self._ask(lambda: self._redis.hget(self._key("session", session), _LAST.decode()), None)
        turn = _text(found) if found else self._cache.last.get(session)
        return await self.turn(turn) if turn else None

    async def next_state(self, turn: str, digest: str) -> int | None:
        """The number (from 1) of a turn's new next state, or None if one with this digest was counted before."""
        if not self._cache.first_time((turn, digest)):
            return None
        new = await self._ask(
            lambda: self._redis.set(self._key("next", turn, digest), b"", nx=True, ex=self._keep_s), True
        )
        if not new:
            return None
        counter = self._key("count", turn)
        local = self._cache.count(turn)
        count = await self._ask(lambda: self._redis.incr(counter), local)
        await self._ask(lambda: self._redis.expire(counter, self._keep_s), None)
        return int(count)

    async def _load(self, place: str) -> Past | None:
        """Read a session's turns into the cache; the past of the named one."""
        session, _, turn = place.partition("/")
        if turn not in self._cache.turns:
            fields = await self._ask(lambda: self._redis.hgetall(self._key("session", session)), None)
            for name, value in (fields or {}).items():
                if name != _LAST:
                    self._cache.add(_decoder.decode(cast(bytes, value)))
        return self._cache.past(turn)

    async def _ask(self, command: Callable[[], Awaitable[T]], otherwise: U) -> T | U:
        """Redis's answer, or the given value when there is none in time; then Redis is left alone for a while."""
        now = asyncio.get_running_loop().time()
        if now < self._ask_again_at:
            return otherwise
        try:
            return await command()
        except (RedisError, OSError, TimeoutError) as error:
            self._ask_again_at = now + _LEAVE_ALONE_S
            INDEX_ERRORS.inc()
            _log.warning("session index unavailable, using the local cache", reason=type(error).__name__)
            return otherwise

    def _key(self, *parts: str) -> str:
        return self._prefix + ":".join(parts)


class _Cache:
    """The turns seen lately by this process, the least recently used forgotten first. Bounded by their tokens."""

    def __init__(self, max_tokens: int) -> None:
        self._max_tokens, self._tokens = max_tokens, 0
        self.turns: OrderedDict[str, KnownTurn] = OrderedDict()
        self.lines: dict[str, str] = {}
        self.last: dict[str, str] = {}
        self._digest_of: dict[str, str] = {}
        self._counts: dict[str, int] = {}
        self._seen: OrderedDict[tuple[str, str], None] = OrderedDict()

    def add(self, known: KnownTurn, digest: str | None = None) -> None:
        """Keep a turn; with its digest when it is known."""
        if digest is not None:
            self.lines[digest], self._digest_of[known.turn] = known.turn, digest
            self.last[known.session] = known.turn
        if known.turn not in self.turns:
            self.turns[known.turn] = known
            self._tokens += _size(known)
        while self._tokens > self._max_tokens and len(self.turns) > 1:
            self._forget(*self.turns.popitem(last=False))

    def past(self, turn: str | None) -> Past | None:
        """A turn with its whole token sequence, if all its ancestors are here."""
        chain: list[KnownTurn] = []
        at = turn
        while at is not None:
            known = self.turns.get(at)
            if known is None:
                return None
            self.turns.move_to_end(at)
            chain.append(known)
            at = known.parent
        if not chain:
            return None
        prompt = [token for known in reversed(chain[1:]) for token in known.tokens]
        prompt += unpack_ids(chain[0].prompt_ids)
        return Past(known=chain[0], prompt=prompt, response=unpack_ids(chain[0].response_ids))

    def first_time(self, key: tuple[str, str]) -> bool:
        """Whether this is asked for the first time, of the last 100,000 keys."""
        if key in self._seen:
            return False
        self._seen[key] = None
        if len(self._seen) > 100_000:
            self._seen.popitem(last=False)
        return True

    def count(self, turn: str) -> int:
        """How often this was asked for a turn, this time included."""
        self._counts[turn] = self._counts.get(turn, 0) + 1
        return self._counts[turn]

    def _forget(self, turn: str, known: KnownTurn) -> None:
        self._tokens -= _size(known)
        self._counts.pop(turn, None)
        digest = self._digest_of.pop(turn, None)
        if digest is not None and self.lines.get(digest) == turn:
            del self.lines[digest]
        if self.last.get(known.session) == turn:
            del self.last[known.session]


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _size(known: KnownTurn) -> int:
    return (len(known.prompt_ids) + len(known.response_ids)) // 4 + 64
