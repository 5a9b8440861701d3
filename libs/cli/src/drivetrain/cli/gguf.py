"""Turns a GGUF file of a Llama-family chat model into a folder of safetensors. Imports torch: import this lazily."""

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

# Read when tqdm is imported: bars of the libraries would bury the one line that matters
os.environ.setdefault("TQDM_DISABLE", "1")

import torch
from tokenizers import pre_tokenizers
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    GenerationConfig,
    LlamaForCausalLM,
)

CHATML = Path(__file__).with_name("chatml.jinja")


def convert_gguf(gguf: Path, target: Path) -> None:
    """Write model, tokenizer, chat template and generation config to `target`, which appears complete or not at all.

    The weights are the GGUF's own values, dequantized to fp32.

    Raises:
        RuntimeError: what was written does not read back as what was converted.
    """
    with tempfile.TemporaryDirectory(prefix=f".{target.name}-", dir=target.parent) as scratch:
        source, made = Path(scratch) / "source", Path(scratch) / "made"
        source.mkdir()
        (source / gguf.name).symlink_to(gguf)
        model = _read_model(source, gguf.name)
        model.save_pretrained(made)
        tokenizer = _read_tokenizer(source, gguf.name)
        tokenizer.save_pretrained(made)
        GenerationConfig(
            bos_token_id=tokenizer.bos_token_id,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        ).save_pretrained(made)
        _verify(made, model, tokenizer)
        shutil.rmtree(target, ignore_errors=True)
        os.replace(made, target)


def _read_model(folder: Path, file: str) -> Any:
    loaded = AutoModelForCausalLM.from_pretrained(folder, gguf_file=file, dtype=torch.float32)
    config = loaded.config
    # A model that was loaded from GGUF refuses to be saved, so its weights move to a fresh one
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    config.rms_norm_eps = round(config.rms_norm_eps, 9)  # GGUF keeps it as float32: 9.9999997e-06
    config.name_or_path = ""
    model = LlamaForCausalLM(config)
    model.load_state_dict(loaded.state_dict())
    return model.eval()


def _read_tokenizer(folder: Path, file: str) -> Any:
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=file)
    # GGUF names its pre-tokenizer ("smollm") and the reader ignores the name: digits stand alone in it
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    tokenizer.chat_template = CHATML.read_text()
    return tokenizer


def _verify(made: Path, model: Any, tokenizer: Any) -> None:
    """Read the folder back: same weights, same token ids, and a chat that is plain ChatML."""
    again = AutoModelForCausalLM.from_pretrained(made)
    expected = model.state_dict()
    for name, weight in again.state_dict().items():
        if not torch.equal(weight, expected[name]):
            raise RuntimeError(f"{name} differs after saving")
    reader = AutoTokenizer.from_pretrained(made)
    chat = [{"role": "user", "content": "What is 12 + 30?"}]
    rendered = reader.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
    if rendered != "<|im_start|>user\nWhat is 12 + 30?<|im_end|>\n<|im_start|>assistant\n":
        raise RuntimeError(f"the chat template renders {rendered!r}")
    if reader.encode(rendered) != tokenizer.encode(rendered):
        raise RuntimeError("the tokenizer differs after saving")
    if reader.decode(reader.encode(rendered)) != rendered:
        raise RuntimeError("the tokenizer does not read back what it wrote")
