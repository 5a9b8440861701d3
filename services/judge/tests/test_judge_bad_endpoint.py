"""A judge model that answers nonsense, over a real JetStream and a real socket: turns wait, and none is scored."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from drivetrain.common.settings import resolve
from drivetrain.judge.settings import JudgeSettings
from tests.judge_world import followed, user
from tests.judge_world_nats import Real

VOTE = json.dumps({"vote": 1, "evidence": "And then?", "hint": None})
GOOD = json.dumps({"choices": [{"message": {"content": VOTE}}]}).encode()
OK, JSON = b"HTTP/1.1 200 OK\r\n", b"Content-Type: application/json\r\n"
HTML = OK + b"Content-Type: text/html\r\nContent-Length: 27\r\n\r\n<html><body>hi</body></html>"
BUSY = b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 600\r\nContent-Length: 0\r\n\r\n"
STOPS = OK + JSON + f"Content-Length: {len(GOOD)}\r\n\r\n".encode() + GOOD[:40]
STOPS_CHUNKED = OK + JSON + b"Transfer-Encoding: chunked\r\n\r\n28\r\n" + GOOD[:40] + b"\r\n"
CUT = OK + JSON + b"Content-Length: 40\r\n\r\n" + GOOD[:40]
TURNS = 30


class Endpoint:
    """Answers every request with the same bytes, until it is told others."""

    def __init__(self, answer: bytes) -> None:
        self.answer = answer
        self.asked = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        await reader.readexactly(length)
        self.asked += 1
        writer.write(self.answer)
        await writer.drain()
        writer.close()


@asynccontextmanager
async def endpoint(answer: bytes) -> AsyncIterator[tuple[Endpoint, str]]:
    made = Endpoint(answer)
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    async with server:
        yield made, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"


def settings(url: str) -> JudgeSettings:
    model = {"enabled": "true", "url": url, "model": "m", "votes": "1", "attempts": "1", "breaker_wait_s": "0.05"}
    flags = [part for name, value in model.items() for part in (f"--model.{name}", value)]
    return resolve(JudgeSettings, "judge", [*flags, "--concurrency", "4", "--model.breaker_failures", "3"], {})


@pytest.mark.parametrize(
    "answer", [HTML, BUSY, STOPS, STOPS_CHUNKED, CUT], ids=["html", "429", "stops", "stops chunked", "cut"]
)
async def test_turns_wait_in_the_stream_while_the_endpoint_makes_no_sense(real: Real, answer: bytes) -> None:
    for number in range(TURNS):
        await real.put(followed(f"t{number}", user("And then?"), session=f"s{number}"))
        await real.put_recorded(f"t{number}", f"s{number}")
    async with endpoint(answer) as (model, url), real.judging(settings(url)) as life:
        await real.until(lambda: life.unready() == ["the judge model answers"])
        waiting = await real.waiting()
        assert waiting >= TURNS - 8  # at most what was in work when it went wrong is out of the stream
        asked = model.asked
        await real.until(lambda: model.asked >= asked + 3)  # probes alone
        assert await real.waiting() == waiting
        assert (await real.count("SCORES"), await real.count("DEAD")) == (0, 0)
        model.answer = OK + JSON + f"Content-Length: {len(GOOD)}\r\n\r\n".encode() + GOOD
        scores = await real.scores(TURNS)
        assert life.unready() == []
    assert {score.reward for score in scores.values()} == {1.0}
    assert (await real.count("SCORES"), await real.count("DEAD")) == (TURNS, 0)
