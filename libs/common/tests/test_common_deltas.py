"""Deltas: bit for bit, whatever the values; small where little changed; damage is found."""

import hashlib
import io
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from drivetrain.common.store import deltas
from drivetrain.common.store.errors import BadCheckpoint, NotFinite, WrongChecksum
from drivetrain.common.store.shards import apply_delta, by_name, write_delta
from drivetrain.common.store.tensors import Bits, facts_of, read_file

SPECIAL: dict[type[np.unsignedinteger[Any]], list[int]] = {
    # 0.0, -0.0, the smallest denormal of either sign, the largest denormal, one, the largest number, its negative
    np.uint16: [0, 0x8000, 1, 0x8001, 0x007F, 0x3F80, 0x7F7F, 0xFF7F],
    np.uint32: [0, 0x80000000, 1, 0x80000001, 0x007FFFFF, 0x3F800000, 0x7F7FFFFF, 0xFF7FFFFF],
}


@st.composite
def neighbours(draw: st.DrawFn) -> tuple[Bits, Bits]:
    """Two versions of one tensor, from nearly the same to entirely different."""
    kind: type[np.unsignedinteger[Any]] = draw(st.sampled_from(list(SPECIAL)))
    value = st.one_of(st.sampled_from(SPECIAL[kind]), st.integers(0, 256 ** np.dtype(kind).itemsize - 1))
    parent = draw(st.lists(value, max_size=60))
    changes = draw(st.dictionaries(st.integers(0, max(0, len(parent) - 1)), value, max_size=len(parent)))
    child = [changes.get(place, old) for place, old in enumerate(parent)]
    return np.array(parent, kind), np.array(child, kind)


@given(neighbours())
def test_a_change_applied_to_the_parent_is_the_child_bit_for_bit(pair: tuple[Bits, Bits]) -> None:
    parent, child = pair
    again = deltas.apply(deltas.change(parent, child), parent, parent.dtype)
    assert again.dtype == child.dtype
    assert again.tobytes() == child.tobytes()


def test_a_zero_that_changes_its_sign_is_a_change() -> None:
    parent, child = np.zeros(100, np.uint16), np.zeros(100, np.uint16)
    child[7] = 0x8000
    piece = deltas.change(parent, child)
    assert piece.mode == "sparse"
    assert deltas.apply(piece, parent, parent.dtype)[7] == 0x8000


@pytest.mark.parametrize(("share", "mode"), [(0.0, "same"), (0.01, "sparse"), (1.0, "dense")])
def test_the_cheapest_way_is_taken_by_the_share_of_changed_values(share: float, mode: str) -> None:
    chance = np.random.default_rng(0)
    parent = chance.integers(0x3C00, 0x3D00, 10_000, np.uint16)
    child = parent.copy()
    child[: int(share * parent.size)] += 1
    piece = deltas.change(parent, child)
    assert piece.mode == mode
    assert len(piece.gaps) + len(piece.values) < parent.nbytes / 20


def test_what_has_nothing_in_common_is_kept_whole() -> None:
    parent = np.random.default_rng(0).integers(0, 1 << 32, 1000, np.uint32)
    piece = deltas.change(parent, np.full(1000, 5, np.uint32))
    assert piece.mode == "whole"


@pytest.mark.parametrize(
    ("piece", "message"),
    [
        (deltas.Piece("same", 5), "5 values is applied to 3"),
        (deltas.Piece("dense", 3, values=b"no zstd"), "cannot be unpacked"),
        (deltas.Piece("dense", 3, values=deltas.whole(np.zeros(2, np.uint16)).values), "4 bytes where 3 values"),
        (
            deltas.Piece(
                "sparse",
                3,
                deltas.whole(np.array([3], np.uint32)).values,
                deltas.whole(np.array([1], np.uint16)).values,
            ),
            "a change at 3 of 3 values",
        ),
    ],
)
def test_a_piece_that_does_not_fit_is_refused(piece: deltas.Piece, message: str) -> None:
    with pytest.raises(deltas.BadPiece, match=message):
        deltas.apply(piece, np.zeros(3, np.uint16), np.dtype(np.uint16))


def save(file: Path, tensors: Mapping[str, torch.Tensor]) -> Path:
    save_file(dict(tensors), file, metadata={"format": "pt"})
    return file


def tensors_of(file: Path) -> dict[str, Bits]:
    return {tensor.name: tensor.bits() for tensor in read_file(file).tensors}


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """A file with tensors of many kinds, and its child: one changed, one resized, one new, one retyped."""
    torch.manual_seed(0)
    parent: dict[str, torch.Tensor] = {
        "same": torch.randn(3, 5),
        "stepped": torch.randn(100, dtype=torch.bfloat16),
        "half": torch.randn(7, 2, dtype=torch.float16),
        "ids": torch.arange(5),
        "empty": torch.zeros(0, 4),
        "resized": torch.randn(4),
        "retyped": torch.randn(4),
    }
    child = {name: tensor.clone() for name, tensor in parent.items()}
    child["stepped"][3] += 0.1
    child["half"][1] = -0.0
    child["resized"] = torch.randn(9)
    child["retyped"] = child["retyped"].to(torch.float16)
    child["new"] = torch.randn(3)
    return save(tmp_path / "parent.safetensors", parent), save(tmp_path / "child.safetensors", child)


