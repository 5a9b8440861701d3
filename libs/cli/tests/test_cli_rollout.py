"""`drivetrain rollout` on a real bus: what it says of rollouts, and how it ends them."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from typer.testing import CliRunner

from drivetrain.cli.app import app
from drivetrain.cli.errors import CliError
from drivetrain.common.bus.nats import connect
from drivetrain.common.events import (
    Event,
    RolloutCancel,
    RolloutFinished,
    RolloutMoved,
    RolloutRef,
    RolloutRequested,
    RolloutState,
)
from drivetrain.common.settings import BusSettings


def ref(run: str, rollout: str) -> RolloutRef:
    return RolloutRef(run=run, group="g", rollout=rollout, group_size=3)


def requested(run: str, rollout: str) -> RolloutRequested:
    return RolloutRequested(rollout=ref(run, rollout), policy="p", task={}, timeout_s=1.0, at=1.0)


def moved(run: str, rollout: str, attempt: int, state: RolloutState, detail: str = "") -> RolloutMoved:
    where = ref(run, rollout)
    return RolloutMoved(rollout=where, policy="p", session="s", attempt=attempt, state=state, detail=detail, at=2.0)


def finished(run: str, rollout: str) -> RolloutFinished:
    where = ref(run, rollout)
    return RolloutFinished(
        rollout=where, policy="p", session="s", reason="failure", outcome=-0.5, log="last words", seconds=3.25, at=4.0
    )


@pytest.fixture
def run(nats_url: str) -> str:
    """A run of three: one finished at its second attempt, one that waits for its second, one that nobody took up."""
    name = f"run{uuid4().hex[:8]}"
    events: list[Event] = [requested(name, rollout) for rollout in "123"]
    events += [moved(name, "1", 1, "starting"), moved(name, "1", 1, "waiting", "no node"), finished(name, "1")]
    events += [
        moved(name, "2", 1, "starting"),
        moved(name, "2", 1, "running"),
        moved(name, "2", 1, "waiting", "no node"),
    ]
    asyncio.run(publish(nats_url, events))
    return name


async def publish(url: str, events: list[Event]) -> None:
    bus = await connect(BusSettings(url=url))
    for event in events:
        await bus.publish(event)
    await bus.close()


async def cancelled(url: str, run: str) -> dict[str, str]:
    bus = await connect(BusSettings(url=url))
    found = [stored.event for stored in await bus.last("ROLLOUTS", f"rollout.cancel.{run}.*")]
    await bus.close()
    return {event.rollout.rollout: event.detail for event in found if isinstance(event, RolloutCancel)}


def rollout(url: str, *arguments: str) -> str:
    result = CliRunner().invoke(app, ["rollout", *arguments, "--bus", url], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def listed(url: str, *arguments: str) -> dict[str, dict[str, Any]]:
    rows = [json.loads(line) for line in rollout(url, "list", *arguments, "--json").splitlines()]
    return {row["rollout"]: row for row in rows}


def test_each_rollout_stands_where_its_last_event_says(nats_url: str, run: str) -> None:
    rows = listed(nats_url, run)
    assert {name: (row["state"], row["attempt"], row["detail"]) for name, row in rows.items()} == {
        "1": ("finished", 1, ""),
        "2": ("waiting", 1, "no node"),
        "3": ("requested", 1, ""),
    }
    assert (rows["1"]["reason"], rows["1"]["outcome"], rows["1"]["seconds"]) == ("failure", -0.5, 3.25)
    assert set(listed(nats_url, run, "--unfinished")) == {"2", "3"}
    assert set(listed(nats_url)) >= {"1", "2", "3"}
    table = rollout(nats_url, "list", run)
    assert "failure" in table
    assert "-0.50" in table


def test_the_log_of_a_finished_rollout_is_printed(nats_url: str, run: str) -> None:
    assert rollout(nats_url, "logs", run, "1") == "last words\n"
    with pytest.raises(CliError, match=f"rollout 2 of run {run} has not finished"):
        rollout(nats_url, "logs", run, "2")


def test_what_has_not_ended_is_cancelled_and_only_that(nats_url: str, run: str) -> None:
    assert rollout(nats_url, "cancel", run, "2", "--why", "enough") == "Cancelled 1.\n"
    assert asyncio.run(cancelled(nats_url, run)) == {"2": "enough"}
    assert rollout(nats_url, "cancel", run) == "Cancelled 2.\n"
    assert asyncio.run(cancelled(nats_url, run)) == {"2": "enough", "3": ""}


def test_what_is_not_there_is_said(nats_url: str, run: str) -> None:
    with pytest.raises(CliError, match="has no rollout 9"):
        rollout(nats_url, "cancel", run, "9")
    with pytest.raises(CliError, match="there is no run nothing"):
        rollout(nats_url, "cancel", "nothing")
    assert "No rollouts." in rollout(nats_url, "list", "nothing")


def test_collecting_removes_what_a_dead_orchestrator_left(tmp_path: Path) -> None:
    left = tmp_path / "work/leases/r.1.1"
    left.mkdir(parents=True)
    sleeper = subprocess.Popen(["sleep", "600"], env={"DRIVETRAIN_LEASE": str(left)})
    own = {"WORK_FOLDER": str(tmp_path / "work"), "SECRET": "a secret of this test alone"}
    environment = os.environ | {f"DRIVETRAIN_ORCHESTRATOR_{name}": value for name, value in own.items()}
    command = [sys.executable, "-m", "drivetrain.cli", "rollout", "gc"]
    told = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=60)
    assert told.stdout.splitlines()[-1] == "Ended 1 processes or pods."
    assert sleeper.wait(5) == -9
    assert not left.exists()
