"""Every way in which a checkpoint can be wrong is found before a model is touched."""

import hashlib
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from drivetrain.vllm_plugin.checkpoint import (
    BadCheckpoint,
    FileEntry,
    TensorEntry,
    catalogue,
    read,
    verify_files,
    verify_finite,
    verify_fit,
)

FIT = {"norm": torch.ones(4), "up": torch.full((3, 4), 0.5)}


def entry(file: Path) -> FileEntry:
    return FileEntry(hashlib.sha256(file.read_bytes()).hexdigest(), file.stat().st_size)


def stored(folder: Path, tensors: dict[str, torch.Tensor], name: str = "model.safetensors") -> dict[str, TensorEntry]:
    save_file(tensors, folder / name)
    return catalogue([folder / name])


@pytest.fixture
def files(tmp_path: Path) -> dict[str, FileEntry]:
    """A good checkpoint: one file of weights, one of configuration."""
    save_file(FIT, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text("{}")
    return {file.name: entry(file) for file in tmp_path.iterdir()}


def test_a_good_checkpoint_gives_its_weight_files(tmp_path: Path, files: dict[str, FileEntry]) -> None:
    assert verify_files(tmp_path, files) == [tmp_path / "model.safetensors"]


def test_a_missing_file_is_named_with_its_folder(tmp_path: Path, files: dict[str, FileEntry]) -> None:
    (tmp_path / "config.json").unlink()
    with pytest.raises(BadCheckpoint, match=r"config\.json is missing in .*: is the checkpoint store mounted"):
        verify_files(tmp_path, files)


def test_a_file_cut_short_is_found_by_its_size(tmp_path: Path, files: dict[str, FileEntry]) -> None:
    file = tmp_path / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-4])
    with pytest.raises(BadCheckpoint, match=r"model\.safetensors has \d+ bytes, the manifest says"):
        verify_files(tmp_path, files)


def test_one_changed_byte_is_found_by_the_checksum(tmp_path: Path, files: dict[str, FileEntry]) -> None:
    file = tmp_path / "model.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with pytest.raises(BadCheckpoint, match="has sha256"):
        verify_files(tmp_path, files)


@pytest.mark.parametrize("name", ["../model.safetensors", "/etc/passwd", "a/model.safetensors"])
def test_a_name_that_leaves_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadCheckpoint, match="leaves the checkpoint folder"):
        verify_files(tmp_path, {name: FileEntry("0" * 64, 1)})


def test_a_checkpoint_without_weights_is_refused(tmp_path: Path, files: dict[str, FileEntry]) -> None:
    with pytest.raises(BadCheckpoint, match=r"names no \.safetensors file"):
        verify_files(tmp_path, {"config.json": files["config.json"]})


def test_the_catalogue_holds_shapes_and_types(tmp_path: Path) -> None:
    tensors = stored(tmp_path, {"a": torch.zeros(2, 3, dtype=torch.bfloat16), "b": torch.zeros(5)})
    assert {name: (t.shape, t.dtype) for name, t in tensors.items()} == {"a": ((2, 3), "BF16"), "b": ((5,), "F32")}


def test_a_file_that_is_no_safetensors_is_named(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"\xff" * 64)
    with pytest.raises(BadCheckpoint, match=r"model\.safetensors is not a safetensors file"):
        catalogue([tmp_path / "model.safetensors"])


def test_a_tensor_in_two_files_is_named(tmp_path: Path) -> None:
    for name in ("1.safetensors", "2.safetensors"):
        save_file({"twice": torch.zeros(1)}, tmp_path / name)
    with pytest.raises(BadCheckpoint, match=r"twice is in 1\.safetensors and in 2\.safetensors"):
        catalogue([tmp_path / "1.safetensors", tmp_path / "2.safetensors"])


def test_the_same_tensors_in_another_floating_type_fit(tmp_path: Path) -> None:
    (tmp_path / "half").mkdir()
    half = stored(tmp_path / "half", {name: tensor.half() for name, tensor in FIT.items()})
    verify_fit(half, stored(tmp_path, FIT))


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({"norm": torch.ones(4)}, "1 tensors of the model are missing, the first is up"),
        ({**FIT, "extra": torch.ones(1)}, "1 tensors are unknown to the model, the first is extra"),
        ({**FIT, "up": torch.ones(4, 4)}, r"up has shape \(4, 4\), the model needs \(3, 4\)"),
        ({**FIT, "norm": torch.ones(4, dtype=torch.int64)}, "norm has type I64"),
    ],
)
def test_tensors_that_do_not_fit_are_named(tmp_path: Path, tensors: dict[str, torch.Tensor], message: str) -> None:
    (tmp_path / "model").mkdir()
    with pytest.raises(BadCheckpoint, match=message):
        verify_fit(stored(tmp_path, tensors), stored(tmp_path / "model", FIT))


@pytest.mark.parametrize("with_head", [True, False])
def test_a_tied_head_may_be_there_or_not(tmp_path: Path, with_head: bool) -> None:
    head = {"lm_head.weight": torch.ones(2, 2)}
    (tmp_path / "model").mkdir()
    got = stored(tmp_path, {**FIT, **(head if with_head else {})})
    wanted = stored(tmp_path / "model", {**FIT, **({} if with_head else head)})
    verify_fit(got, wanted, optional=["lm_head.weight"])


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_one_value_that_is_not_finite_is_found(tmp_path: Path, value: float) -> None:
    broken = FIT["up"].clone()
    broken[2, 3] = value
    with pytest.raises(BadCheckpoint, match="up has 1 values that are NaN or infinite"):
        verify_finite(stored(tmp_path, {**FIT, "up": broken}))


def test_large_finite_values_are_no_fault_though_their_sum_overflows(tmp_path: Path) -> None:
    verify_finite(stored(tmp_path, {"a": torch.full((4,), 3e38)}))


def test_reading_gives_every_tensor_of_every_file(tmp_path: Path) -> None:
    save_file({"a": torch.tensor([1.0])}, tmp_path / "1.safetensors")
    save_file({"b": torch.tensor([2.0])}, tmp_path / "2.safetensors")
    tensors = catalogue([tmp_path / "1.safetensors", tmp_path / "2.safetensors"])
    assert [(name, tensor.item()) for name, tensor in read(tensors)] == [("a", 1.0), ("b", 2.0)]
