"""Tensors in and out of safetensors files."""

import json
from collections.abc import Mapping
from pathlib import Path

import torch
from huggingface_hub import split_torch_state_dict_into_shards
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from drivetrain.common.store import BadCheckpoint
from drivetrain.trainer.model.policy import CausalPolicy

RANDOM = "random_state"
SHARD = "2GB"


def save_shards(weights: dict[str, Tensor], folder: Path) -> list[Path]:
    """Write weights as `model*.safetensors`, with an index if there are several; returns the files."""
    plan = split_torch_state_dict_into_shards(weights, max_shard_size=SHARD)
    for name, keys in plan.filename_to_tensors.items():
        save_file({key: weights[key] for key in keys}, folder / name, metadata={"format": "pt"})
    files = [folder / name for name in plan.filename_to_tensors]
    if plan.is_sharded:
        index = folder / "model.safetensors.index.json"
        index.write_text(json.dumps({"metadata": plan.metadata, "weight_map": plan.tensor_to_filename}))
        files.append(index)
    return files


def optimizer_tensors(model: CausalPolicy, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimiser's state and the random state, by name."""
    tensors = {RANDOM: torch.get_rng_state()}
    for name, parameter in model.named_trainable():
        for key, value in optimizer.state.get(parameter, {}).items():
            tensors[f"{key}:{name}"] = value.contiguous()
    return tensors


def load_optimizer(model: CausalPolicy, optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    """Take over what `optimizer_tensors` gave."""
    torch.set_rng_state(tensors.pop(RANDOM))
    parameters = dict(model.named_trainable())
    optimizer.state.clear()
    for label, value in tensors.items():
        key, _, name = label.partition(":")
        parameter = parameters[name]
        place = "cpu" if key == "step" and not optimizer.defaults.get("fused") else parameter.device
        optimizer.state[parameter][key] = value.to(place)


def load_tensors(file: Path) -> dict[str, Tensor]:
    """All tensors of a file.

    Raises:
        BadCheckpoint: it is missing or damaged.
    """
    try:
        return load_file(file)
    except (OSError, SafetensorError) as error:
        raise BadCheckpoint(f"{file} cannot be read ({error}): remove that checkpoint") from error


def bytes_of(*groups: Mapping[str, Tensor]) -> int:
    """Bytes on disk, a little more than the tensors alone."""
    return int(1.02 * sum(t.numel() * t.element_size() for group in groups for t in group.values())) + (1 << 20)
