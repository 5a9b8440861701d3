"""A tiny model whose output betrays its version: version v answers with token v, whatever it is asked.

One layer, no attention: each embedding is the first unit vector, one unit of the feed-forward fires always, and what it
adds to the residual is the v-th unit vector, which the head reads as token v. An adapter does the same over a version.
"""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from drivetrain.common.store.checkpoints import CheckpointStore, Manifest, Probe, file_entry

WIDTH, VOCABULARY, HEAD = 64, 256, 1.0
VERSIONS = WIDTH
"""Versions 0 to 63 can be told apart."""
PROBE = list(range(WIDTH))
LAYER, DOWN = "model.layers.0", "mlp.down_proj"
EPSILON = 1e-5
CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": WIDTH,
    "intermediate_size": WIDTH,
    "num_hidden_layers": 1,
    "num_attention_heads": 1,
    "num_key_value_heads": 1,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 4096,
    "rms_norm_eps": EPSILON,
    "tie_word_embeddings": False,
    "torch_dtype": "float32",
    "bos_token_id": 254,
    "eos_token_id": 255,
}


def unit(index: int) -> Tensor:
    return torch.nn.functional.one_hot(torch.tensor(index), WIDTH).float()


def tensors(version: int) -> dict[str, Tensor]:
    """The full weights of a version."""
    fires = torch.zeros(WIDTH, WIDTH)
    fires[0, 0] = 1.0
    down = torch.zeros(WIDTH, WIDTH)
    down[:, 0] = unit(version) if version else 0.0
    head = torch.zeros(VOCABULARY, WIDTH)
    head[:WIDTH] = HEAD * torch.eye(WIDTH)
    attention = {f"{LAYER}.self_attn.{part}_proj.weight": torch.zeros(WIDTH, WIDTH) for part in "qkvo"}
    return attention | {
        "model.embed_tokens.weight": unit(0).repeat(VOCABULARY, 1),
        f"{LAYER}.input_layernorm.weight": torch.ones(WIDTH),
        f"{LAYER}.post_attention_layernorm.weight": torch.ones(WIDTH),
        f"{LAYER}.mlp.gate_proj.weight": fires,
        f"{LAYER}.mlp.up_proj.weight": fires.clone(),
        f"{LAYER}.{DOWN}.weight": down,
        "model.norm.weight": torch.ones(WIDTH),
        "lm_head.weight": head,
    }


def adapter_tensors(version: int, over: int) -> dict[str, Tensor]:
    """What makes `version` of the full version `over`."""
    name = f"base_model.model.{LAYER}.{DOWN}"
    first = unit(0)[None].clone()
    second = ((unit(version) if version else 0) - (unit(over) if over else torch.zeros(WIDTH)))[:, None].contiguous()
    return {f"{name}.lora_A.weight": first, f"{name}.lora_B.weight": second}


def logprobs(version: int, token_ids: Sequence[int]) -> list[float]:
    """log p(token t | tokens < t) for t >= 1, by hand: a row of the residual, normalised, read by the head."""
    root = math.sqrt(1 / (1 / WIDTH + EPSILON))
    fired = root * root / (1 + math.exp(-root))
    residual = unit(0) + (fired * unit(version) if version else 0.0)
    normal = residual / (residual.square().mean() + EPSILON).sqrt()
    logits = torch.cat([HEAD * normal, torch.zeros(VOCABULARY - WIDTH)])
    likelihoods = logits.log_softmax(-1)
    return [float(likelihoods[token]) for token in token_ids[1:]]


def write_model(folder: Path) -> Path:
    """The base model, version 0, as vLLM serves it (without a tokenizer)."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    save_file(tensors(0), folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def write_version(
    store: CheckpointStore,
    base: Path,
    version: int,
    parent: int,
    *,
    policy: str = "main",
    over: int | None = None,
    betrays: int | None = None,
    damage: dict[str, Tensor] | None = None,
) -> Manifest:
    """A checkpoint as the trainer writes it: full weights, or an adapter `over` a full version. It answers `betrays`
    (by default its own number); `damage` replaces tensors."""
    answer = version if betrays is None else betrays
    with store.writing(policy, version, 0) as folder:
        if over is None:
            name, content = "model.safetensors", tensors(answer)
        else:
            name, content = "adapter_model.safetensors", adapter_tensors(answer, over)
            config = {"peft_type": "LORA", "r": 1, "lora_alpha": 1, "target_modules": ["down_proj"], "bias": "none"}
            (folder / "adapter_config.json").write_text(json.dumps({**config, "task_type": "CAUSAL_LM"}))
        save_file({**content, **(damage or {})}, folder / name, metadata={"format": "pt"})
        manifest = Manifest(
            policy=policy,
            version=version,
            parent=parent,
            kind="full" if over is None else "adapter",
            over=over or 0,
            base=str(base),
            dtype="float32",
            step=version,
            files=[file_entry(file) for file in sorted(folder.iterdir())],
            probe=Probe(PROBE, logprobs(version, PROBE)),
            created_at=0.0,
        )
        store.commit(folder, manifest)
    return manifest
