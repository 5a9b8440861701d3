"""The token budget and the cache of all judge replicas together, in Redis.

Both can be lost: then the windows are empty and every question is asked anew. While Redis is away each replica keeps to
the budget by itself, and remembers what it was answered.
"""

import asyncio
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import RedisError

from drivetrain.common.telemetry.logs import get_logger
from drivetrain.judge.limits.budget import SLOTS, Budget
from drivetrain.judge.limits.cache import LocalCache

PREFIX = "drivetrain:judge:"
ASK_AGAIN_S = 1.0
"""How long Redis is left alone once it did not answer."""

_RESERVE = """
-- For each window a hash of tokens by slot. Reserves in all of them, or in none and says how long to wait, in ms.
local time = redis.call('TIME')
local now, tokens, slots = time[1] + time[2] / 1000000, tonumber(ARGV[1]), tonumber(ARGV[2])
local longest = 0
for i, key in ipairs(KEYS) do
  local limit, seconds = tonumber(ARGV[2 * i + 1]), tonumber(ARGV[2 * i + 2])
  local step, spent, kept = seconds / slots, redis.call('HGETALL', key), {}
  local excess = math.min(tokens, limit) - limit
  for j = 1, #spent, 2 do
    local ends = (tonumber(spent[j]) + 1) * step + seconds
    if ends <= now then redis.call('HDEL', key, spent[j])
    else
      excess = excess + spent[j + 1]
      table.insert(kept, {ends, tonumber(spent[j + 1])})
    end
  end
  table.sort(kept, function(a, b) return a[1] < b[1] end)
  for _, slot in ipairs(kept) do
    if excess <= 0 then break end
    excess = excess - slot[2]
    if excess <= 0 then longest = math.max(longest, slot[1] - now) end
  end
end
if longest > 0 then return math.ceil(longest * 1000) end
for i, key in ipairs(KEYS) do
  local seconds = tonumber(ARGV[2 * i + 2])
  redis.call('HINCRBY', key, string.format('%d', math.floor(now / (seconds / slots))), tokens)
  redis.call('EXPIRE', key, math.ceil(2 * seconds))
end
return 0
"""

log = get_logger("judge")


class Shared:
    """A Redis that may go away: then it is left alone for a while, and its answers are None."""

    def __init__(self, redis: Redis) -> None:
        self.redis = redis
        self._ask_again_at = 0.0

    async def ask(self, *command: Any) -> Any:
        """The answer to one command; None where there is none, or Redis is away."""
        now = asyncio.get_running_loop().time()
        if now < self._ask_again_at:
            return None
        try:
            answer = await self.redis.execute_command(*command)  # type: ignore[no-untyped-call]
        except (RedisError, OSError) as error:
            if not self._ask_again_at:
                log.warning("redis is away: this replica keeps its own budget and cache", error=repr(error))
            self._ask_again_at = now + ASK_AGAIN_S
            return None
        self._ask_again_at = 0.0
        return answer


class SharedBudget(Budget):
    """See `Budget`; its windows are those of all replicas. Its own are kept beside them, and hold while Redis is away.

    `name` is that of what costs: replicas of one name share a budget.
    """

    def __init__(self, shared: Shared, name: str, per_minute: int | None, per_day: int | None) -> None:
        super().__init__(per_minute, per_day)
        self._shared = shared
        bounds = [(limit, seconds) for limit, seconds in ((per_minute, 60), (per_day, 86_400)) if limit is not None]
        self._keys = [f"{PREFIX}budget:{{{name}}}:{seconds}" for _, seconds in bounds]
        self._bounds = [number for bound in bounds for number in bound]

    async def _wait_for(self, tokens: int) -> float:
        if not self._keys:
            return 0.0
        waiting = await self._shared.ask("EVAL", _RESERVE, len(self._keys), *self._keys, tokens, SLOTS, *self._bounds)
        if waiting is None:
            return await super()._wait_for(tokens)
        if not waiting:
            self._count(tokens)
        return float(waiting) / 1000

    async def spend(self, tokens: int) -> None:
        """See `Budget`."""
        self._count(tokens)
        if self._keys:
            unbounded = [number for seconds in self._bounds[1::2] for number in (2**53, seconds)]
            await self._shared.ask("EVAL", _RESERVE, len(self._keys), *self._keys, tokens, SLOTS, *unbounded)


class SharedCache:
    """See `Cache`: each value is kept `keep_s` seconds in Redis, and in this process as its size allows."""

    def __init__(self, shared: Shared, size: int, keep_s: int) -> None:
        self._shared = shared
        self._local = LocalCache(size)
        self._keep_s = keep_s

    async def get(self, key: bytes) -> bytes | None:
        if (known := await self._local.get(key)) is not None:
            return known
        found = await self._shared.ask("GET", self._key(key))
        if isinstance(found, bytes):
            await self._local.put(key, found)
            return found
        return None

    async def put(self, key: bytes, value: bytes) -> None:
        await self._local.put(key, value)
        await self._shared.ask("SET", self._key(key), value, "EX", self._keep_s)

    def _key(self, key: bytes) -> str:
        return f"{PREFIX}answers:{key.hex()}"
