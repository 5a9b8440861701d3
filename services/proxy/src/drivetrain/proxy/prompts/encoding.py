"""Text to token ids. Tokenising is most of what a new conversation costs, so the fastest exact way is taken."""

from typing import Any

import fastokens

from drivetrain.common.telemetry.logs import get_logger

_PROBES = (
    "def f(x):\n\treturn {'a': [1, 22, 333], \"b\": x ** 2}  # I'll, we're, don't\r\n\r\n   ...!? \u00a0\u3000 -> _\\/",
    "äöüß é e\u0301 ﬁ 日本語 中文 한국어 العربية עברית हिन्दी 😀👩‍👩‍👧🏳️‍🌈 \u200d\ufe0f \x00\x7f\u2028",
)
_CACHE_BYTES = 32 << 20
_log = get_logger("encoding")


class Encoder:
    """A tokenizer's `encode`, by `fastokens` where that reads the tokenizer and says the same (it is several times
    faster, other threads run meanwhile, and a message that many conversations share costs nothing again), else by the
    tokenizer itself."""

    def __init__(self, tokenizer: Any) -> None:
        self._backend = tokenizer.backend_tokenizer
        special = " ".join(token.content for token in self._backend.get_added_tokens_decoder().values())
        self._fast = self._agreeing([*_PROBES, special, _PROBES[0] + special.replace(" ", _PROBES[1])])

    def encode(self, text: str) -> list[int]:
        """A text's token ids, special tokens recognised and none added.

        Raises:
            TypeError, ValueError: the text has half surrogates.
        """
        return self._fast.encode(text).ids if self._fast else self._slowly(text)

    def _slowly(self, text: str) -> list[int]:
        encoding = self._backend.encode_batch_fast([text], add_special_tokens=False)[0]  # fast: without offsets
        return list(encoding.ids)

    def _agreeing(self, probes: list[str]) -> fastokens.Tokenizer | None:
        try:
            fast = fastokens.Tokenizer.from_json_str(self._backend.to_str())
            fast.enable_segment_cache(_CACHE_BYTES)
            reason = "" if all(fast.encode(probe).ids == self._slowly(probe) for probe in probes) else "they disagree"
        except (ValueError, RuntimeError, NotImplementedError) as error:
            reason = str(error)[:200]
        if reason:
            _log.warning("fastokens cannot stand in for this tokenizer, which is slower", reason=reason)
        return None if reason else fast
