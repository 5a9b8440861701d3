"""Chat completions of an OpenAI-compatible endpoint: each call has a timeout, a place among the calls at a time and in
the token budget, bounded retries with jitter, and tells the breaker how it went."""

import asyncio
import time
from typing import Any

import httpx
import msgspec
import stamina

from drivetrain.judge import meters
from drivetrain.judge.limits.breaker import Breaker
from drivetrain.judge.limits.budget import Budget
from drivetrain.judge.settings import ModelSettings

LONGEST_ANSWER = 1 << 20
LONGEST_RETRY_S = 30.0
CHARS_PER_TOKEN = 3
"""What a call is taken to cost before it is known."""
PROBE = [{"role": "user", "content": 'This only checks the connection. Answer {"vote": 0, "evidence": "-"}.'}]


class Unavailable(RuntimeError):
    """The endpoint gave no answer: no connection, too late, refused, or not a chat completion. `retry_s` is how long
    to wait before another try, None where one would not help."""

    def __init__(self, reason: str, retry_s: float | None) -> None:
        super().__init__(reason)
        self.retry_s = retry_s


class _Said(msgspec.Struct):
    content: str | None = None


class _Choice(msgspec.Struct):
    message: _Said


class _Usage(msgspec.Struct):
    prompt_tokens: int = 0
    completion_tokens: int = 0


class _Completion(msgspec.Struct):
    choices: list[_Choice]
    usage: _Usage | None = None


class Endpoint:
    """See the module. `client` is the caller's to close; it carries no base URL and no credentials of its own. `budget`
    is that of this process unless another is given."""

    def __init__(self, settings: ModelSettings, client: httpx.AsyncClient, budget: Budget | None = None) -> None:
        self._settings = settings
        self._client = client
        self._slots = asyncio.Semaphore(settings.concurrency)
        self._budget = budget or Budget(settings.tokens_per_minute, settings.tokens_per_day)
        self.breaker = Breaker(settings.breaker_failures, settings.breaker_wait_s, self._probe)

    async def complete(self, messages: list[dict[str, str]], seed: int, schema: dict[str, Any], room: int) -> str:
        """The text of an answer of at most `room` tokens.

        Raises:
            Unavailable: there was none in the tries that the settings allow, or the breaker is shut.
        """
        settings = self._settings
        retrying = stamina.retry_context(
            on=self._retry_after,
            attempts=settings.attempts,
            timeout=None,
            wait_initial=settings.retry_wait_s,
            wait_max=LONGEST_RETRY_S,
            wait_jitter=settings.retry_wait_s,
        )
        async for attempt in retrying:
            with attempt:
                async with self._slots:
                    return await self._call(self._body(messages, seed, schema, room))
        raise AssertionError("a retry context ends with a result or an error")

    def _retry_after(self, error: Exception) -> bool | float:
        """Whether to try again: at once by the usual waits (True), or after what the endpoint asked for."""
        if not isinstance(error, Unavailable) or error.retry_s is None or self.breaker.shut:
            return False
        return min(error.retry_s, LONGEST_RETRY_S) or True

    async def _call(self, body: dict[str, Any]) -> str:
        if self.breaker.shut:
            raise Unavailable("it failed too often and is not asked for now", None)
        reserved = sum(len(m["content"]) for m in body["messages"]) // CHARS_PER_TOKEN + body["max_tokens"]
        await self._budget.reserve(reserved)
        try:
            completion = await self._timed(body)
        except Unavailable as error:
            self.breaker.failed(str(error))
            raise
        self.breaker.succeeded()
        if completion.usage is not None:
            await self._budget.spend(self._count(completion.usage) - reserved)
        return completion.choices[0].message.content or ""

    async def _timed(self, body: dict[str, Any]) -> _Completion:
        started, result = time.perf_counter(), "failed"
        try:
            completion = await self._ask(body)
            result = "answered"
            return completion
        finally:
            meters.CALLS.labels(result).inc()
            meters.CALL_SECONDS.observe(time.perf_counter() - started)

    async def _ask(self, body: dict[str, Any]) -> _Completion:
        """One request. The timeout bounds all of it, an answer that trickles included."""
        key = self._settings.api_key
        headers = {"Authorization": f"Bearer {key.get_secret_value()}"} if key else {}
        url = f"{self._settings.url.rstrip('/')}/chat/completions"
        try:
            async with (
                asyncio.timeout(self._settings.timeout_s),
                self._client.stream("POST", url, json=body, headers=headers, timeout=None) as response,
            ):
                _check(response)
                return _completion(await _read(response))
        except (httpx.HTTPError, TimeoutError) as error:
            raise Unavailable(f"{type(error).__name__}: {error}", 0.0) from error

    async def _probe(self) -> bool:
        """Whether the endpoint answers a question of no weight, of the shape that it is asked all day."""
        schema = {"name": "vote", "strict": True, "schema": {"type": "object"}}
        body = self._body(PROBE, 0, schema, 32)
        try:
            completion = await self._timed(body)
        except Unavailable:
            return False
        if completion.usage is not None:
            await self._budget.spend(self._count(completion.usage))
        return True

    def _body(self, messages: list[dict[str, str]], seed: int, schema: dict[str, Any], room: int) -> dict[str, Any]:
        settings = self._settings
        asked: dict[str, dict[str, Any]] = {
            "json_schema": {"response_format": {"type": "json_schema", "json_schema": schema}},
            "json_object": {"response_format": {"type": "json_object"}},
            "text": {},
        }
        return {
            "model": settings.model,
            "messages": messages,
            "temperature": settings.temperature,
            "max_tokens": room,
            "seed": seed,
            **asked[settings.format],
        }

    def _count(self, usage: _Usage) -> int:
        """Note what a call used, and return it."""
        settings = self._settings
        meters.TOKENS.labels("prompt").inc(usage.prompt_tokens)
        meters.TOKENS.labels("completion").inc(usage.completion_tokens)
        price = usage.prompt_tokens * settings.price_prompt + usage.completion_tokens * settings.price_completion
        meters.SPEND.inc(price / 1e6)
        return usage.prompt_tokens + usage.completion_tokens


def _check(response: httpx.Response) -> None:
    """Raises Unavailable: any status but 200. Only what may change by itself is worth another try."""
    status = response.status_code
    if status == 200:
        return
    asked = response.headers.get("Retry-After", "")
    wait = float(asked) if asked.isdecimal() else 0.0
    raise Unavailable(f"status {status}", wait if status in (408, 409, 425, 429) or status >= 500 else None)


async def _read(response: httpx.Response) -> bytes:
    body = b""
    async for piece in response.aiter_bytes():
        body += piece
        if len(body) > LONGEST_ANSWER:
            raise Unavailable(f"an answer of more than {LONGEST_ANSWER} bytes", None)
    return body


def _completion(body: bytes) -> _Completion:
    try:
        completion = msgspec.json.decode(body, type=_Completion)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Unavailable(f"not a chat completion: {error}: {body[:80]!r}", None) from error
    if not completion.choices:
        raise Unavailable("a chat completion without a choice", None)
    return completion
