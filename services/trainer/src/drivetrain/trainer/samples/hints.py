"""Hints: the same prompt as the policy had, with hindsight spliced into the last message before the reply.

The recorded tokens stay as they are; only the hint's tokens go in between, right after the message's own content.
Where that is follows from the template's tail: what the tokenizer's chat template writes after a message's content
(end of the message, start of the reply). A prompt that does not end in that tail gets no teacher.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Protocol

import jinja2

SENTINEL = "drivetrainhintgoeshere"


class NoTeacher(StrEnum):
    """Why a turn with a hint has no teacher prompt."""

    NO_MESSAGE = "no_message"
    TEMPLATE = "template"
    TAIL = "tail"
    TOO_LONG = "too_long"


class NotSpliced(ValueError):
    """The hint has no place in this prompt; `reason` is what the counter is labelled with."""

    def __init__(self, reason: NoTeacher, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else str(reason))
        self.reason = reason


class Tokenizer(Protocol):
    """What is used of a Hugging Face tokenizer."""

    def apply_chat_template(self, conversation: list[dict[str, Any]], **options: Any) -> Any: ...
    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]: ...


def template_tail(tokenizer: Tokenizer, message: Mapping[str, Any]) -> tuple[int, ...]:
    """The tokens that the chat template puts between this message's content and the reply.

    Raises:
        NotSpliced: the template cannot render the message alone, or does not show its content exactly once.
    """
    try:
        rendered = tokenizer.apply_chat_template(
            [{**message, "content": SENTINEL}], tokenize=False, add_generation_prompt=True
        )
    except (jinja2.TemplateError, ValueError, TypeError, KeyError) as error:
        raise NotSpliced(NoTeacher.TEMPLATE, str(error)) from error
    _, found, tail = str(rendered).partition(SENTINEL)
    if not found or SENTINEL in tail:
        raise NotSpliced(NoTeacher.TEMPLATE, "the message's content is not rendered exactly once")
    return tuple(tokenizer.encode(tail, add_special_tokens=False))


def splice(
    tokenizer: Tokenizer, prompt_ids: Sequence[int], message: Mapping[str, Any] | None, hint: str, wording: str
) -> tuple[int, ...]:
    """The teacher's prompt: `prompt_ids` with the hint, worded by a format string with `{hint}`, as the last words
    of the last message.

    Raises:
        NotSpliced: no message, a template that hides it, or a recorded prompt that does not end in the tail.
    """
    if message is None:
        raise NotSpliced(NoTeacher.NO_MESSAGE)
    tail = template_tail(tokenizer, message)
    if not tail or tuple(prompt_ids[-len(tail) :]) != tail:
        raise NotSpliced(NoTeacher.TAIL, "the recorded prompt does not end as the template does")
    spliced = tokenizer.encode(wording.format(hint=hint), add_special_tokens=False)
    return (*prompt_ids[: -len(tail)], *spliced, *tail)
