"""A checkpoint on disk, checked completely before anyone loads it.

Only safetensors files are read. Everything that can be known to be wrong is found here, because a load that fails
halfway leaves a model that cannot serve.
"""

import hashlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open

FLOATS = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


class BadCheckpoint(ValueError):
    """A checkpoint that must not be loaded. The message names the file or tensor; the model was not touched."""


@dataclass(frozen=True)
class FileEntry:
    """What the manifest says of one file."""

    sha256: str
    size: int


@dataclass(frozen=True)
class TensorEntry:
    """Shape and safetensors type of one tensor, and the file that holds it."""

    shape: tuple[int, ...]
    dtype: str
    file: Path


def verify_files(folder: Path, files: Mapping[str, FileEntry]) -> list[Path]:
    """Check existence, size and sha256 of every file of a checkpoint.

    Returns: the safetensors files, in name order.
    Raises:
        BadCheckpoint: a file is missing, outside the folder, of another size, or its bytes differ.
    """
    for name, entry in files.items():
        path = folder / name
        if Path(name).name != name:
            raise BadCheckpoint(f"file name {name!r} leaves the checkpoint folder {folder}")
        if not path.is_file():
            raise BadCheckpoint(
                f"{name} is missing in {folder}: is the checkpoint store mounted at that path on the replica?"
            )
        if (size := path.stat().st_size) != entry.size:
            raise BadCheckpoint(f"{name} has {size} bytes, the manifest says {entry.size}: copy it again")
        with path.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
        if digest != entry.sha256:
            raise BadCheckpoint(f"{name} has sha256 {digest}, the manifest says {entry.sha256}: copy it again")
    weights = sorted(folder / name for name in files if name.endswith(".safetensors"))
    if not weights:
        raise BadCheckpoint(f"the manifest of {folder} names no .safetensors file")
    return weights


def catalogue(files: Collection[Path]) -> dict[str, TensorEntry]:
    """Every tensor of some safetensors files, read from their headers alone.

    Raises:
        BadCheckpoint: a file is not safetensors, or two files hold a tensor of the same name.
    """
    tensors: dict[str, TensorEntry] = {}
    for file in files:
        try:
            with safe_open(file, framework="pt") as source:
                for name in source.keys():  # noqa: SIM118 - safe_open is no mapping
                    view = source.get_slice(name)
                    if name in tensors:
                        raise BadCheckpoint(f"tensor {name} is in {tensors[name].file.name} and in {file.name}")
                    tensors[name] = TensorEntry(tuple(view.get_shape()), view.get_dtype(), file)
        except SafetensorError as error:
            raise BadCheckpoint(f"{file.name} is not a safetensors file: {error}") from error
    return tensors


def verify_fit(
    got: Mapping[str, TensorEntry], wanted: Mapping[str, TensorEntry], optional: Collection[str] = ()
) -> None:
    """Check that a checkpoint has exactly the tensors of the model that is served, in the same shapes.

    Any floating type fits (loading casts it); `optional` names tensors that may be absent on either side, such as a
    head that is tied to the embedding.

    Raises:
        BadCheckpoint: names are missing or unknown, a shape differs, or a type is not floating point.
    """
    _verify_names(set(got) - set(optional), set(wanted) - set(optional))
    for name, entry in got.items():
        if name in wanted and entry.shape != wanted[name].shape:
            raise BadCheckpoint(f"tensor {name} has shape {entry.shape}, the model needs {wanted[name].shape}")
        if entry.dtype not in FLOATS:
            raise BadCheckpoint(f"tensor {name} has type {entry.dtype}, allowed are {', '.join(FLOATS)}")


def _verify_names(got: set[str], wanted: set[str]) -> None:
    if missing := sorted(wanted - got):
        raise BadCheckpoint(f"{len(missing)} tensors of the model are missing, the first is {missing[0]}")
    if unknown := sorted(got - wanted):
        raise BadCheckpoint(f"{len(unknown)} tensors are unknown to the model, the first is {unknown[0]}")


def verify_finite(tensors: Mapping[str, TensorEntry]) -> None:
    """Check that no value is NaN or infinite.

    Raises:
        BadCheckpoint: naming the tensor and how many of its values are not finite.
    """
    for name, tensor in read(tensors):
        if not torch.isfinite(tensor.sum()) and (count := int((~torch.isfinite(tensor)).sum())):
            raise BadCheckpoint(f"tensor {name} has {count} values that are NaN or infinite")


def read(tensors: Mapping[str, TensorEntry]) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors, file by file in the order of the headers, so that one layer's parts come together."""
    for file in dict.fromkeys(entry.file for entry in tensors.values()):
        with safe_open(file, framework="pt") as source:
            for name, entry in tensors.items():
                if entry.file == file:
                    yield name, source.get_tensor(name)
