"""The engine of all candidates: vLLM's `/inference/v1/generate` and its chat completions, at a set pace.

A process of its own that does as little as can be: bodies are searched, not parsed, and every chunk that it writes is
built before. `POST /pace/<tokens per second>` sets the pace of later requests; 0 means as fast as they are taken.
"""

import argparse
import asyncio
import json
import socket
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import cast

import httptools
import msgspec
import uvloop

from benchmarks.proxy.wire import MAX_TOKENS, POLICY, Times, Words

CONTEXT = 65_536
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
_TAIL = b"0\r\n\r\n"


def framed(data: bytes) -> bytes:
    """One chunk of a chunked body."""
    return b"%x\r\n%s\r\n" % (len(data), data)


def event(content: object) -> bytes:
    """One server-sent event, as a chunk."""
    return framed(b"data: " + json.dumps(content, separators=(",", ":")).encode() + b"\n\n")


def number(body: bytes, field: bytes, otherwise: int) -> int:
    """The value of a field anywhere in a JSON body, without parsing it."""
    at = body.rfind(b'"' + field + b'":')
    if at < 0:
        return otherwise
    digits = body[at + len(field) + 3 : at + len(field) + 23].lstrip()
    end = next((i for i, digit in enumerate(digits) if not 48 <= digit <= 57), len(digits))
    return int(digits[:end] or otherwise)


class Chunks:
    """The chunks of each kind of reply, built once for each length. The first chunk of a reply comes with its head."""

    def __init__(self, words: Words) -> None:
        self._words = words
        self.generate = cache(self._generate)
        self.chat = cache(self._chat)
        self.captured = cache(self._captured)

    def _generate(self, tokens: int) -> list[bytes]:
        """As vLLM answers `/inference/v1/generate` with `stream_options.include_usage`."""
        usage = {"prompt_tokens": 8000, "completion_tokens": tokens, "total_tokens": 8000 + tokens}
        parts = [event(self._generated(index, tokens)) for index in range(tokens)]
        parts[-1] += event({"request_id": "generate-tokens-0", "choices": [], "usage": usage})
        return _closed(parts)

    def _chat(self, tokens: int) -> list[bytes]:
        """As vLLM answers chat completions."""
        parts = [event(self._delta(index, tokens)) for index in range(tokens)]
        return _closed([event(_chat_chunk({"role": "assistant", "content": ""})) + parts[0], *parts[1:]])

    def _captured(self, tokens: int, prompt: int) -> list[bytes]:
        """The same with `logprobs` and `return_token_ids`, as a gateway asks that captures."""
        first = _chat_chunk({"role": "assistant", "content": ""}) | {"prompt_token_ids": list(range(prompt))}
        parts = [event(self._delta(index, tokens, captured=True)) for index in range(tokens)]
        return _closed([event(first) + parts[0], *parts[1:]])

    def _generated(self, index: int, tokens: int) -> dict[str, object]:
        token, last = self._words.token(index, tokens), index + 1 == tokens
        choice = {
            "index": 0,
            "finish_reason": "stop" if last else None,
            "stop_reason": None,
            "token_ids": [token],
            "routed_experts": None,
            "sampling_mask": None,
            "weight_versions": [{"version": "7", "start": 0, "end": tokens}] if last else None,
            "logprobs": {"content": [{"token_id": token, "logprob": -0.5, "rank": 1, "top_logprobs": [_top(token)]}]},
        }
        return {"request_id": "generate-tokens-0", "usage": None, "output_mode": "tokens", "choices": [choice]}

    def _delta(self, index: int, tokens: int, *, captured: bool = False) -> dict[str, object]:
        token, text = self._words.token(index, tokens), self._words.text(index, tokens)
        chunk = _chat_chunk({"content": text}, "stop" if index + 1 == tokens else None)
        if captured:
            entry = {"token": text, "logprob": -0.5, "bytes": list(text.encode()), "top_logprobs": []}
            chunk["choices"][0] |= {"logprobs": {"content": [entry]}, "token_ids": [token]}  # type: ignore[index]
        return chunk


