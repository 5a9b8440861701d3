"""Commands of many requests to Redis, sent as one: most of what a command costs here is its way there and back."""

import asyncio
from collections.abc import Sequence
from typing import Any

from redis.asyncio import Redis

Command = Sequence[str | bytes | int | float]


class Together:
    """What is asked in one turn of the event loop goes in one pipeline."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._asked: list[tuple[Sequence[Command], asyncio.Future[list[Any]]]] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def ask(self, *commands: Command) -> list[Any]:
        """The answer to each command.

        Raises:
            RedisError, OSError, TimeoutError: of the first command that failed, or of all when Redis is away.
        """
        loop = asyncio.get_running_loop()
        if not self._asked:
            loop.call_soon(self._go)
        answered: asyncio.Future[list[Any]] = loop.create_future()
        self._asked.append((commands, answered))
        return await answered

    def _go(self) -> None:
        asked, self._asked = self._asked, []
        task = asyncio.create_task(self._send(asked))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send(self, asked: list[tuple[Sequence[Command], "asyncio.Future[list[Any]]"]]) -> None:
        pipe = self._redis.pipeline(transaction=False)
        for commands, _ in asked:
            for command in commands:
                pipe.execute_command(*command)
        try:
            answers = iter(await pipe.execute(raise_on_error=False))
        except Exception as error:  # noqa: BLE001  whatever it is, those who asked have to know
            answers = iter([error] * sum(len(commands) for commands, _ in asked))
        for commands, answered in asked:
            mine = [next(answers) for _ in commands]
            failed = next((answer for answer in mine if isinstance(answer, Exception)), None)
            if answered.cancelled():
                continue
            if failed is not None:
                answered.set_exception(failed)
            else:
                answered.set_result(mine)
