"""Making a checkpoint ready beside the requests: what it says meanwhile, and what it hands over."""

import threading
from pathlib import Path

import pytest

from drivetrain.vllm_plugin.checkpoint import BadCheckpoint
from drivetrain.vllm_plugin.staging import Ready, Staging, Wanted, look

ONE, TWO = Wanted(folder="/1"), Wanted(folder="/2")


class Preparing:
    """Prepares what it is told to, when it may; `errors` are raised first."""

    def __init__(self, file: Path) -> None:
        self.file = file
        file.write_bytes(b"weights")
        self.may = threading.Event()
        self.may.set()
        self.asked: list[Wanted] = []
        self.errors: list[Exception] = []

    def __call__(self, wanted: Wanted) -> Ready:
        self.asked.append(wanted)
        assert self.may.wait(10)
        if self.errors:
            raise self.errors.pop(0)
        return Ready(Path(wanted.folder), {}, {"model.safetensors": "ab"}, 7, {self.file: look(self.file)})


@pytest.fixture
def prepare(tmp_path: Path) -> Preparing:
    return Preparing(tmp_path / "model.safetensors")


def settled(staging: Staging) -> dict[str, object]:
    """Its status once it is no longer at work."""
    for thread in threading.enumerate():
        if thread.name == "drivetrain-staging":
            thread.join(10)
    return staging.status()


def test_it_says_how_far_it_is(prepare: Preparing) -> None:
    staging = Staging(prepare)
    assert staging.status() == {"state": "idle"}
    prepare.may.clear()
    staging.begin(ONE)
    assert staging.status() == {"state": "staging"}
    prepare.may.set()
    status = settled(staging)
    assert (status["state"], status["folder"]) == ("ready", "/1")
    assert (status["digests"], status["fetched_bytes"]) == ({"model.safetensors": "ab"}, 7)


def test_what_is_ready_is_not_prepared_again(prepare: Preparing) -> None:
    staging = Staging(prepare)
    staging.begin(ONE)
    settled(staging)
    staging.begin(ONE)
    assert staging.take(ONE).folder == Path("/1")
    assert prepare.asked == [ONE]


@pytest.mark.parametrize(("error", "state"), [(BadCheckpoint("NaN"), "refused"), (OSError("disk"), "failed")])
def test_what_failed_says_whose_fault_it_is_and_is_tried_again(
    prepare: Preparing, error: Exception, state: str
) -> None:
    staging = Staging(prepare)
    prepare.errors.append(error)
    staging.begin(ONE)
    assert settled(staging) == {"state": state, "reason": str(error)}
    staging.begin(ONE)
    assert settled(staging)["state"] == "ready"


def test_a_refused_checkpoint_is_refused_in_the_pause_too(prepare: Preparing) -> None:
    staging = Staging(prepare)
    prepare.errors.append(BadCheckpoint("NaN"))
    staging.begin(ONE)
    with pytest.raises(BadCheckpoint, match="NaN"):
        staging.take(ONE)


def test_another_checkpoint_than_the_staged_one_is_prepared_in_the_pause(prepare: Preparing) -> None:
    staging = Staging(prepare)
    staging.begin(ONE)
    settled(staging)
    assert staging.take(TWO).folder == Path("/2")
    assert prepare.asked == [ONE, TWO]


@pytest.mark.parametrize("meanwhile", ["written", "replaced", "removed"])
def test_a_file_that_was_touched_since_is_checked_again(prepare: Preparing, meanwhile: str) -> None:
    staging = Staging(prepare)
    staging.begin(ONE)
    settled(staging)
    file = prepare.file
    if meanwhile == "written":
        file.write_bytes(b"other weights")
    elif meanwhile == "replaced":
        file.with_suffix(".new").write_bytes(b"weights")
        file.with_suffix(".new").replace(file)
    else:
        file.rename(file.with_suffix(".away"))
        prepare.errors.append(BadCheckpoint("missing"))
    if meanwhile == "removed":
        with pytest.raises(BadCheckpoint, match="missing"):
            staging.take(ONE)
    else:
        staging.take(ONE)
    assert prepare.asked == [ONE, ONE]
