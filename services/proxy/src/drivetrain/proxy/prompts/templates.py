"""The model's tokenizer and chat template: messages to text and token ids, and sampled ids back to tool calls."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from jinja2 import TemplateError

from drivetrain.common.events import Message
from drivetrain.proxy.prompts.encoding import Encoder
from drivetrain.proxy.prompts.families import CALL_FORMS, PROBE_TOOL, BadModel, choose
from drivetrain.proxy.prompts.folder import reads_images, stop_ids_of, tokenizer_of
from drivetrain.proxy.prompts.plain import images_of, plain
from drivetrain.proxy.prompts.writing import Writer

MARKERS = ("<think>", "</think>", "<tool_call>", "</tool_call>")
_BRIDGE_TOKENS = 64
"""A bridge looks at the prompt's end only: at the generation prompt."""


class BadConversation(ValueError):
    """These messages cannot be written for the model; the message says why, if need be in the chat template's words."""


class Template:
    """One model's chat template with its tokenizer. It has no state: threads may share it.

    `splices` says that `text` is what `render` writes; `opening` is the text that asks for a reply, `stop_texts` what
    ends one. `image_marks` are the tokens with which the template marks the place of one image, and how many of each;
    there are none for a model that reads text alone.
    """

    def __init__(self, folder: str, renderer: str = "auto", tool_parser: str = "qwen3") -> None:
        """
        Raises:
            BadModel: no folder, no tokenizer or chat template in it, or an unknown renderer.
        """
        self.folder = folder
        self.tokenizer = tokenizer_of(folder)
        self._encoder, self._writer = Encoder(self.tokenizer), Writer(self.tokenizer)
        self.renderer, self.splices = choose(self.tokenizer, renderer, tool_parser, self._written)
        self.stop_ids = stop_ids_of(folder, self.renderer)
        self.stop_texts = tuple(self.decode([token]) for token in self.stop_ids)
        self.marker_ids = self._marker_ids()
        self.hidden_ids = frozenset(set(self.tokenizer.all_special_ids) - set(self.marker_ids) | set(self.stop_ids))
        self.image_marks = self._marks_of_an_image() if reads_images(folder) else {}
        self._instructs_later = self._takes_later_instructions()
        self.renders_tools, self.opening = self._probe()
        config = self.renderer.config
        self.call_form = CALL_FORMS.get(config.tool_parser if config.name == "default" else config.name)
        self._reasoning_prompt = self.encode("<think>")

    def render(self, messages: Sequence[Message], tools: list[dict[str, Any]]) -> list[int]:
        """The token ids of a conversation, up to where the next reply begins.

        Raises:
            BadConversation: the template refuses the messages.
        """
        if self.splices:
            return self.encode(self.text(messages, tools))
        try:
            written = self._plain(messages)
            return list(self.renderer.render_ids(written, tools=tools or None, add_generation_prompt=True))
        except (TemplateError, ValueError, TypeError, KeyError) as error:
            raise BadConversation(f"the model's chat template refuses these messages: {error}") from error

    def text(self, messages: Sequence[Message], tools: list[dict[str, Any]], *, generation: bool = True) -> str:
        """What the model's own template writes for a conversation.

        Raises:
            BadConversation: the template refuses the messages.
        """
        try:
            return self._writer.write(self._plain(messages), tools, generation=generation)
        except (TemplateError, ValueError, TypeError, KeyError) as error:
            raise BadConversation(f"the model's chat template refuses these messages: {error}") from error

    def encode(self, text: str) -> list[int]:
        """A text's token ids, special tokens recognised and none added. Other threads run meanwhile."""
        return self._encoder.encode(text)

    def decode(self, ids: Sequence[int]) -> str:
        """What token ids say, special tokens included."""
        return str(self.tokenizer.backend_tokenizer.decode(list(ids), skip_special_tokens=False))

    def bridge(
        self, prompt: list[int], response: list[int], new: Sequence[Message], tools: list[dict[str, Any]]
    ) -> list[int] | None:
        """What follows a recorded prompt and response in the next prompt, without a rendering of history; None when
        the renderer cannot promise it, as with images."""
        if images_of(new):
            return None
        end = prompt[-_BRIDGE_TOKENS:]
        written = self._plain(new, opening=False)
        bridged = self.renderer.bridge_to_next_turn(end, response, written, tools=tools or None)
        recorded = end + response
        if bridged is None or list(bridged.token_ids[: len(recorded)]) != recorded:
            return None
        return list(bridged.token_ids[len(recorded) :])

    def starts_in_reasoning(self, prompt: list[int]) -> bool:
        """Whether the prompt already opened the reasoning that the reply will continue."""
        return self.decode(prompt[-8:]).rstrip().endswith("<think>")

    def calls(
        self, prompt: list[int], response: list[int], tools: list[dict[str, Any]]
    ) -> list[tuple[str, object] | None]:
        """Every attempted tool call of a reply as (name, arguments); None for one that cannot be read. None at all for
        JSON of too many levels."""
        opened = self._reasoning_prompt if self.starts_in_reasoning(prompt) else None
        try:
            parsed = self.renderer.parse_response(response, tools=tools or None, prompt_ids=opened)
        except RecursionError:
            return []
        return [(c.name, c.arguments) if _readable(c) else None for c in parsed.tool_calls]

    def _plain(self, messages: Sequence[Message], *, opening: bool = True) -> list[Message]:
        """Messages as the template expects them. Where it has no place for instructions inside a conversation, the
        user says them; `opening` tells whether these messages begin one."""
        written = [plain(message, parts=opening and bool(self.image_marks)) for message in messages]
        if self._instructs_later:
            return written
        head = 1 if opening else 0
        later = ({**message, "role": "user"} if message["role"] == "system" else message for message in written[head:])
        return [*written[:head], *later]

    def _takes_later_instructions(self) -> bool:
        probe = [plain({"role": role, "content": "probe"}, parts=bool(self.image_marks)) for role in ("user", "system")]
        return self._tried([*probe, probe[0]]) is not None

    def _marks_of_an_image(self) -> Mapping[int, int]:
        words, place = {"type": "text", "text": "probe"}, {"type": "image"}
        without, shown = (self._tried([{"role": "user", "content": [*image, words]}]) for image in ([], [place]))
        if without is None or shown is None or "probe" not in without:
            return {}
        special = self.tokenizer.backend_tokenizer.get_added_tokens_decoder()
        more = Counter(self.encode(shown)) - Counter(self.encode(without))
        return {token: times for token, times in more.items() if token in special}

    def _tried(self, messages: list[Message]) -> str | None:
        """What the template writes, or None when it refuses."""
        try:
            return self._writer.write(messages, [], generation=True)
        except (TemplateError, ValueError, TypeError, KeyError):
            return None

    def _written(self, messages: list[Message], tools: list[dict[str, Any]]) -> list[int]:
        return self.encode(self._writer.write(messages, tools, generation=True))

    def _marker_ids(self) -> dict[int, str]:
        """Markers that are one token of this tokenizer."""
        found = {self.tokenizer.convert_tokens_to_ids(marker): marker for marker in MARKERS}
        return {token: marker for token, marker in found.items() if token not in (None, self.tokenizer.unk_token_id)}

    def _probe(self) -> tuple[bool, str]:
        """Whether the template has a place for tools, and what it adds to ask for a reply."""
        probe = [{"role": "user", "content": "probe"}]
        try:
            asking, history = self.text(probe, []), self.text(probe, [], generation=False)
            return self.text(probe, [PROBE_TOOL]) != asking, asking.removeprefix(history)
        except BadConversation as error:
            raise BadModel(f"the chat template in {self.folder} cannot write a user's message: {error}") from error


def _readable(call: Any) -> bool:
    """`invalid_json` is also said of calls in other forms, of a parameter that is plain text: those can be read."""
    return bool(call.name) and (
        call.status == "ok" or (call.status == "invalid_json" and isinstance(call.arguments, dict))
    )
