"""The trainer's side of the checkpoint store: weights for serving, and beside them what it takes to go on training.

A checkpoint folder holds `model*.safetensors` (full weights under the model's own names, an adapter merged in) and
`trainer/`: an adapter's own tensors, `state.json` with the position in the stream and the plan of the batch that was
trained, and, in a checkpoint that can be resumed from, the optimiser and the random state. The lineage lies beside the
checkpoints as `lineage.json`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
import torch
from safetensors.torch import save_file
from torch import Tensor

from drivetrain.common.store import BadCheckpoint, CheckpointStore, Manifest, Probe, file_entry
from drivetrain.trainer.batches.position import Interval, Position
from drivetrain.trainer.checkpoints.plan import Plan
from drivetrain.trainer.checkpoints.record import Record
from drivetrain.trainer.checkpoints.tensors import (
    bytes_of,
    load_optimizer,
    load_tensors,
    optimizer_tensors,
    save_shards,
)
from drivetrain.trainer.lineage.lineage import Lineage
from drivetrain.trainer.model.policy import CausalPolicy

OPTIMIZER, TRAINABLE, STATE = "trainer/optimizer.safetensors", "trainer/trainable.safetensors", "trainer/state.json"


class TrainerState(msgspec.Struct, frozen=True):
    """What a checkpoint says about the stream: the sequence numbers that are settled as far as the scores of `judge`
    go, the turns trained not long ago with the optimiser step that did it, and the batch that was trained from the
    parent. `base` are the figures of the lineage's first step, those of the base model's replies."""

    position: list[Interval] = []
    trained: dict[str, int] = {}
    judge: str = "rules"
    batch: Plan | None = None
    base: dict[str, float] = {}


@dataclass(frozen=True)
class Place:
    """Where a version stands: its number, its parent, and the optimiser steps of the lineage up to it. One that is not
    `resumable` is stored without the optimiser, the random state, and weights more exact than those served."""

    version: int
    parent: int
    step: int
    resumable: bool = True


class Checkpoints:
    """The checkpoints of one policy; beside them the lineage as `known`, and the `plan` of the batch under way."""

    def __init__(self, store: CheckpointStore, policy: str, base: str, dtype: torch.dtype) -> None:
        self.store = store
        self.policy = policy
        self._base = base
        self._dtype = dtype
        self.known = Record(store.root / policy / "lineage.json", Lineage)
        self.plan = Record(store.root / policy / "plan.json", Plan)

    def save(
        self,
        model: CausalPolicy,
        optimizer: torch.optim.Optimizer,
        state: TrainerState,
        place: Place,
        probe: Probe,
        metrics: Mapping[str, float],
        now: float,
    ) -> Manifest:
        """Write a complete checkpoint.

        Raises:
            NoSpace: nothing was written.
            OSError: the disk failed; nothing is visible.
        """
        weights = {name: value.to(self._dtype).contiguous() for name, value in model.full_weights().items()}
        extra = {OPTIMIZER: optimizer_tensors(model, optimizer)} if place.resumable else {}
        if model.is_adapter or (place.resumable and not self._serves_what_is_trained(model)):
            extra[TRAINABLE] = {name: value.contiguous() for name, value in model.trainable().items()}
        with self.store.writing(self.policy, place.version, bytes_of(weights, *extra.values())) as folder:
            (folder / "trainer").mkdir()
            for name, tensors in extra.items():
                save_file(tensors, folder / name)
            (folder / STATE).write_bytes(msgspec.json.encode(state))
            files = save_shards(weights, folder)
            manifest = Manifest(
                policy=self.policy,
                version=place.version,
                parent=place.parent,
                base=self._base,
                dtype=str(self._dtype).removeprefix("torch."),
                step=place.step,
                files=[file_entry(file) for file in files],
                probe=probe,
                metrics=dict(metrics),
                trained=_bounds(state.batch),
                created_at=now,
            )
            self.store.commit(folder, manifest)
        return manifest

    def restore(self, version: int, model: CausalPolicy, optimizer: torch.optim.Optimizer) -> None:
        """Make model and optimiser what they were when a resumable checkpoint was written.

        Raises:
            BadCheckpoint: files are missing or damaged.
            BadModel: the checkpoint is of another model.
        """
        self.restore_weights(version, model)
        load_optimizer(model, optimizer, load_tensors(self.store.path(self.policy, version) / OPTIMIZER))

    def restore_weights(self, version: int, model: CausalPolicy) -> None:
        """Make the model what it was, as exactly as the checkpoint says. Raises as `restore`."""
        manifest = self.store.manifest(self.policy, version)
        self.store.verify(manifest)
        folder = self.store.path(self.policy, version)
        served = [file.name for file in manifest.files if file.name.endswith(".safetensors")]
        tensors: dict[str, Tensor] = {}
        for name in [TRAINABLE] if (folder / TRAINABLE).exists() else served:
            tensors |= load_tensors(folder / name)
        model.load_trainable(tensors)

    def resumable(self, version: int) -> bool:
        """Whether a version's optimiser is stored; the base model, version 0, has none yet."""
        return version == 0 or (self.store.path(self.policy, version) / OPTIMIZER).is_file()

    def _serves_what_is_trained(self, model: CausalPolicy) -> bool:
        """Whether the served weights are exactly those in training: not an adapter's merge, nor rounded."""
        return not model.is_adapter and all(p.dtype == self._dtype for p in model.parameters)

    def state(self, version: int) -> TrainerState:
        """The stream state stored with a checkpoint.

        Raises:
            BadCheckpoint: it is missing or damaged.
        """
        file = self.store.path(self.policy, version) / STATE
        try:
            return msgspec.json.decode(file.read_bytes(), type=TrainerState)
        except (OSError, msgspec.DecodeError) as error:
            raise BadCheckpoint(f"{file} cannot be read ({error}): remove that checkpoint") from error

    def position(self, judge: str) -> Position:
        """All that any stored checkpoint settled of a judge's scores, also one that was held: its turns are not trained
        again."""
        settled = Position()
        for version in self.store.versions(self.policy):
            state = self.state(version)
            for low, high in state.position if state.judge == judge else ():
                settled.settle(low, high)
        return settled

    def trained(self) -> dict[str, int]:
        """Turns trained lately, by the step that did it, over all stored checkpoints."""
        return {
            key: step
            for version in self.store.versions(self.policy)
            for key, step in self.state(version).trained.items()
        }

    def lineage(self) -> Lineage:
        """The lineage as stored, with every stored checkpoint in it, also one written just before a crash.

        Raises:
            BadCheckpoint: the file is damaged.
        """
        lineage = self.known.read() or Lineage()
        for version in self.store.versions(self.policy):
            manifest = self.store.manifest(self.policy, version)
            if version not in lineage.versions:
                lineage = lineage.grow(version, manifest.parent, manifest.step)
        return lineage


def _bounds(batch: Plan | None) -> tuple[int, int] | None:
    """The lowest and highest place of a batch in the stream."""
    sequences = batch.sequences if batch else []
    return (min(sequences), max(sequences)) if sequences else None
