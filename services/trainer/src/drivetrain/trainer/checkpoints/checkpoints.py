"""The trainer's side of the checkpoint store: weights for serving, and beside them what it takes to go on training.

A checkpoint folder holds `model*.safetensors` (full weights under the model's own names, an adapter merged in) and
`trainer/`: the optimiser, the random state, an adapter's own tensors, and `state.json` with the position in the
stream. The lineage lies beside the checkpoints as `lineage.json`.
"""

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec
import torch
from safetensors.torch import save_file
from torch import Tensor

from drivetrain.common.store import BadCheckpoint, CheckpointStore, Manifest, Probe, file_entry
from drivetrain.trainer.batches.position import Interval, Position
from drivetrain.trainer.checkpoints.plan import Plan
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
    go, and the turns trained not long ago with the optimiser step that did it."""

    position: list[Interval] = []
    trained: dict[str, int] = {}
    judge: str = "rules"


class Checkpoints:
    """The checkpoints of one policy."""

    def __init__(self, store: CheckpointStore, policy: str, base: str, dtype: torch.dtype) -> None:
        self.store = store
        self.policy = policy
        self._base = base
        self._dtype = dtype
        self._lineage_file = store.root / policy / "lineage.json"
        self._plan_file = store.root / policy / "plan.json"

    def save(
        self,
        model: CausalPolicy,
        optimizer: torch.optim.Optimizer,
        state: TrainerState,
        place: tuple[int, int, int],
        probe: Probe,
        metrics: Mapping[str, float],
        now: float,
    ) -> Manifest:
        """Write a complete checkpoint; `place` is its (version, parent, step).

        Raises:
            NoSpace: nothing was written.
            OSError: the disk failed; nothing is visible.
        """
        version, parent, step = place
        weights = {name: value.to(self._dtype).contiguous() for name, value in model.full_weights().items()}
        extra = {OPTIMIZER: optimizer_tensors(model, optimizer)}
        if not self._resumes_from_weights(model):
            extra[TRAINABLE] = {name: value.contiguous() for name, value in model.trainable().items()}
        with self.store.writing(self.policy, version, bytes_of(weights, *extra.values())) as folder:
            (folder / "trainer").mkdir()
            for name, tensors in extra.items():
                save_file(tensors, folder / name)
            (folder / STATE).write_bytes(msgspec.json.encode(state))
            files = save_shards(weights, folder)
            manifest = Manifest(
                policy=self.policy,
                version=version,
                parent=parent,
                base=self._base,
                dtype=str(self._dtype).removeprefix("torch."),
                step=step,
                files=[file_entry(file) for file in files],
                probe=probe,
                metrics=dict(metrics),
                trained=self._trained_since(parent),
                created_at=now,
            )
            self.store.commit(folder, manifest)
        return manifest

    def _trained_since(self, parent: int) -> tuple[int, int] | None:
        """The lowest and highest place of the batch that is being trained from `parent`, as its plan says."""
        plan = self.read_plan()
        sequences = plan.sequences if plan and plan.parent == parent else []
        return (min(sequences), max(sequences)) if sequences else None

    def restore(self, version: int, model: CausalPolicy, optimizer: torch.optim.Optimizer) -> None:
        """Make model and optimiser what they were when a checkpoint was written.

        Raises:
            BadCheckpoint: files are missing or damaged.
            BadModel: the checkpoint is of another model.
        """
        manifest = self.store.manifest(self.policy, version)
        self.store.verify(manifest)
        folder = self.store.path(self.policy, version)
        served = [file.name for file in manifest.files if file.name.endswith(".safetensors")]
        names = served if self._resumes_from_weights(model) else [TRAINABLE]
        tensors: dict[str, Tensor] = {}
        for name in names:
            tensors |= load_tensors(folder / name)
        model.load_trainable(tensors)
        load_optimizer(model, optimizer, load_tensors(folder / OPTIMIZER))

    def _resumes_from_weights(self, model: CausalPolicy) -> bool:
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

    def read_lineage(self) -> Lineage:
        """The lineage as stored, with every stored checkpoint in it, also one written just before a crash.

        Raises:
            BadCheckpoint: the file is damaged.
        """
        try:
            lineage = msgspec.json.decode(self._lineage_file.read_bytes(), type=Lineage)
        except FileNotFoundError:
            lineage = Lineage()
        except msgspec.DecodeError as error:
            raise BadCheckpoint(f"{self._lineage_file} cannot be read ({error}): move it away") from error
        for version in self.store.versions(self.policy):
            manifest = self.store.manifest(self.policy, version)
            if version not in lineage.versions:
                lineage = lineage.grow(version, manifest.parent, manifest.step)
        return lineage

    def write_lineage(self, lineage: Lineage) -> None:
        """Replace the stored lineage, at once or not at all."""
        _replace(self._lineage_file, lineage)

    def write_plan(self, plan: Plan) -> None:
        """Replace the stored plan, at once or not at all.

        Raises:
            OSError: the disk failed.
        """
        _replace(self._plan_file, plan)

    def read_plan(self) -> Plan | None:
        """The batch that was under way last, None if there never was one.

        Raises:
            BadCheckpoint: the file is damaged.
        """
        try:
            return msgspec.json.decode(self._plan_file.read_bytes(), type=Plan)
        except FileNotFoundError:
            return None
        except msgspec.DecodeError as error:
            raise BadCheckpoint(f"{self._plan_file} cannot be read ({error}): move it away") from error


def _replace(file: Path, value: msgspec.Struct) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    fresh = file.with_suffix(".writing")
    with fresh.open("wb") as stream:
        stream.write(msgspec.json.encode(value))
        stream.flush()
        os.fsync(stream.fileno())
    fresh.replace(file)
