"""Checkpoints: what a replica needs is in them, and training goes on from them exactly."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from drivetrain.common.store import BadCheckpoint, CheckpointStore, NoSpace, Probe
from drivetrain.trainer.batches.position import Position
from drivetrain.trainer.checkpoints import tensors as module
from drivetrain.trainer.checkpoints.checkpoints import Checkpoints, Place, TrainerState
from drivetrain.trainer.checkpoints.plan import Entry, Plan
from drivetrain.trainer.lineage.lineage import Lineage
from drivetrain.trainer.model.policy import BadModel, CausalPolicy, Lora, load_policy
from drivetrain.trainer.model.scoring import sequence_logprobs

PROBE = [3, 4, 5, 6, 7]


def nudge(policy: CausalPolicy, optimizer: torch.optim.Optimizer) -> None:
    """One deterministic step of training."""
    loss = sum((p**2).sum() for p in policy.parameters)
    assert isinstance(loss, torch.Tensor)
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    optimizer.zero_grad()


class Bench:
    """A model in training with its store."""

    def __init__(self, folder: Path, root: Path, lora: Lora | None = None, dtype: torch.dtype = torch.float32) -> None:
        self.policy = load_policy(str(folder), torch.float32, lora, anchored=True)
        self.optimizer = torch.optim.AdamW(self.policy.parameters, lr=1e-3, fused=True)
        self.checkpoints = Checkpoints(CheckpointStore(root), "demo", str(folder), dtype)

    def save(self, version: int, parent: int = 0, state: TrainerState = TrainerState(), resumable: bool = True) -> None:  # noqa: B008
        place = Place(version, parent, version, resumable)
        probe = Probe(PROBE, self.policy.probe(PROBE))
        self.checkpoints.save(self.policy, self.optimizer, state, place, probe, {"kl": 0.5}, 12.0)


@pytest.mark.parametrize("lora", [None, Lora(4, 8.0)])
def test_the_files_are_the_models_own_and_answer_the_probe(
    model_folder: Path, tmp_path: Path, lora: Lora | None
) -> None:
    bench = Bench(model_folder, tmp_path, lora)
    nudge(bench.policy, bench.optimizer)
    bench.save(1)
    manifest = bench.checkpoints.store.manifest("demo", 1)
    bench.checkpoints.store.verify(manifest)
    weights = load_file(tmp_path / "demo/00000001/model.safetensors")
    assert weights.keys() == load_file(model_folder / "model.safetensors").keys()
    served = AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.float32)
    served.load_state_dict(weights, strict=False)
    served.tie_weights()
    assert sequence_logprobs(served, PROBE) == pytest.approx(manifest.probe.logprobs, abs=1e-4)
    assert (manifest.kind, manifest.dtype, manifest.step, manifest.metrics) == ("full", "float32", 1, {"kl": 0.5})


def test_the_manifest_says_which_scores_were_trained(model_folder: Path, tmp_path: Path) -> None:
    bench = Bench(model_folder, tmp_path)
    bench.save(1)
    batch = Plan(1, "rules", [[Entry(7, "b")], [Entry(3, "a"), Entry(5, "c")]])
    bench.save(2, parent=1, state=TrainerState(batch=batch))
    found = [bench.checkpoints.store.manifest("demo", version).trained for version in (1, 2)]
    assert found == [None, (3, 7)]
    assert bench.checkpoints.state(2).batch == batch


@pytest.mark.parametrize("lora", [None, Lora(4, 8.0)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_training_goes_on_exactly_where_it_was(
    model_folder: Path, tmp_path: Path, lora: Lora | None, dtype: torch.dtype
) -> None:
    first = Bench(model_folder, tmp_path, lora, dtype)
    nudge(first.policy, first.optimizer)
    first.save(1)
    nudge(first.policy, first.optimizer)
    second = Bench(model_folder, tmp_path, lora, dtype)
    second.checkpoints.restore(1, second.policy, second.optimizer)
    nudge(second.policy, second.optimizer)
    assert all(torch.equal(a, b) for a, b in zip(first.policy.parameters, second.policy.parameters, strict=True))


def test_a_large_model_is_written_in_shards(
    model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SHARD", 20_000)
    bench = Bench(model_folder, tmp_path)
    bench.save(1)
    names = [entry.name for entry in bench.checkpoints.store.manifest("demo", 1).files]
    assert "model.safetensors.index.json" in names
    assert len(names) > 2
    bench.checkpoints.restore(1, bench.policy, bench.optimizer)


def test_the_state_of_the_stream_comes_back(model_folder: Path, tmp_path: Path) -> None:
    bench = Bench(model_folder, tmp_path)
    bench.save(1, state=TrainerState([(1, 4)], {"s/a": 1}))
    bench.save(2, parent=1, state=TrainerState([(1, 6), (9, 9)], {"s/b": 2}))
    bench.save(3, parent=2, state=TrainerState([(1, 20)], {"s/c": 3}, judge="other"))
    assert bench.checkpoints.position("rules").intervals == [(1, 6), (9, 9)]
    assert bench.checkpoints.position("other").intervals == [(1, 20)]
    assert bench.checkpoints.trained() == {"s/a": 1, "s/b": 2, "s/c": 3}


def test_an_empty_store_has_settled_nothing(model_folder: Path, tmp_path: Path) -> None:
    bench = Bench(model_folder, tmp_path)
    assert bench.checkpoints.position("rules").intervals == Position().intervals
    assert bench.checkpoints.lineage() == Lineage()


def test_a_checkpoint_written_just_before_a_crash_joins_the_lineage(model_folder: Path, tmp_path: Path) -> None:
    bench = Bench(model_folder, tmp_path)
    bench.save(1)
    bench.checkpoints.known.write(bench.checkpoints.lineage().promote(1))
    bench.save(2, parent=1)
    lineage = bench.checkpoints.lineage()
    assert (lineage.head, lineage.promoted, lineage.step, lineage.next_version) == (2, 1, 2, 3)


def test_no_room_leaves_nothing_behind(model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(model_folder, tmp_path)
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("Usage", (), {"free": 10}))
    with pytest.raises(NoSpace, match="free space"):
        bench.save(1)
    assert bench.checkpoints.store.versions("demo") == []


def test_a_damaged_checkpoint_is_refused(model_folder: Path, tmp_path: Path) -> None:
    bench = Bench(model_folder, tmp_path)
    bench.save(1)
    file = tmp_path / "demo/00000001/model.safetensors"
    file.write_bytes(file.read_bytes()[:-8] + b"damaged!")
    with pytest.raises(BadCheckpoint, match="checksum"):
        bench.checkpoints.restore(1, bench.policy, bench.optimizer)


def test_a_damaged_lineage_says_what_to_do(model_folder: Path, tmp_path: Path) -> None:
    bench = Bench(model_folder, tmp_path)
    bench.checkpoints.known.write(Lineage())
    (tmp_path / "demo/lineage.json").write_text("{")
    with pytest.raises(BadCheckpoint, match="move it away"):
        bench.checkpoints.lineage()


def test_an_adapter_does_not_load_into_full_weights(model_folder: Path, tmp_path: Path) -> None:
    Bench(model_folder, tmp_path, Lora(4, 8.0), torch.bfloat16).save(1)
    other = Bench(model_folder, tmp_path, None, torch.bfloat16)
    with pytest.raises(BadModel, match="lora"):
        other.checkpoints.restore(1, other.policy, other.optimizer)