def test_a_file_comes_back_byte_for_byte(pair: tuple[Path, Path], tmp_path: Path) -> None:
    parent, child = (read_file(file) for file in pair)
    delta = tmp_path / "delta"
    with delta.open("wb") as out:
        write_delta(child, by_name({"parent": parent}), out)
    wanted = pair[1].read_bytes()
    apply_delta(delta, by_name({"parent": parent}), tmp_path / "again", hashlib.sha256(wanted).hexdigest())
    assert (tmp_path / "again").read_bytes() == wanted


def test_a_delta_on_other_tensors_than_its_parents_is_found(pair: tuple[Path, Path], tmp_path: Path) -> None:
    child = read_file(pair[1])
    with (tmp_path / "delta").open("wb") as out:
        write_delta(child, by_name({"parent": read_file(pair[0])}), out)
    other = save(tmp_path / "other", {"same": torch.zeros(3, 5), "stepped": torch.zeros(100, dtype=torch.bfloat16)})
    with pytest.raises(WrongChecksum, match=r"does not fit its parent|checksum"):
        apply_delta(tmp_path / "delta", by_name({"other": read_file(other)}), tmp_path / "again", "0" * 64)


@pytest.mark.parametrize("cut", [4, 12, 40, -3])
def test_a_damaged_delta_is_found(pair: tuple[Path, Path], tmp_path: Path, cut: int) -> None:
    parent, out = by_name({"parent": read_file(pair[0])}), io.BytesIO()
    write_delta(read_file(pair[1]), parent, out)
    (tmp_path / "delta").write_bytes(out.getvalue()[:cut])
    with pytest.raises(WrongChecksum):
        apply_delta(tmp_path / "delta", parent, tmp_path / "again", "0" * 64)


def test_values_are_read_as_torch_wrote_them(pair: tuple[Path, Path]) -> None:
    for name, tensor in load_file(pair[0]).items():
        assert tensors_of(pair[0])[name].tobytes() == tensor.contiguous().view(torch.uint8).numpy().tobytes()


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        (torch.float32, float("nan")),
        (torch.bfloat16, float("nan")),
        (torch.float16, float("inf")),
        (torch.bfloat16, float("-inf")),
    ],
)
def test_values_that_are_no_numbers_are_refused_by_tensor(tmp_path: Path, dtype: torch.dtype, value: float) -> None:
    tensor = torch.zeros(4, dtype=dtype)
    tensor[2] = value
    file = read_file(save(tmp_path / "f", {"good": torch.ones(2), "bad": tensor}))
    with pytest.raises(NotFinite, match="tensor bad has 1 values"):
        facts_of(by_name({"f": file}))


@pytest.mark.parametrize("payload", [1, 0x1234, 0x3FFFFF])
def test_a_nan_of_any_payload_is_refused(tmp_path: Path, payload: int) -> None:
    bits = struct.unpack("<f", struct.pack("<I", 0x7F800000 | payload))[0]
    file = save(tmp_path / "f", {"t": torch.tensor([bits])})
    with pytest.raises(NotFinite):
        facts_of(by_name({"f": read_file(file)}))


def test_the_largest_numbers_and_denormals_are_finite(tmp_path: Path) -> None:
    bits = torch.tensor([0x7F7F, 0x0001, -0x8000, 0x007F], dtype=torch.int16).view(torch.bfloat16)
    assert facts_of(by_name({"f": read_file(save(tmp_path / "f", {"t": bits}))}))["t"].dtype == "BF16"


HEADER = msgspec.json.encode({"t": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}})


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"short",
        struct.pack("<Q", 1 << 40) + b"{}",
        struct.pack("<Q", 2) + b"[]",
        struct.pack("<Q", 2) + b"{}" + b"trailing",
        struct.pack("<Q", len(HEADER)) + HEADER + b"123",
        struct.pack("<Q", len(HEADER)) + HEADER + b"12345",
        struct.pack("<Q", len(HEADER)) + HEADER.replace(b"[1]", b"[2]") + b"1234",
    ],
)
def test_what_is_no_safetensors_file_is_refused_by_name(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(BadCheckpoint, match=r"model\.safetensors is not a safetensors file"):
        read_file(tmp_path / "model.safetensors")


def test_a_tensor_in_two_files_is_refused(tmp_path: Path) -> None:
    file = read_file(save(tmp_path / "f", {"t": torch.ones(1)}))
    with pytest.raises(BadCheckpoint, match="tensor t is in b and in another file"):
        by_name({"a": file, "b": file})
