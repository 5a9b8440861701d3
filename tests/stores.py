"""Stores and checkpoints for tests: values in memory, a store that dies, small checkpoints of real tensors."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch
from safetensors.torch import save_file

from drivetrain.common.store import CheckpointStore, Manifest, Probe, file_entry
from drivetrain.common.store.blobs import Blobs, Entry
from drivetrain.common.store.errors import Absent, Unavailable


class MemoryBlobs:
    """A store in memory, with a clock of its own. The contract suite runs on it too."""

    url = "memory:"

    def __init__(self, clock: Callable[[], float] = lambda: 2e9) -> None:
        self.values: dict[str, tuple[bytes, float]] = {}
        self.clock = clock

    async def put(self, key: str, value: bytes | Path) -> None:
        data = value if isinstance(value, bytes) else await asyncio.to_thread(value.read_bytes)
        self.values[key] = (data, self.clock())

    async def read(self, key: str) -> bytes:
        if key not in self.values:
            raise Absent(f"there is no {key} in {self.url}")
        return self.values[key][0]

    async def fetch(self, key: str, target: Path) -> None:
        await asyncio.to_thread(target.write_bytes, await self.read(key))

    async def entries(self, prefix: str) -> list[Entry]:
        items = sorted(self.values.items())
        return [Entry(key, len(value), at) for key, (value, at) in items if key.startswith(prefix)]

    async def delete(self, key: str) -> None:
        self.values.pop(key, None)

    async def close(self) -> None:
        """Nothing is open."""


@dataclass
class Dying:
    """A store that is gone after so many writes, as after the death of the process or of the store."""

    blobs: Blobs
    writes_left: int
    url: str = field(init=False)

    def __post_init__(self) -> None:
        self.url = self.blobs.url
        self.read, self.fetch, self.entries = self.blobs.read, self.blobs.fetch, self.blobs.entries
        self.close = self.blobs.close

    async def put(self, key: str, value: bytes | Path) -> None:
        self._spend()
        await self.blobs.put(key, value)

    async def delete(self, key: str) -> None:
        self._spend()
        await self.blobs.delete(key)

    def _spend(self) -> None:
        if not self.writes_left:
            raise Unavailable(f"{self.url} died")
        self.writes_left -= 1


Tensors = Mapping[str, torch.Tensor]


def write_checkpoint(store: CheckpointStore, version: int, parent: int, *shards: Tensors, **fields: object) -> Manifest:
    """A checkpoint in a local folder, one file for each of `shards`; keywords replace fields, as policy `p`."""
    with store.writing(str(fields.get("policy", "p")), version, 0) as folder:
        files = [folder / f"model-{number}.safetensors" for number in range(len(shards))]
        for file, tensors in zip(files, shards, strict=True):
            save_file(dict(tensors), file, metadata={"format": "pt"})
        given: dict[str, object] = {
            "policy": "p",
            "version": version,
            "parent": parent,
            "base": "base",
            "dtype": "bfloat16",
            "step": version,
            "files": [file_entry(file) for file in files],
            "probe": Probe([1, 2], [-0.5]),
            "created_at": 0.0,
        }
        manifest = Manifest(**{**given, **fields})  # type: ignore[arg-type]
        store.commit(folder, manifest)
    return manifest


def weights(seed: int = 0, count: int = 4000) -> dict[str, torch.Tensor]:
    """Two tensors as a model has them."""
    chance = torch.Generator().manual_seed(seed)
    matrix = (0.02 * torch.randn(count // 20, 20, generator=chance)).to(torch.bfloat16)
    return {"matrix": matrix, "norm": torch.ones(20, dtype=torch.bfloat16)}


def stepped(tensors: Tensors, places: int = 30, seed: int = 1) -> dict[str, torch.Tensor]:
    """The next version: a few values of the matrix moved by one step."""
    bits = tensors["matrix"].clone().view(torch.int16).flatten()
    chosen = torch.randperm(bits.numel(), generator=torch.Generator().manual_seed(seed))[:places]
    bits[chosen] += 1
    return {**tensors, "matrix": bits.view(torch.bfloat16).reshape(tensors["matrix"].shape)}
