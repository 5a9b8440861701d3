"""What a late turn of a conversation costs: what an early one does, but for what is new. Counted, not timed."""

import json
from typing import Any

import httpx
import msgspec
import pytest


class Work(msgspec.Struct):
    """What one turn took: commands and bytes to and from Redis, bytes of the local log, characters that were made
    tokens, and the tokens and messages that were recorded."""

    commands: int = 0
    redis_bytes: int = 0
    logged_bytes: int = 0
    encoded_chars: int = 0
    recorded_tokens: int = 0
    recorded_messages: int = 0


class Counting:
    """Counts what a proxy does between two calls of `taken`."""

    def __init__(self, proxy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self._proxy, self._logged, self._encoded = proxy, 0, 0
        self._before = (0, 0)
        spool, template = proxy.recorder.spool, proxy.rendering.template
        append, encode = spool.append, template.encode

        def appended(payload: bytes) -> None:
            self._logged += len(payload)
            append(payload)

        def encoded(text: str) -> list[int]:
            self._encoded += len(text)
            return list(encode(text))

        monkeypatch.setattr(spool, "append", appended)
        monkeypatch.setattr(template, "encode", encoded)

    async def taken(self) -> Work:
        """Since the last call."""
        stats = await self._proxy.redis.info("stats")
        after = stats["total_commands_processed"], stats["total_net_input_bytes"] + stats["total_net_output_bytes"]
        turn = (await self._proxy.recorded())[-1]
        work = Work(
            commands=after[0] - self._before[0],
            redis_bytes=after[1] - self._before[1],
            logged_bytes=self._logged,
            encoded_chars=self._encoded,
            recorded_tokens=(len(turn.prompt_ids) + len(turn.response_ids)) // 4,
            recorded_messages=len(turn.messages),
        )
        self._before, self._logged, self._encoded = after, 0, 0
        return work


async def test_turn_200_takes_the_work_of_turn_2(
    start_proxy: Any, engine: Any, encode: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.say_always(encode("Paris."))
    messages, spent = [], {}
    async with start_proxy([engine.url], context_tokens=100_000) as proxy, httpx.AsyncClient(timeout=60) as http:
        counting = Counting(proxy, monkeypatch)
        for turn in range(1, 201):
            messages.append({"role": "user", "content": f"Which capital is number {turn:03}?"})
            body = json.dumps({"model": "default", "messages": messages})
            answer = await http.post(f"{proxy.url}/v1/chat/completions", content=body)
            messages.append(answer.json()["choices"][0]["message"])
            if turn in (1, 2, 3, 199, 200):
                spent[turn] = await counting.taken()
    early, late = spent[2], spent[200]
    assert late.commands == early.commands
    assert (late.encoded_chars, late.recorded_tokens) == (early.encoded_chars, early.recorded_tokens)
    assert late.recorded_messages == early.recorded_messages == 1
    # Times and depths are written in a few digits more
    assert late.redis_bytes == pytest.approx(early.redis_bytes, abs=64)
    assert late.logged_bytes == pytest.approx(early.logged_bytes, abs=64)
    assert len(engine.requests[-1]["token_ids"]) > 100 * early.recorded_tokens
