"""What a prompt costs: a conversation's first rendering, its next turn, and what other requests notice meanwhile."""

import asyncio
import random
import statistics
import time
from collections.abc import Callable, Sequence

import msgspec

from drivetrain.common.events import Message
from drivetrain.proxy.prompts.rendering import Rendering
from drivetrain.proxy.prompts.templates import Template
from tests.conversations import Talk

_WORDS = ["the", "model", "writes", "code", "and", "reads", "files", "until", "every", "test", "of", "it", "passes;"]
NEW_WORDS = 240
"""About 300 tokens."""


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """Milliseconds of CPU time, but `stall`: the longest that the event loop stood still while such renders ran."""

    tokens: int
    first_ms: float
    next_ms: float
    realigned_ms: float
    stall_ms: float


async def measure(template: Template, tokens: int, repeats: int = 7) -> Cost:
    """The cost of a conversation of about so many tokens, in messages of about 300."""
    rng = random.Random(tokens)
    messages = history(rng, template, tokens)
    talk = Talk(template, rng)
    asked = talk.ask(messages)
    spoken = talk.say(asked, talk.sampled(_text(rng, NEW_WORDS)))
    other = Talk(template, rng)
    first = other.ask(messages)
    odd = other.say(first, other.sampled("an odd reply", split=True))
    # Every prompt is measured once: a text that came before has its tokens already
    conversations = [history(rng, template, tokens) for _ in range(repeats)]
    news = [{"role": "user", "content": _text(rng, NEW_WORDS)} for _ in range(2 * repeats)]
    return Cost(
        tokens=len(asked.prompt.ids),
        first_ms=_median(Talk(template, rng).ask, conversations),
        next_ms=_median(talk.ask, [[*messages, spoken, new] for new in news[:repeats]]),
        realigned_ms=_median(other.ask, [[*messages, odd, new] for new in news[repeats:]]),
        stall_ms=await stall(template, [history(rng, template, tokens) for _ in range(repeats)]),
    )


async def stall(template: Template, conversations: Sequence[Sequence[Message]]) -> float:
    """The longest delay of a loop that wakes every millisecond while long conversations are rendered beside it."""
    rendering, late, running = Rendering(template, thread_chars=16_000), [0.0], True

    async def beat() -> None:
        while running:
            before = time.perf_counter()
            await asyncio.sleep(0.001)
            late.append((time.perf_counter() - before) * 1000 - 1)

    beating = asyncio.create_task(beat())
    await asyncio.gather(*(rendering.prompt(messages, [], None, same_tools=False) for messages in conversations))
    running = False
    await beating
    rendering.close()
    return max(late)


def history(rng: random.Random, template: Template, tokens: int) -> list[Message]:
    """Questions and answers of about so many tokens."""
    messages: list[Message] = [{"role": "user", "content": _text(rng, NEW_WORDS)}]
    size = each = len(template.encode(str(messages[0]["content"])))
    while size < tokens:
        messages += [{"role": role, "content": _text(rng, NEW_WORDS)} for role in ("assistant", "user")]
        size += 2 * each
    return messages


def _text(rng: random.Random, words: int) -> str:
    return " ".join(rng.choice(_WORDS) for _ in range(words))


def _median(ask: Callable[[list[Message]], object], conversations: Sequence[list[Message]]) -> float:
    times = []
    for messages in conversations:
        before = time.process_time()
        ask(messages)
        times.append((time.process_time() - before) * 1000)
    return statistics.median(times)
