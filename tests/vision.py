"""A tiny model that reads images, with random weights: enough for a real vLLM to serve."""

import base64
import io
from pathlib import Path

from PIL import Image

TEMPLATE = """{% for message in messages %}<|im_start|>{{ message.role }}
{% if message.content is string %}{{ message.content }}{% else %}{% for part in message.content %}\
{{ '<image>' if part.type == 'image' else part.text }}{% endfor %}{% endif %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
CONTEXT = 1024
_SIDE, _PATCH, _SCALE = 56, 14, 2
TOKENS = (_SIDE // _PATCH // _SCALE) ** 2 + 3
"""How many tokens vLLM reads for one image: its patches, pooled, between three that frame them."""


def build(tokenizer_folder: Path, folder: Path) -> Path:
    """Write an Idefics3 of two small layers, with a tokenizer that is there already."""
    import torch
    from transformers import (
        Idefics3Config,
        Idefics3ForConditionalGeneration,
        Idefics3Processor,
        LlamaConfig,
        PreTrainedTokenizerFast,
    )
    from transformers.models.idefics3.image_processing_pil_idefics3 import Idefics3ImageProcessorPil

    tokenizer = PreTrainedTokenizerFast.from_pretrained(str(tokenizer_folder))
    frame = ["<image>", "<fake_token_around_image>", "<global-img>", "<end_of_utterance>"]
    tokenizer.add_special_tokens({"additional_special_tokens": frame})
    tokenizer.chat_template = TEMPLATE
    ends = {"bos_token_id": None, "eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    layers = {"num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 64, "intermediate_size": 128}
    text = LlamaConfig(
        **layers,
        **ends,
        num_key_value_heads=2,
        vocab_size=len(tokenizer),
        max_position_embeddings=CONTEXT,
        tie_word_embeddings=True,
        initializer_range=0.2,
    )
    config = Idefics3Config(
        vision_config={**layers, "image_size": _SIDE, "patch_size": _PATCH},
        text_config=text,
        image_token_id=tokenizer.convert_tokens_to_ids("<image>"),
        pad_token_id=tokenizer.pad_token_id,
        scale_factor=_SCALE,
        tie_word_embeddings=True,
    )
    torch.manual_seed(0)
    Idefics3ForConditionalGeneration(config).float().save_pretrained(str(folder))
    size = {"longest_edge": _SIDE}
    images = Idefics3ImageProcessorPil(size=size, max_image_size=size, do_image_splitting=False)
    patches = (_SIDE // _PATCH // _SCALE) ** 2
    processor = Idefics3Processor(images, tokenizer, image_seq_len=patches, chat_template=TEMPLATE)
    processor.save_pretrained(str(folder))
    tokenizer.save_pretrained(str(folder))
    return folder


def png(colour: str, size: tuple[int, int] = (40, 30)) -> bytes:
    """An image of one colour."""
    file = io.BytesIO()
    Image.new("RGB", size, colour).save(file, "PNG")
    return file.getvalue()


def data_url(image: bytes) -> str:
    """An image as a URL that holds it."""
    return "data:image/png;base64," + base64.b64encode(image).decode()