def _top(token: int) -> dict[str, object]:
    return {"token_id": token, "logprob": -0.5, "rank": 1}


def _chat_chunk(delta: dict[str, object], finish: str | None = None) -> dict[str, object]:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish, "token_ids": None}
    head = {"id": "chatcmpl-0", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": POLICY}
    return {**head, "choices": [choice]}


def _closed(parts: list[bytes]) -> list[bytes]:
    return [_HEAD + parts[0], *parts[1:-1], parts[-1] + framed(b"data: [DONE]\n\n") + _TAIL]


class Engine:
    """The stub's state: its pace, its clock file and its chunks."""

    def __init__(self, words: Words, times: Times) -> None:
        self.chunks, self.times = Chunks(words), times
        self.tokens_per_s = 20.0

    def answer(self, path: bytes, body: bytes) -> bytes:
        """The whole answer to anything but a reply that is streamed."""
        if path.startswith(b"/pace/"):
            self.tokens_per_s = float(path.rpartition(b"/")[2])
        known: dict[bytes, object] = {
            b"/v1/models": {"object": "list", "data": [{"id": POLICY, "max_model_len": CONTEXT, "object": "model"}]},
            b"/weight_info": {"weight_version": "7"},
        }
        content = json.dumps(known.get(path, {})).encode()
        return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (
            len(content),
            content,
        )

    def reply(self, path: bytes, body: bytes) -> list[bytes] | None:
        """The chunks of a streamed reply, one for each token; None when the path is no such thing."""
        tokens = min(number(body, b"max_tokens", 32), MAX_TOKENS)
        if path == b"/inference/v1/generate":
            return self.chunks.generate(tokens)
        if path != b"/v1/chat/completions":
            return None
        if b'"return_token_ids"' in body:
            # Words are about five characters long with their space, and few lengths keep the built chunks few
            return self.chunks.captured(tokens, round(len(body) // 5, -2))
        return self.chunks.chat(tokens)


class Connection(asyncio.Protocol):
    """One connection of a candidate: requests one after the other, each answered chunk by chunk."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._parser = httptools.HttpRequestParser(self)
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._path = b""
        self._body: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by inheritance

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_url(self, url: bytes) -> None:
        self._path, self._body = url, []

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        assert self._transport is not None
        at, body = time.monotonic(), b"".join(self._body)
        chunks = self._engine.reply(self._path, body)
        if chunks is None:
            self._transport.write(self._engine.answer(self._path, body))
            return
        request = number(body, b"seed", 0)
        self._engine.times.received(request, at)
        self._write(chunks, 0, request, self._loop.time(), self._engine.tokens_per_s)

    def _write(self, chunks: list[bytes], token: int, request: int, start: float, tokens_per_s: float) -> None:
        """Write one token's chunk, and the next in its time. Ends when the candidate leaves."""
        if self._transport is None:
            return
        self._engine.times.wrote(request, token, time.monotonic())
        self._transport.write(chunks[token])
        if (token := token + 1) == len(chunks):
            return
        if tokens_per_s:
            due = start + token / tokens_per_s
            self._loop.call_at(due, self._write, chunks, token, request, start, tokens_per_s)
        else:
            self._loop.call_soon(self._write, chunks, token, request, start, tokens_per_s)


async def serve(port: int, engine: Engine) -> None:
    """Answer until the process ends."""
    listener = socket.create_server(("127.0.0.1", port), backlog=2048)
    factory: Callable[[], Connection] = lambda: Connection(engine)  # noqa: E731
    server = await asyncio.get_running_loop().create_server(factory, sock=listener)
    await server.serve_forever()


def main() -> None:
    """Read the words and the clock file from the arguments and serve."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--words", type=Path, required=True)
    parser.add_argument("--times", type=Path, required=True)
    arguments = parser.parse_args()
    words = msgspec.json.decode(arguments.words.read_bytes(), type=Words)
    uvloop.run(serve(arguments.port, Engine(words, Times(arguments.times))))


if __name__ == "__main__":
    main()
