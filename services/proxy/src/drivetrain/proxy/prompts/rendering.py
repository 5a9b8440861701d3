"""Short renders on the event loop, long ones beside it, so that no stream waits for another's history."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import msgspec

from drivetrain.common.events import Message
from drivetrain.proxy.conversations.lineage import text_of
from drivetrain.proxy.prompts.plain import images_of
from drivetrain.proxy.prompts.prompt import Prompt, build
from drivetrain.proxy.prompts.templates import BadConversation, Template
from drivetrain.proxy.turns import Past

_THREADS = 2
"""Tokenising runs beside Python, templates do not: more threads would only make the event loop wait longer."""


class Rendering:
    """Builds prompts of one model. Threads share its template; the tokenizer lets other threads run while it works."""

    def __init__(self, template: Template, thread_chars: int) -> None:
        """`thread_chars`: what takes the work of so many new characters is rendered in a thread; see `work_of`."""
        self.template, self._thread_chars = template, thread_chars
        self._threads = ThreadPoolExecutor(max_workers=_THREADS, thread_name_prefix="render")

    async def prompt(
        self, messages: Sequence[Message], tools: list[dict[str, Any]], past: Past | None, *, same_tools: bool
    ) -> Prompt:
        """See `drivetrain.proxy.prompts.prompt.build`.

        Raises:
            BadConversation: the template refuses the messages, or has no place for their images.
        """
        prompt = await self._built(messages, tools, past, same_tools=same_tools)
        images = images_of(messages)
        self._check_images(len(images), prompt.ids)
        return msgspec.structs.replace(prompt, images=images) if images else prompt

    async def _built(
        self, messages: Sequence[Message], tools: list[dict[str, Any]], past: Past | None, *, same_tools: bool
    ) -> Prompt:
        if work_of(messages, past.known.depth if past and same_tools else 0) < self._thread_chars:
            return build(self.template, messages, tools, past, same_tools=same_tools)
        loop = asyncio.get_running_loop()
        work = partial(build, self.template, messages, tools, past, same_tools=same_tools)
        return await loop.run_in_executor(self._threads, work)

    def _check_images(self, images: int, ids: list[int]) -> None:
        """The engine puts the n-th image where the n-th mark is: there must be as many."""
        marks = self.template.image_marks
        if images and not marks:
            raise BadConversation("this model reads no images: describe images in words")
        if images and any(ids.count(token) != times * images for token, times in marks.items()):
            written = self.template.decode(list(marks))
            raise BadConversation(
                f"the chat template marks the places of images with {written}, and not each of the {images} images has "
                "one: show images in user messages, and leave such marks out of texts"
            )

    def raw(self, prompt: str | list[int]) -> Prompt:
        """A prompt that is no conversation: token ids as they are, or a text's.

        Raises:
            BadConversation: empty, or a token that the model does not have.
        """
        ids = prompt if isinstance(prompt, list) else list(self.template.tokenizer.encode(prompt))
        if not ids:
            raise BadConversation("the prompt is empty")
        if isinstance(prompt, list) and not all(0 <= i < len(self.template.tokenizer) for i in ids):
            raise BadConversation(f"token ids must be in [0, {len(self.template.tokenizer)})")
        return Prompt(ids=ids, shared=0, drift="root")

    def text(self, ids: Sequence[int]) -> str:
        """What token ids say, special tokens included."""
        return str(self.template.tokenizer.decode(list(ids)))

    def close(self) -> None:
        """End the threads."""
        self._threads.shutdown(wait=True)


def work_of(messages: Sequence[Message], known: int) -> int:
    """What it takes to render a conversation, in characters to be tokenised. The first `known` messages have their
    tokens: the template writes them again, in an eighth of the time."""
    sizes = [len(text_of(message.get("content"))) for message in messages]
    return sum(sizes[known:]) + sum(sizes[:known]) // 8
