"""Text to token ids: the fast way is taken where it says the same as the tokenizer, and only there."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from drivetrain.proxy.prompts import encoding
from drivetrain.proxy.prompts.encoding import Encoder
from drivetrain.proxy.prompts.templates import Template

ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]))
PARTS = st.lists(st.one_of(ANY_TEXT, st.sampled_from(["<|im_end|>", "<|im_start|>", "\n\n ", "don't", "1234"])))


@given(PARTS)
def test_any_text_has_the_ids_of_the_tokenizer_itself(template: Template, parts: list[str]) -> None:
    text = "".join(parts)
    expected = template.tokenizer.backend_tokenizer.encode(text, add_special_tokens=False).ids
    assert template.encode(text) == expected


def test_threads_may_share_it(template: Template) -> None:
    texts = [f"The capital of {number} is Paris. <|im_end|>" * 50 for number in range(64)]
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(template.encode, texts)) == [template.encode(text) for text in texts]


def test_a_tokenizer_that_the_fast_way_cannot_read_is_read_itself(
    model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Unable:
        @staticmethod
        def from_json_str(text: str) -> None:
            raise ValueError("no such pre-tokenizer")

    backend = Tokenizer.from_file(str(model_folder / "tokenizer.json"))
    monkeypatch.setattr(encoding.fastokens, "Tokenizer", Unable)
    assert Encoder(SimpleNamespace(backend_tokenizer=backend)).encode("a b") == backend.encode("a b").ids


def test_a_fast_way_that_says_something_else_is_not_taken(model_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = Tokenizer.from_file(str(model_folder / "tokenizer.json"))
    document = json.loads(backend.to_str())
    document["model"]["merges"] = []
    other = encoding.fastokens.Tokenizer.from_json_str(json.dumps(document))
    monkeypatch.setattr(encoding.fastokens.Tokenizer, "from_json_str", lambda text: other, raising=False)
    text = "The capital of France is Paris."
    assert Encoder(SimpleNamespace(backend_tokenizer=backend)).encode(text) == backend.encode(text).ids


def test_a_message_that_came_before_is_not_read_again(model_folder: Path) -> None:
    encoder = Encoder(SimpleNamespace(backend_tokenizer=Tokenizer.from_file(str(model_folder / "tokenizer.json"))))
    assert encoder._fast is not None
    system, before = "Be brief. " * 100, encoder._fast.segment_cache_stats()["miss_bytes"]
    for question in ("Why?", "When?", "Where to?"):
        encoder.encode(f"<|im_start|>{system}<|im_end|><|im_start|>{question}<|im_end|>")
    read = encoder._fast.segment_cache_stats()["miss_bytes"] - before
    assert len(system) <= read < len(system) + 200
