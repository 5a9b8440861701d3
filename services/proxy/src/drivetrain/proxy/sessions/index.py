"""The session index in Redis: small values under few keys, each turn written once, with what is new in it alone.

`line:<digest>` and `turn:<turn>` name a turn's place, `asked:<request>` the turns that answer one request,
`session:<session>` holds the session's turns and which of them are the first and the last, `idle` is the sorted set of
deadlines, `epoch` says that all of this is there.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeVar, cast

import msgspec
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import NoScriptError, RedisError

from drivetrain.common.telemetry.logs import get_logger
from drivetrain.proxy.metrics import INDEX_ERRORS
from drivetrain.proxy.sessions.kept import Address, Kept, pack, unpack
from drivetrain.proxy.sessions.together import Command, Together

_FIRST, _LAST = "first", "last"
_LEAVE_ALONE_S = 1.0
_CLAIM = """
local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, ARGV[3])
for _, place in ipairs(due) do redis.call('ZADD', KEYS[1], ARGV[2], place) end
return due
"""
_WRITE = """
local prefix, keep_s, place, turn = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local session = prefix .. 'session:' .. ARGV[5]
redis.call('SET', prefix .. 'turn:' .. turn, place, 'EX', keep_s)
for i = 10, #ARGV do redis.call('SET', prefix .. 'line:' .. ARGV[i], place, 'EX', keep_s) end
for request in string.gmatch(ARGV[6], '%S+') do
  redis.call('SADD', prefix .. 'asked:' .. request, place)
  redis.call('EXPIRE', prefix .. 'asked:' .. request, keep_s)
end
redis.call('HSETNX', session, 'first', place)
if ARGV[7] ~= '' then redis.call('HSET', session, turn, ARGV[7]) end
if ARGV[8] ~= '' then
  local last = redis.call('HGET', session, 'last')
  if not last or tonumber(string.match(last, '^%S+')) <= tonumber(ARGV[8]) then
    redis.call('HSET', session, 'last', ARGV[8] .. ' ' .. place)
  end
