"""`drivetrain weights` on a folder as archive and a real JetStream."""

import asyncio
import json
import uuid
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from drivetrain.cli.app import app
from drivetrain.cli.errors import CliError
from drivetrain.cli.versions import descendants
from drivetrain.common.bus.base import Bus, Consumer
from drivetrain.common.bus.nats import connect
from drivetrain.common.events import Event, WeightsCandidate, WeightsHeld, WeightsPromoted, WeightsRolledback
from drivetrain.common.settings import BusSettings
from drivetrain.common.store import CheckpointStore
from drivetrain.common.store.archive import Archive
from drivetrain.common.store.blobs import open_blobs
from drivetrain.common.store.lives import Lives
from tests.stores import stepped, weights, write_checkpoint


class Shelf:
    """An archive with five versions of a policy of its own: 1 and 2 served, 3 serves, 4 was held, 5 is new."""

    def __init__(self, folder: Path, nats: str) -> None:
        self.policy = f"cli-{uuid.uuid4().hex[:8]}"
        self.url, self.nats, self.folder = (folder / "archive").as_uri(), nats, folder
        asyncio.run(self._fill())

    async def _fill(self) -> None:
        local = CheckpointStore(self.folder / "local")
        archive = Archive(open_blobs(self.url), self.policy, self.folder / "cache")
        tensors = weights()
        at: dict[str, Any] = {"policy": self.policy}
        for version in range(1, 6):
            parent = version - 1 if version < 5 else 3
            manifest = write_checkpoint(local, version, parent, tensors, metrics={"loss": 1.0 / version}, **at)
            await archive.add(manifest, local.path(self.policy, version), 100.0 * version)
            tensors = stepped(tensors, seed=version)
        await self.publish([self.candidate(version, version - 1) for version in (1, 2, 3, 4)])
        await self.publish([WeightsPromoted(**at, version=version, replicas=["r"], at=0.0) for version in (1, 2, 3)])
        await self.publish([WeightsHeld(**at, version=4, reason="probe off", at=0.0), self.candidate(5, 3)])

    def candidate(self, version: int, parent: int) -> Event:
        return WeightsCandidate(policy=self.policy, version=version, parent=parent, digest="d", step=version, at=0.0)

    async def publish(self, events: Sequence[Event]) -> None:
        bus = await connect(BusSettings(url=self.nats))
        for event in events:
            await bus.publish(event)
        await bus.close()

    def run(self, command: str, *arguments: str) -> str:
        """The command's output."""
        options = ["--policy", self.policy]
        options += ["--archive", self.url] if command != "rollback" else []
        options += ["--bus", self.nats] if command in ("list", "show", "gc", "rollback") else []
        result = CliRunner().invoke(app, ["weights", command, *arguments, *options], catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return result.output

    def listed(self) -> dict[int, dict[str, Any]]:
        lines = self.run("list", "--json").splitlines()
        return {row["version"]: row for row in map(json.loads, lines)}


@pytest.fixture
def shelf(tmp_path: Path, nats_url: str, home: Path) -> Shelf:
    return Shelf(tmp_path, nats_url)


def test_versions_are_listed_with_what_became_of_them(shelf: Shelf) -> None:
    listed = shelf.listed()
    assert [row["state"] for row in listed.values()] == ["promoted", "promoted", "serves", "held", "candidate"]
    assert [row["kind"] for row in listed.values()] == ["full", "delta", "delta", "delta", "delta"]
    assert (listed[4]["reason"], listed[4]["pinned"], listed[5]["parent"]) == ("probe off", False, 3)
    assert listed[2]["stored_bytes"] < listed[2]["full_bytes"] / 5


def test_the_table_has_every_version(shelf: Shelf) -> None:
    shelf.run("pin", "4")
    table = shelf.run("list")
    assert all(word in table for word in ("version", "state", "stored", "serves", "held, pinned", "delta", "0.0 MB"))


def test_a_version_is_shown_whole(shelf: Shelf) -> None:
    shown = json.loads(shelf.run("show", "2", "--json"))
    assert shown["record"]["checkpoint"]["metrics"] == {"loss": 0.5}
    assert shown["record"]["tensors"]["norm"]["shape"] == [20]
    text = shelf.run("show", "2")
    assert all(line in text for line in ("state: promoted", "loss: 0.5", "tensors: 2", "base: base"))


def test_two_versions_are_compared_by_tensor(shelf: Shelf) -> None:
    found = json.loads(shelf.run("diff", "1", "3", "--json"))
    # 4,000 values of two bytes
    assert (found["changed"], found["same"], found["changed_bytes"], found["steps"]) == (["matrix"], 1, 8000, 2)
    assert found["metrics"]["loss"] == [1.0, pytest.approx(1 / 3)]
    assert "1 tensors changed (0.0 MB), 1 same" in shelf.run("diff", "1", "2")


def test_a_pin_keeps_a_version_through_a_collection(shelf: Shelf) -> None:
    assert shelf.run("pin", "2") == "Pinned 2.\n"
    assert shelf.listed()[2]["pinned"]
    would = json.loads(shelf.run("gc", "--keep", "1", "--dry-run", "--json"))
    # 5 is the newest and a delta of 3, which serves and is a delta of 2, of 1
    assert would["versions"] == [4]
    assert 4 in shelf.listed()
    assert "Removed versions: 4; 1 blobs" in shelf.run("gc", "--keep", "1")
    assert list(shelf.listed()) == [1, 2, 3, 5]
    assert json.loads(shelf.run("unpin", "2", "--json")) == {"version": 2, "pinned": False}
    assert not shelf.listed()[2]["pinned"]


def test_a_collection_without_limits_removes_no_version(shelf: Shelf) -> None:
    assert json.loads(shelf.run("gc", "--json")) == {"versions": [], "blobs": 0, "bytes": 0}


@pytest.mark.parametrize("command", [["show", "9"], ["diff", "1", "9"], ["pin", "9"]])
def test_a_version_that_is_not_there_is_told_with_those_that_are(shelf: Shelf, command: list[str]) -> None:
    with pytest.raises(CliError, match=rf"{shelf.policy}@9 is not in the archive .* Stored versions: 1, 2, 3, 4, 5"):
        shelf.run(*command)


def answering(shelf: Shelf, act: Callable[[Bus, Any], Awaitable[None]], *arguments: str) -> str:
    """`rollback` while a weights service answers the request as `act` does."""

    async def both() -> str:
        bus = await connect(BusSettings(url=shelf.nats))
        subject = f"weights.rollback.{shelf.policy}.>"
        async with bus.consume(Consumer("WEIGHTS", f"weights-{shelf.policy}-rollback", (subject,))) as requests:
            asked = asyncio.create_task(asyncio.to_thread(shelf.run, "rollback", *arguments))
            (delivery,) = await requests.fetch(1, 20)
            await act(bus, delivery)
            output = await asyncio.gather(asked, return_exceptions=True)
        await bus.close()
        if isinstance(output[0], BaseException):
            raise output[0]
        return output[0]

    return asyncio.run(both())


def test_a_rollback_waits_for_the_decision(shelf: Shelf) -> None:
    async def decide(bus: Bus, delivery: Any) -> None:
        asked = delivery.event
        for version in (3, 2):
            event = WeightsRolledback(
                policy=asked.policy, version=version, to=asked.version, reason=asked.reason, at=0.0
            )
            await bus.publish(event)
        await delivery.ack()

    output = answering(shelf, decide, "1", "--reason", "too short", "--json")
    assert json.loads(output) == {"policy": shelf.policy, "version": 1, "withdrawn": [3, 2]}
    listed = shelf.listed()
    assert (listed[1]["state"], listed[3]["state"], listed[3]["reason"]) == ("serves", "rolledback", "too short")


def test_a_rollback_that_is_refused_ends_with_the_services_reason(shelf: Shelf) -> None:
    with pytest.raises(CliError, match="the weights service refused: main@1 was collected"):
        answering(shelf, lambda bus, delivery: delivery.dead("main@1 was collected"), "1", "--reason", "x")


def test_a_rollback_to_what_serves_is_refused_at_once(shelf: Shelf) -> None:
    with pytest.raises(CliError, match=f"{shelf.policy}@3 serves already"):
        shelf.run("rollback", "3", "--reason", "x")


def test_a_rollback_that_nobody_answers_says_so(shelf: Shelf) -> None:
    with pytest.raises(CliError, match=r"not decided within 0.3 s: does it run"):
        shelf.run("rollback", "1", "--reason", "x", "--timeout", "0.3")


def test_an_archive_must_be_named(home: Path) -> None:
    with pytest.raises(CliError, match="DRIVETRAIN_WEIGHTS_ARCHIVE__URL"):
        CliRunner().invoke(app, ["weights", "diff", "1", "2", "--policy", "p"], catch_exceptions=False)


def test_an_archive_that_is_no_store_is_refused(home: Path) -> None:
    arguments = ["weights", "diff", "1", "2", "--policy", "p", "--archive", "/folder"]
    with pytest.raises(CliError, match="'/folder' names no store: write it like file:///folder"):
        CliRunner().invoke(app, arguments, catch_exceptions=False)


def test_who_descends_from_whom_is_read_from_the_announcements() -> None:
    lives = Lives()
    for version, parent in ((1, 0), (2, 1), (5, 2)):
        for event in (
            WeightsCandidate(policy="p", version=version, parent=parent, digest="d", step=1, at=0.0),
            WeightsPromoted(policy="p", version=version, replicas=[], at=0.0),
        ):
            lives = lives.follow(event)
    assert [descendants(lives, to) for to in (0, 1, 2, 3, 5)] == [[5, 2, 1], [5, 2], [5], [], []]
