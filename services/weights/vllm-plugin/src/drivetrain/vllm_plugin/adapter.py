"""An adapter, checked against the model that it is for: vLLM itself would only fail when a request uses it."""

import json
import re
from collections.abc import Mapping
from pathlib import Path

from drivetrain.vllm_plugin.checkpoint import FLOATS, BadCheckpoint, TensorEntry

CONFIG = "adapter_config.json"
NAMED = re.compile(r"^base_model\.model\.(?P<module>.+)\.lora_(?P<side>[AB])\.weight$")


def verify_adapter(folder: Path, got: Mapping[str, TensorEntry], model: Mapping[str, TensorEntry]) -> None:
    """Check that every matrix of a LoRA adapter fits the model's, by name, rank and shape.

    Raises:
        BadCheckpoint: naming the tensor, or what the adapter's configuration lacks.
    """
    rank = _rank(folder / CONFIG)
    for name, entry in got.items():
        found = NAMED.match(name)
        of = model.get(f"{found['module']}.weight") if found else None
        if found is None or of is None or len(of.shape) != 2:
            raise BadCheckpoint(f"tensor {name} of the adapter belongs to no matrix of the model")
        wanted = (rank, of.shape[1]) if found["side"] == "A" else (of.shape[0], rank)
        if entry.shape != wanted:
            raise BadCheckpoint(f"tensor {name} has shape {entry.shape}, rank {rank} and the model need {wanted}")
        if entry.dtype not in FLOATS:
            raise BadCheckpoint(f"tensor {name} has type {entry.dtype}, allowed are {', '.join(FLOATS)}")
        other = f"base_model.model.{found['module']}.lora_{'B' if found['side'] == 'A' else 'A'}.weight"
        if other not in got:
            raise BadCheckpoint(f"tensor {name} of the adapter has no {other}")


def _rank(file: Path) -> int:
    try:
        return int(json.loads(file.read_bytes())["r"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadCheckpoint(f"{file.name} of the adapter gives no rank `r`: {error!r}") from error
