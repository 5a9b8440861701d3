"""One request to the proxy with the `openai` SDK, streamed, and what can go wrong with it."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import httpx
from openai import AsyncOpenAI, OpenAIError
from openai.types.chat import ChatCompletionMessageParam

FINISHED = frozenset({"stop", "length"})
TEMPERATURE = 0.7
"""As many clients set it. At 1 a model this small wanders off in most of its replies, and what it wanders into is
trained along with the rest."""


class RequestFailed(RuntimeError):
    """The request was answered with an error, or the connection broke; the message says which."""


@dataclass(frozen=True)
class Reply:
    """A reply as the person received it. Times are of `time.monotonic`; `finish` is empty when the stream was cut."""

    text: str
    finish: str
    asked_at: float
    finished_at: float

    @property
    def whole(self) -> bool:
        """Whether the model ended by itself or at the limit of tokens, and nothing cut it."""
        return self.finish in FINISHED


@dataclass
class Problems:
    """Requests that went wrong: answered with an error, ended without a finish reason, or aborted by the engine."""

    requests: int = 0
    failed: int = 0
    cut: int = 0
    aborted: int = 0
    details: list[str] = field(default_factory=list)

    @property
    def total(self) -> int:
        return self.failed + self.cut + self.aborted

    def note(self, reply: Reply) -> None:
        """Count a reply, and what is wrong with it."""
        if reply.finish == "":
            self.cut += 1
            self.details.append(f"the stream ended without a finish reason after {reply.text[-40:]!r}")
        elif not reply.whole:
            self.aborted += 1
            self.details.append(f"finish reason {reply.finish!r} after {reply.text[-40:]!r}")


class Chat:
    """A person's client. It retries nothing, so that each failure is seen."""

    def __init__(self, base_url: str, model: str, problems: Problems, timeout_s: float = 120.0) -> None:
        self.model = model
        self.problems = problems
        self._client = AsyncOpenAI(base_url=base_url, api_key="demo", max_retries=0, timeout=timeout_s)

    async def ask(
        self, messages: list[ChatCompletionMessageParam], max_tokens: int, headers: Mapping[str, str]
    ) -> Reply:
        """Send a conversation and read the reply to its end.

        Raises:
            RequestFailed: no whole stream came back; it is counted.
        """
        self.problems.requests += 1
        asked_at = time.monotonic()
        try:
            text, finish = await self._stream(messages, max_tokens, headers)
        except (OpenAIError, httpx.HTTPError) as error:
            self.problems.failed += 1
            self.problems.details.append(f"{type(error).__name__}: {error}"[:300])
            raise RequestFailed(str(error)) from error
        reply = Reply(text, finish, asked_at, time.monotonic())
        self.problems.note(reply)
        return reply

    async def _stream(
        self, messages: list[ChatCompletionMessageParam], max_tokens: int, headers: Mapping[str, str]
    ) -> tuple[str, str]:
        stream = await self._client.chat.completions.create(
            model=self.model,
            messages=messages,
            temperature=TEMPERATURE,
            max_tokens=max_tokens,
            stream=True,
            extra_headers=dict(headers),
        )
        parts, finish = [], ""
        async for chunk in stream:
            for choice in chunk.choices:
                parts.append(choice.delta.content or "")
                finish = choice.finish_reason or finish
        return "".join(parts), finish

    async def close(self) -> None:
        """Close the client's connections."""
        await self._client.close()
