"""Short renders on the event loop, long ones beside it, so that no stream waits for another's history."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from drivetrain.common.events import Message
from drivetrain.proxy.lineage import text_of
from drivetrain.proxy.prompts import Prompt, build
from drivetrain.proxy.templates import BadConversation, Template
from drivetrain.proxy.turns import Past


class Rendering:
    """Builds prompts. The thread has a template of its own: tokenizers cannot be shared between threads."""

    def __init__(self, load: Callable[[], Template], thread_chars: int) -> None:
        self.template = load()
        self._load, self._thread_chars = load, thread_chars
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="render")
        self._beside: Template | None = None

    async def prompt(
        self, messages: Sequence[Message], tools: list[dict[str, Any]], past: Past | None, *, same_tools: bool
    ) -> Prompt:
        """See `drivetrain.proxy.prompts.build`."""
        if sum(len(text_of(message.get("content"))) for message in messages) < self._thread_chars:
            return build(self.template, messages, tools, past, same_tools=same_tools)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._beside_loop, messages, tools, past, same_tools)

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
        """End the thread."""
        self._thread.shutdown(wait=True)

    def _beside_loop(
        self, messages: Sequence[Message], tools: list[dict[str, Any]], past: Past | None, same_tools: bool
    ) -> Prompt:
        if self._beside is None:
            self._beside = self._load()
        return build(self._beside, messages, tools, past, same_tools=same_tools)
