"""The main job, shortened: the demo as a person runs it, with every real part, for a few versions."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from drivetrain.cli.demo.result import Result, read_result
from drivetrain.common.bus import connect
from drivetrain.common.events import TurnFollowed, TurnRecorded, TurnScored, WeightsPromoted
from drivetrain.common.settings import BusSettings
from drivetrain.common.tokens import unpack_ids, unpack_logprobs
from tests.servers import free_port, nats_command, running

UPDATES = 2

pytestmark = [pytest.mark.vllm, pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def demo(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Result:
    """The result of one short demo; its run folder keeps the streams."""
    home = tmp_path_factory.mktemp("home")
    command = (
        *(sys.executable, "-m", "drivetrain.cli", "demo", "--model", str(model_folder), "--run-dir", str(home / "run")),
        *("--updates", str(UPDATES), "--heldout", "8", "--minutes", "14", "--port", "0"),
    )
    environment = {**os.environ, "DRIVETRAIN_HOME": str(home)}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=880)
    assert ended.returncode == 0, ended.stdout[-4000:] + ended.stderr[-2000:]
    return read_result(home / "run")


@pytest.fixture(scope="module")
async def events(demo: Result, tmp_path_factory: pytest.TempPathFactory) -> dict[type, list]:  # type: ignore[type-arg]
    """What the demo left on the bus, by kind of event."""
    port, log = free_port(), tmp_path_factory.mktemp("replay") / "log"
    with running(nats_command(port, Path(demo.run_dir) / "nats"), port, log):
        bus = await connect(BusSettings(url=f"nats://127.0.0.1:{port}"))
        found = [
            stored.event
            for stream, subject in (
                ("TURNS", "turn.recorded.>"),
                ("TURNS", "turn.followed.>"),
                ("SCORES", "turn.scored.>"),
                ("WEIGHTS", "weights.promoted.>"),
                ("DEAD", "dead.>"),
            )
            for stored in await bus.last(stream, subject)
        ]
        await bus.close()
    return {kind: [event for event in found if type(event) is kind] for kind in {type(event) for event in found}}


def test_new_versions_went_live_and_nobody_noticed(demo: Result, capsys: pytest.CaptureFixture[str]) -> None:
    assert demo.version >= UPDATES
    assert len(demo.updates) >= UPDATES
    assert (demo.trouble.failed, demo.trouble.cut, demo.trouble.aborted) == (0, 0, 0), demo.trouble.details
    assert demo.held == []
    rewards = [round(update.metrics["reward_mean"], 2) for update in demo.updates]
    shares = f"{demo.before.satisfied.share:.0%} -> {demo.after.satisfied.share:.0%}"
    with capsys.disabled():
        print(f"\nshort demo: held-out {shares}, mean reward by update {rewards}")


def test_every_turn_is_recorded_with_the_tokens_and_versions_of_the_engine(events: dict[type, list]) -> None:  # type: ignore[type-arg]
    turns: list[TurnRecorded] = events[TurnRecorded]
    for turn in turns:
        tokens = len(unpack_ids(turn.response_ids))
        assert turn.exact, turn.inexact_reason
        assert len(unpack_logprobs(turn.logprobs)) == tokens
        assert [turn.versions[0].start, turn.versions[-1].end] == [0, tokens]
        assert all(span.version >= 0 for span in turn.versions)
    latest = sorted(turns, key=lambda turn: turn.finished_at)[-1]
    assert latest.versions[-1].version >= 1


def test_the_versions_of_a_reply_only_go_up(events: dict[type, list]) -> None:  # type: ignore[type-arg]
    for turn in events[TurnRecorded]:
        versions = [span.version for span in turn.versions]
        assert versions == sorted(set(versions))


def test_every_next_state_was_scored_with_evidence(events: dict[type, list]) -> None:  # type: ignore[type-arg]
    followed = {(event.turn, event.n) for event in events[TurnFollowed]}
    scored: dict[tuple[str, int], TurnScored] = {(event.turn, event.n): event for event in events[TurnScored]}
    # The last next states may still have been on their way when the demo ended
    assert len(followed - scored.keys()) <= 8
    assert scored.keys() <= followed
    assert all(vote.evidence for score in scored.values() for vote in score.votes)
    assert any(score.hints for score in scored.values())


def test_each_version_was_promoted_once_in_order(demo: Result, events: dict[type, list]) -> None:  # type: ignore[type-arg]
    promoted: list[WeightsPromoted] = events[WeightsPromoted]
    # One more may have come while the demo ended
    assert len(promoted) >= demo.version
    assert [event.version for event in promoted] == list(range(1, len(promoted) + 1))
