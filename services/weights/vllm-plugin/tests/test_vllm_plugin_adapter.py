"""An adapter that does not fit is found before a request can meet it."""

import json
from pathlib import Path

import pytest

from drivetrain.vllm_plugin.adapter import verify_adapter
from drivetrain.vllm_plugin.checkpoint import BadCheckpoint, TensorEntry

AT = Path("adapter_model.safetensors")
NAME = "base_model.model.model.layers.0.mlp.down_proj"
MODEL = {
    "model.layers.0.mlp.down_proj.weight": TensorEntry((64, 128), "F32", AT),
    "model.norm.weight": TensorEntry((64,), "F32", AT),
}
GOOD = {
    f"{NAME}.lora_A.weight": TensorEntry((4, 128), "F32", AT),
    f"{NAME}.lora_B.weight": TensorEntry((64, 4), "F32", AT),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "adapter_config.json").write_text(json.dumps({"r": 4}))
    return tmp_path


def test_one_that_fits_passes(folder: Path) -> None:
    verify_adapter(folder, GOOD, MODEL)


@pytest.mark.parametrize(
    ("name", "entry", "why"),
    [
        (
            f"{NAME}.lora_A.weight",
            TensorEntry((8, 128), "F32", AT),
            r"shape \(8, 128\), rank 4 and the model need \(4, 128",
        ),
        (
            f"{NAME}.lora_B.weight",
            TensorEntry((32, 4), "F32", AT),
            r"shape \(32, 4\), rank 4 and the model need \(64, 4",
        ),
        (f"{NAME}.lora_A.weight", TensorEntry((4, 128), "I8", AT), "has type I8"),
        ("base_model.model.model.layers.7.mlp.down_proj.lora_A.weight", GOOD[f"{NAME}.lora_A.weight"], "no matrix"),
        ("base_model.model.model.norm.lora_A.weight", TensorEntry((4, 64), "F32", AT), "no matrix of the model"),
        ("lm_head.weight", TensorEntry((64, 128), "F32", AT), "belongs to no matrix"),
    ],
)
def test_what_does_not_fit_is_named(folder: Path, name: str, entry: TensorEntry, why: str) -> None:
    with pytest.raises(BadCheckpoint, match=why):
        verify_adapter(folder, {**GOOD, name: entry}, MODEL)


def test_half_a_pair_is_named(folder: Path) -> None:
    first = f"{NAME}.lora_A.weight"
    with pytest.raises(BadCheckpoint, match=rf"{first} of the adapter has no {NAME}\.lora_B\.weight"):
        verify_adapter(folder, {first: GOOD[first]}, MODEL)


@pytest.mark.parametrize("config", [None, "{}", "no json", '{"r": "many"}'])
def test_a_configuration_without_a_rank_is_told(tmp_path: Path, config: str | None) -> None:
    if config is not None:
        (tmp_path / "adapter_config.json").write_text(config)
    with pytest.raises(BadCheckpoint, match=r"adapter_config\.json of the adapter gives no rank"):
        verify_adapter(tmp_path, GOOD, MODEL)
