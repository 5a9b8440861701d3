"""The load generator, a process of its own: streams that each ask again when their reply is over.

Reads a `Job` as its one argument. Writes the line `start` when what is measured begins (conversations are primed, all
streams run), `end` when the last reply is over, and then a `Measured`, each on a line of its own.
"""

import asyncio
import sys
import time
from pathlib import Path

import msgspec
import uvloop

from benchmarks.proxy.client import Client, OnTokens, Outcome, http_request
from benchmarks.proxy.histogram import Histogram
from benchmarks.proxy.wire import Times, Words
from benchmarks.proxy.workload import Conversation, Shape, is_fresh, ramp


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """What to ask of whom. Ends after `seconds`, or after `turns` requests when that is set. `{session}` in the path
    is the conversation's name; `prime` has each conversation's first turn go ahead, uncounted."""

    port: int
    path: str
    streams: int
    shape: Shape
    tokens_per_s: float
    words: str
    times: str
    seconds: float = 10.0
    turns: int = 0
    prime: bool = False
    patience_s: float = 20.0
    name: str = "c"


class Measured(msgspec.Struct, kw_only=True):
    """What was seen. Histograms are buckets of `Histogram`: time to the first token and from token to token, both
    without the engine's own. Requests that had no token when patience ended (`unanswered`) count with the time they
    waited. `answered` counts every whole reply, also those outside of what is measured."""

    requests: int = 0
    answered: int = 0
    failed: int = 0
    unanswered: int = 0
    tokens: int = 0
    seconds: float = 0.0
    first: dict[int, int] = {}
    later: dict[int, int] = {}
    trouble: list[str] = []


class Load:
    """All streams of a job."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._times = Times(Path(job.times))
        words = msgspec.json.decode(Path(job.words).read_bytes(), type=Words)
        self._reply = words.reply(job.shape.reply)
        self._first, self._later, self.measured = Histogram(), Histogram(), Measured()
        self._asked, self._counting, self._over = 0, False, False

    async def run(self) -> Measured:
        """Prime, ramp up, measure, and wait for the last replies."""
        job = self._job
        if job.prime:
            streams = [asyncio.create_task(self._primed(i)) for i in range(job.streams)]
            conversations = [await stream for stream in streams]
        else:
            conversations = [self._conversation(i) for i in range(job.streams)]
        delays = ramp(job.streams, job.shape.reply / job.tokens_per_s if job.tokens_per_s else 0.0)
        tasks = [asyncio.create_task(self._stream(conversations[i], delays[i])) for i in range(job.streams)]
        await asyncio.sleep(delays[-1])
        print("start", flush=True)
        started, self._counting = time.monotonic(), True
        await self._until_over(tasks)
        self._over = True
        await asyncio.wait(tasks, timeout=job.patience_s)
        print("end", flush=True)
        self.measured.seconds = time.monotonic() - started
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.measured.first, self.measured.later = self._first.counts, self._later.counts
        return self.measured

    async def _until_over(self, tasks: list["asyncio.Task[None]"]) -> None:
        if not self._job.turns:
            await asyncio.wait(tasks, timeout=self._job.seconds)
            return
        await asyncio.wait(tasks)

    def _conversation(self, stream: int) -> Conversation:
        return Conversation(f"{self._job.name}-{stream}", self._job.shape.history)

    async def _primed(self, stream: int) -> Conversation:
        """A conversation whose first turn is over, waiting at its second."""
        conversation, shape = self._conversation(stream), self._job.shape
        client = await self._connect()
        outcome = await self._ask(client, conversation, self._next(), _ignore)
        client.close()
        if not outcome.whole:
            raise SystemExit(f"the load could not begin: {outcome.words}")
        conversation.go_on(self._reply, "0", shape.new)
        return conversation

    async def _stream(self, conversation: Conversation, delay: float) -> None:
        """Ask, and ask again, until the job is over."""
        await asyncio.sleep(delay)
        client, shape, turn = await self._connect(), self._job.shape, 0
        while not self._over and not (self._job.turns and self._asked >= self._job.turns):
            client = client if client.open else await self._connect()
            number = self._next()
            fresh = is_fresh(number, shape)
            asked = Conversation(f"{self._job.name}-n{number}", shape.fresh) if fresh else conversation
            last = shape.ends and (fresh or (turn + 1) % shape.turns == 0)
            outcome = await self._counted(client, asked, number, last=last)
            if outcome.stale:
                continue
            if not outcome.whole:
                client.close()
                await asyncio.sleep(0.05)
            elif not fresh:
                turn += 1
                conversation.go_on(self._reply, f"{number}", shape.new)
                if turn % shape.turns == 0:
                    conversation = Conversation(f"{self._job.name}-r{number}", shape.history)

    async def _counted(self, client: Client, asked: Conversation, number: int, *, last: bool) -> Outcome:
        """Ask and note what is seen; of a request from before the start only the tokens that come after it."""
        counted, sent = self._counting, time.monotonic()

        def on_tokens(first: int, count: int, at: float) -> None:
            if self._counting:
                self.measured.tokens += count
            if counted:
                self._note(number, first, count, at, sent)

        try:
            outcome = await self._ask(client, asked, number, on_tokens, last=last)
        except asyncio.CancelledError:
            if counted and not client.tokens:
                self.measured.unanswered += 1
                self._first.add(time.monotonic() - sent)
            client.close()
            raise
        if counted and outcome.whole:
            self.measured.requests += 1
        elif counted and not outcome.stale:
            self.measured.failed += 1
            self.measured.trouble = [*self.measured.trouble, outcome.words][:5]
        return outcome

    def _note(self, request: int, first: int, count: int, at: float, sent: float) -> None:
        """Tokens arrived: how long after the engine wrote them, and for the first also how long it waited before."""
        for token in range(first, first + count):
            late = at - self._times.of_token(request, token)
            if token == 0:
                self._first.add(late + self._times.of_request(request) - sent)
            else:
                self._later.add(late)

    def _next(self) -> int:
        """The number of the next request."""
        self._asked += 1
        return self._asked - 1

    async def _ask(
        self, client: Client, asked: Conversation, number: int, on_tokens: OnTokens, *, last: bool = False
    ) -> Outcome:
        path = self._job.path.replace("{session}", asked.name)
        request = http_request(path, asked.body(number, self._job.shape.reply, last=last))
        outcome = await client.ask(request, on_tokens)
        self.measured.answered += outcome.whole
        return outcome

    async def _connect(self) -> Client:
        loop = asyncio.get_running_loop()
        _, client = await loop.create_connection(Client, "127.0.0.1", self._job.port)
        return client


def _ignore(first: int, count: int, at: float) -> None:
    return


def main() -> None:
    """Run the job of the first argument."""
    job = msgspec.json.decode(sys.argv[1], type=Job)
    measured = uvloop.run(Load(job).run())
    sys.stdout.buffer.write(msgspec.json.encode(measured) + b"\n")


if __name__ == "__main__":
    main()
