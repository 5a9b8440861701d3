"""The weights benchmark on a tiny model: its shapes are a checkpoint's, and its figures are those of the deltas."""

from pathlib import Path

import pytest
import torch

from benchmarks.weights.deltas import Measured, measure
from benchmarks.weights.run import figures, table
from benchmarks.weights.training import Shape, initial, neighbours

TINY = Shape(layers=2, width=64, feed_forward=128, keys=32, vocabulary=1000)


def test_the_shape_is_the_small_models() -> None:
    sizes = dict(Shape().tensors())
    # As the model's own checkpoint: 272 tensors, 134,515,008 values
    assert len(sizes) == 272
    assert sum(torch.Size(size).numel() for size in sizes.values()) == 134_515_008


@pytest.mark.parametrize(("dtype", "width"), [("bf16", 2), ("fp32", 4)])
def test_one_step_is_stored_and_read_back(tmp_path: Path, dtype: str, width: int) -> None:
    before, after = neighbours(initial(TINY), 1e-5)
    found = measure(before, after, dtype, 1e-5, tmp_path)
    values = sum(value.numel() for value in before.values())
    assert found.full_bytes == pytest.approx(width * values, rel=0.05)
    assert found.delta_bytes < found.full_bytes
    # bfloat16's steps at 0.04 are wider than ten times the learning rate, float32's far smaller than it
    assert (found.changed_share < 0.2) == (dtype == "bf16")


def test_figures_are_named_by_type_and_rate() -> None:
    found = figures([Measured("bf16", 3e-6, 0.01234, 1000, 40, 1.234, 0.5)])
    assert found == {
        "bf16_full_bytes": 1000,
        "bf16_lr_3e-06_delta_bytes": 40,
        "bf16_lr_3e-06_times_smaller": 25.0,
        "bf16_lr_3e-06_changed_share": 0.0123,
        "bf16_lr_3e-06_pack_s": 1.23,
        "bf16_lr_3e-06_apply_s": 0.5,
    }
    assert table([Measured("bf16", 3e-6, 0.01234, 1000, 40, 1.234, 0.5)]).row_count == 1
