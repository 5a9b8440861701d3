"""Requests and tokens per minute of each key, counted over all replicas in Redis, and alone while Redis is away.

Each limit is a bucket that holds one minute's worth and fills evenly. What is kept of it is its *debt*: the seconds
until it is full again, 60 for an empty one. Tokens are charged when they are known, so a debt may be larger: then the
key waits.
"""

import math
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import cast

import msgspec
from redis.asyncio import Redis
from redis.exceptions import RedisError

from drivetrain.common.telemetry.logs import get_logger
from drivetrain.proxy.access.principal import Principal
from drivetrain.proxy.errors import Refused
from drivetrain.proxy.metrics import LIMITED

MINUTE_S = 60.0
_LEAVE_ALONE_S = 1.0
_MANY = 10_000
# Redis's own clock counts: those of the replicas may differ. Costs are in seconds; a charge is never refused.
_SCRIPT = """
local time = redis.call('TIME')
local now, debts, fits = time[1] + time[2] / 1e6, {}, true
for i, key in ipairs(KEYS) do
  debts[i] = math.max(tonumber(redis.call('GET', key) or 0) - now, 0)
  if debts[i] + ARGV[i + 1] > 60 then fits = false end
end
for i, key in ipairs(KEYS) do
  local cost = tonumber(ARGV[i + 1])
  if (fits or ARGV[1] == 'charge') and cost > 0 then
    local debt = debts[i] + cost
    redis.call('SET', key, string.format('%.6f', now + debt), 'PX', math.ceil(debt * 1000))
  end
  debts[i] = string.format('%.6f', debts[i])
end
return {fits and 1 or 0, unpack(debts)}
"""
_log = get_logger("access")


class Bucket(msgspec.Struct, frozen=True):
    """One limit of one key: what it counts (requests or tokens), and how many of it a minute."""

    what: str
    key_id: str
    per_minute: int

    def cost(self, count: int) -> float:
        """What so many cost, in seconds of refilling."""
        return count * MINUTE_S / self.per_minute


class Spent(msgspec.Struct, frozen=True):
    """What came of a wish to spend: whether all of it fitted, and each bucket's debt before."""

    fits: bool
    debts: list[float]


class Local:
    """Buckets of this process: when each is full again. `now` is in seconds of any steady clock."""

    def __init__(self) -> None:
        self._full_at: dict[str, float] = {}

    def spend(self, names: Sequence[str], costs: Sequence[float], now: float, *, charge: bool) -> Spent:
        """Add all costs if all fit, or if they are charged anyway."""
        debts = [max(self._full_at.get(name, now) - now, 0.0) for name in names]
        spent = Spent(all(debt + cost <= MINUTE_S for debt, cost in zip(debts, costs, strict=True)), debts)
        self.learn(names, costs, spent, now, charge=charge)
        return spent

    def learn(self, names: Sequence[str], costs: Sequence[float], spent: Spent, now: float, *, charge: bool) -> None:
        """Take over what was decided, here or in Redis; buckets that are full are forgotten."""
        for name, cost, debt in zip(names, costs, spent.debts, strict=True):
            self._full_at[name] = now + debt + (cost if spent.fits or charge else 0.0)
        if len(self._full_at) > _MANY:
            self._full_at = {name: at for name, at in self._full_at.items() if at > now}


class Rates:
    """Admits requests and counts tokens."""

    def __init__(
        self, redis: Redis, *, prefix: str = "drivetrain:", clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._script = redis.register_script(_SCRIPT)
        self._prefix, self._clock = prefix, clock
        self._local, self._ask_again_at = Local(), 0.0

    async def admit(self, principal: Principal) -> None:
        """Count one request of a key.

        Raises:
            Refused: 429 with the time until the next one may come.
        """
        buckets = buckets_of(principal)
        if not buckets:
            return
        costs = [bucket.cost(1) if bucket.what == "requests" else 0.0 for bucket in buckets]
        spent = await self._spend(buckets, costs, charge=False)
        if spent.fits:
            return
        waits = [debt + cost - MINUTE_S for debt, cost in zip(spent.debts, costs, strict=True)]
        fullest = buckets[waits.index(max(waits))]
        seconds = max(math.ceil(max(waits)), 1)
        LIMITED.labels(fullest.what).inc()
        message = f"this key may use {fullest.per_minute} {fullest.what} a minute: wait {seconds} seconds"
        raise Refused(429, message, code="rate_limit_exceeded", retry_after=seconds)

    async def charge(self, principal: Principal, tokens: int) -> None:
        """Count tokens that a reply took, its prompt included."""
        buckets = [bucket for bucket in buckets_of(principal) if bucket.what == "tokens"]
        if buckets and tokens > 0:
            await self._spend(buckets, [bucket.cost(tokens) for bucket in buckets], charge=True)

    async def _spend(self, buckets: Sequence[Bucket], costs: Sequence[float], *, charge: bool) -> Spent:
        """Redis decides; without it this process does, from what it knows."""
        names, now = [f"{bucket.what}:{bucket.key_id}" for bucket in buckets], self._clock()
        if now >= self._ask_again_at:
            keys = [f"{self._prefix}rate:{name}" for name in names]
            arguments = ["charge" if charge else "admit", *costs]
            try:
                fitted, *debts = await cast(Awaitable[list[bytes]], self._script(keys=keys, args=arguments))
            except (RedisError, OSError, TimeoutError) as error:
                self._ask_again_at = now + _LEAVE_ALONE_S
                _log.warning("rate limits are counted by this replica alone", reason=type(error).__name__)
            else:
                spent = Spent(bool(int(fitted)), [float(debt) for debt in debts])
                self._local.learn(names, costs, spent, now, charge=charge)
                return spent
        return self._local.spend(names, costs, now, charge=charge)


def buckets_of(principal: Principal) -> list[Bucket]:
    """The limits of a key; none for a key without."""
    limits = (("requests", principal.requests_per_minute), ("tokens", principal.tokens_per_minute))
    return [Bucket(what, principal.key_id, limit) for what, limit in limits if limit]
