"""Messages to text by the model's own chat template. Every turn has its whole history written, so it is compiled once
and given the messages as they are."""

from collections.abc import Sequence
from typing import Any

from jinja2 import Template as Compiled
from jinja2 import TemplateError
from transformers.utils.chat_template_utils import _compile_jinja_template

from drivetrain.common.events import Message
from drivetrain.common.telemetry.logs import get_logger
from drivetrain.proxy.prompts.families import probes

_log = get_logger("writing")


class Writer:
    """What `apply_chat_template` of transformers writes, without its conversions of what messages of ours never hold:
    a third of its time. Where a probe shows a difference it is not `straight`, and transformers itself writes."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._names: dict[str, Any] = dict(tokenizer.special_tokens_map)
        # With tools a tokenizer may have another template
        offered: tuple[list[dict[str, Any]] | None, ...] = (None, [{}])
        sources = [tokenizer.get_chat_template(None, tools) for tools in offered]
        self._compiled: list[Compiled] = [_compile_jinja_template(source) for source in sources]
        self.straight = all(self._same(messages, tools) for messages, tools in probes())
        if not self.straight:
            _log.warning("the chat template cannot be used directly, which is slower")

    def write(self, messages: Sequence[Message], tools: list[dict[str, Any]], *, generation: bool) -> str:
        """The text of plain messages (see `prompts.plain`); with `generation` up to where the next reply begins.

        Raises:
            TemplateError, ValueError, TypeError, KeyError: the template refuses them.
        """
        write = self._written if self.straight else self._by_transformers
        return write(messages, tools, generation)

    def _written(self, messages: Sequence[Message], tools: list[dict[str, Any]], generation: bool) -> str:
        return self._compiled[bool(tools)].render(
            messages=[_aliased(message) for message in messages],
            tools=tools or None,
            documents=None,
            add_generation_prompt=generation,
            **self._names,
        )

    def _by_transformers(self, messages: Sequence[Message], tools: list[dict[str, Any]], generation: bool) -> str:
        return str(
            self._tokenizer.apply_chat_template(
                list(messages), tools=tools or None, add_generation_prompt=generation, tokenize=False
            )
        )

    def _same(self, messages: list[Message], tools: list[dict[str, Any]]) -> bool:
        said: list[str | type[Exception]] = []
        for write in (self._written, self._by_transformers):
            try:
                said.append(write(messages, tools, True))
            except (TemplateError, ValueError, TypeError, KeyError) as error:
                said.append(type(error))
        return said[0] == said[1]


def _aliased(message: Message) -> Message:
    """Without what is None; some templates read reasoning as `thinking`."""
    written = {name: value for name, value in message.items() if value is not None}
    reasoning = written.get("reasoning_content")
    return written if reasoning is None else {"thinking": reasoning, **written}