end
redis.call('EXPIRE', session, keep_s)
if ARGV[9] ~= '' then redis.call('ZADD', prefix .. 'idle', 'NX', ARGV[9], place) end
"""
_WRITE_SHA = hashlib.sha1(_WRITE.encode(), usedforsecurity=False).hexdigest()
_RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"
_log = get_logger("sessions")
T = TypeVar("T")
U = TypeVar("U")


def connect(url: str, timeout_s: float) -> Redis:
    """A client that gives up after the timeout and tries a closed connection once more."""
    return Redis.from_url(
        url, socket_timeout=timeout_s, socket_connect_timeout=timeout_s, retry=Retry(NoBackoff(), retries=1)
    )


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """What is written of one turn: `kept` its content, `finished_at` of a turn that may be its session's last,
    `deadline` when it goes idle. What is None stays as it is."""

    place: Address
    lines: Sequence[str]
    requests: Sequence[str]
    kept: Kept | None = None
    finished_at: float | None = None
    deadline: float | None = None


class Index:
    """Every question may be answered with nothing: then Redis is away, and is left alone for a second."""

    def __init__(self, redis: Redis, *, keep_s: int, prefix: str = "drivetrain:") -> None:
        self._redis, self._keep_s, self._prefix = redis, keep_s, prefix
        self._together = Together(redis)
        self._ask_again_at = 0.0

    @property
    def here(self) -> bool:
        """Whether Redis answered when it was last asked."""
        return self._ask_again_at == 0.0

    async def places(self, digests: Sequence[str]) -> list[Address | None]:
        """Where the conversations with these digests stand."""
        keys = [self._key("line", digest) for digest in digests]
        found: list[bytes | None] = await self._answer("MGET", *keys, otherwise=[])
        return [Address.parse(place) if place else None for place in found]

    async def place_of(self, turn: str) -> Address | None:
        """Where a turn is."""
        found = await self._ask(lambda: self._redis.get(self._key("turn", turn)), None)
        return Address.parse(found) if found else None

    async def attempts(self, requests: Sequence[str]) -> list[Address]:
        """Where the turns are that answer one of the requests, in no order."""
        keys = [self._key("asked", request) for request in requests]
        found: set[bytes] = await self._answer("SUNION", *keys, otherwise=set())
        return [Address.parse(place) for place in found]

    async def first(self, session: str) -> Address | None:
        """Where a session's first turn is."""
        found = await self._answer("HGET", self._key("session", session), _FIRST)
        return Address.parse(found) if found else None

    async def last(self, session: str) -> Address | None:
        """Where a session's last awaited turn is."""
        found = await self._ask(lambda: self._redis.hget(self._key("session", session), _LAST), None)
        return Address.parse(cast(bytes, found).partition(b" ")[2]) if found else None

    async def turn(self, place: Address) -> Kept | None:
        """One turn."""
        found = await self._answer("HGET", self._key("session", place.session), place.turn)
        return unpack(found) if found else None

    async def session(self, session: str, known: Callable[[str], bool]) -> dict[str, Kept]:
        """The turns of a session that are not known yet."""
        key = self._key("session", session)
        names = cast(list[bytes], await self._ask(lambda: self._redis.hkeys(key), []))
        wanted = [name for name in names if name.decode() not in (_FIRST, _LAST) and not known(name.decode())]
        found = cast(list[bytes], await self._ask(lambda: self._redis.hmget(key, wanted), [])) if wanted else []
        return {name.decode(): unpack(data) for name, data in zip(wanted, found, strict=False) if data}

    async def write(self, entries: Iterable[Entry], followed: Iterable[Address] = ()) -> bool:
        """Store entries, and forget the deadlines of turns that were followed; False when Redis is away. Writing the
        same again changes nothing, and an older turn never becomes a session's last."""
        commands: list[Command] = [("EVALSHA", _WRITE_SHA, 0, *self._arguments(entry)) for entry in entries]
        if gone := [str(place) for place in followed]:
            commands.append(("ZREM", self._key("idle"), *gone))

        async def send() -> bool:
            await self._together.ask(*commands)
            return True

        async def send_or_teach() -> bool:
            try:
                return await send()
            except NoScriptError:
                await self._redis.script_load(_WRITE)
                return await send()

        return await self._ask(send_or_teach, False)

    async def claim(self, now: float, lease_s: float, count: int) -> list[Address]:
        """Places whose deadline is over, for the caller alone: they come again after the lease unless forgotten."""
        key, until = self._key("idle"), now + lease_s
        due: list[bytes] = await self._ask(
            lambda: self._redis.eval(_CLAIM, 1, key, str(now), str(until), str(count)), []
        )
        return [Address.parse(place) for place in due]

    async def epoch(self) -> tuple[str, str] | None:
        """The mark of the last rebuild and the server's own id; None when Redis is away."""
        pipe = self._redis.pipeline(transaction=False)
        pipe.get(self._key("epoch"))
        pipe.info("server")
        answers = await self._ask(pipe.execute, None)
        return ((answers[0] or b"").decode(), str(answers[1].get("run_id", ""))) if answers else None

    async def mark(self, epoch: str) -> None:
        """All that the stream holds is in the index."""
        await self._ask(lambda: self._redis.set(self._key("epoch"), epoch), None)

    async def lock(self, owner: str, lease_s: float, *, renew: bool = False) -> bool:
        """Be the only one that rebuilds, until the lease ends."""
        key, lease_ms = self._key("rebuilding"), int(lease_s * 1000)
        if renew:
            return bool(await self._ask(lambda: self._redis.pexpire(key, lease_ms), False))
        return bool(await self._ask(lambda: self._redis.set(key, owner, nx=True, px=lease_ms), False))

    async def unlock(self, owner: str) -> None:
        """Let another one rebuild."""
        await self._ask(
            lambda: cast(Awaitable[object], self._redis.eval(_RELEASE, 1, self._key("rebuilding"), owner)), 0
        )

    def _arguments(self, entry: Entry) -> list[str | bytes | int]:
        place = entry.place
        kept = pack(entry.kept) if entry.kept is not None else b""
        finished_at, deadline = ("" if value is None else repr(value) for value in (entry.finished_at, entry.deadline))
        names = (self._prefix, self._keep_s, str(place), place.turn, place.session, " ".join(entry.requests))
        return [*names, kept, finished_at, deadline, *entry.lines]

    async def _answer(self, *command: str, otherwise: Any = None) -> Any:
        """Redis's answer to a command that belongs to a request."""
        [answer] = await self._ask(lambda: self._together.ask(command), [otherwise])
        return answer

    async def _ask(self, command: Callable[[], Awaitable[T]], otherwise: U) -> T | U:
        """Redis's answer, or the given value when there is none in time."""
        now = asyncio.get_running_loop().time()
        if now < self._ask_again_at:
            return otherwise
        try:
            answer = await command()
            self._ask_again_at = 0.0
            return answer
        except (RedisError, OSError, TimeoutError) as error:
            self._ask_again_at = now + _LEAVE_ALONE_S
            INDEX_ERRORS.inc()
            _log.warning("session index unavailable, using the local cache", reason=type(error).__name__)
            return otherwise

    def _key(self, *parts: str) -> str:
        return self._prefix + ":".join(parts)
