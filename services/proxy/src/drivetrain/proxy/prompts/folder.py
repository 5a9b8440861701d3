"""What a model's folder says of it: tokenizer and chat template, what ends a reply, what the model was built for."""

import json
from pathlib import Path
from typing import Any

from renderers.base import load_tokenizer

from drivetrain.proxy.prompts.families import BadModel


def tokenizer_of(folder: str) -> Any:
    """The tokenizer, with a chat template.

    Raises:
        BadModel: no folder, no tokenizer in it, or no chat template.
    """
    if not Path(folder).is_dir():
        raise BadModel(f"the model folder {folder} does not exist: set `model` to a folder with a tokenizer")
    try:
        tokenizer = load_tokenizer(folder)
    except Exception as error:
        raise BadModel(
            f"the model folder {folder} has no usable tokenizer ({error}): it needs tokenizer.json and "
            "tokenizer_config.json beside the weights"
        ) from error
    if not getattr(tokenizer, "chat_template", None):
        # Where models that read images had it for a time: with the processor.
        tokenizer.chat_template = _json(folder, "chat_template.json").get("chat_template")
    if not tokenizer.chat_template:
        raise BadModel(f"the tokenizer in {folder} has no chat template: add chat_template.jinja to that folder")
    return tokenizer


def stop_ids_of(folder: str, renderer: Any) -> list[int]:
    """Tokens that end a reply: the renderer's, and those of the model's generation configuration."""
    extra = _json(folder, "generation_config.json").get("eos_token_id")
    named = extra if isinstance(extra, list) else [] if extra is None else [extra]
    return sorted({*named, *renderer.get_stop_token_ids()})


def context_of(folder: str) -> int | None:
    """How many tokens the model was built for, as its configuration says, or None if it does not say."""
    config = _json(folder, "config.json")
    found = config.get("max_position_embeddings") or (config.get("text_config") or {}).get("max_position_embeddings")
    return int(found) if found else None


def reads_images(folder: str) -> bool:
    """Whether the model has eyes, as its configuration says."""
    return "vision_config" in _json(folder, "config.json")


def _json(folder: str, name: str) -> dict[str, Any]:
    path = Path(folder) / name
    return dict(json.loads(path.read_text())) if path.is_file() else {}
