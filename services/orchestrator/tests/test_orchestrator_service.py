"""Requests in, outcomes out: each rollout runs once and ends once, whatever happens in between."""

import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from drivetrain.common.bus.memory import MemoryBus
from drivetrain.common.events import (
    DeadLetter,
    RolloutStarted,
)
from drivetrain.common.identity import rollout_session, verify_rollout_key
from drivetrain.orchestrator.work_folder import FolderInUse, claimed
from tests.orchestrating import LIMIT_S, SECRET, Service, ended, serving, until


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    async with serving(Service(MemoryBus(), tmp_path)) as running:
        yield running


async def test_a_success_is_told_as_started_outcome_and_finished(service: Service) -> None:
    await service.request("cat seed.txt > out.txt", files={"seed.txt": "7"}, verify={"command": "grep -qx 7 out.txt"})
    done = await service.finished()
    started = await service.started()
    signal = await service.signal()
    assert (done.reason, done.outcome, done.rollout.group_size) == ("success", 1.0, 2)
    assert (signal.kind, signal.value, signal.reason, signal.rollout) == ("outcome", 1.0, "success", done.rollout)
    assert started.session == signal.session == done.session
    assert 0 < done.seconds < LIMIT_S


async def test_a_failed_verifier_is_a_failure_whatever_the_command_said(service: Service) -> None:
    await service.request("true", verify={"command": "test -e out.txt"})
    done = await service.finished()
    assert (done.reason, done.outcome) == ("failure", -1.0)
    assert (await service.signal()).value == -1.0


async def test_the_harness_holds_a_key_whose_session_is_the_rollouts(service: Service, tmp_path: Path) -> None:
    told = tmp_path / "told.txt"
    await service.request(f'echo "$OPENAI_API_KEY $OPENAI_BASE_URL $OPENAI_MODEL $TASK_INSTRUCTION" > {told}')
    done = await service.finished()
    key, url, model, instruction = told.read_text().strip().split(" ", 3)
    verified = verify_rollout_key(SECRET, key, time.time())
    assert verified.rollout == done.rollout
    assert rollout_session(SECRET, verified) == done.session
    assert (url, model, instruction) == ("http://proxy:1/v1", "p", "make it")


async def test_the_agent_sees_no_tests_and_what_it_puts_in_their_place_does_not_count(service: Service) -> None:
    await service.request(
        'test -z "$(ls "$TEST_DIR")" && echo "exit 0" > "$TEST_DIR/check.sh"',
        verify={"command": 'sh "$TEST_DIR/check.sh"', "files": {"check.sh": "test -e check.sh && exit 0; exit 1"}},
    )
    assert (await service.finished()).reason == "failure"


async def test_an_agent_that_deletes_everything_is_graded_all_the_same(service: Service) -> None:
    files = {"kept.txt": "1"}
    verify = {"command": 'sh "$TEST_DIR/check.sh"', "files": {"check.sh": "test -e kept.txt"}}
    await service.request('rm -rf "$WORK_DIR" "$TEST_DIR" "$LOGS_DIR" .', files=files, verify=verify)
    done = await service.finished()
    assert (done.reason, done.outcome, done.fault) == ("failure", -1.0, None)


async def test_a_reward_counts_as_written_and_the_agents_own_is_thrown_away(service: Service) -> None:
    write = 'echo {} > "$LOGS_DIR/verifier/reward.txt"'
    await service.request(write.format(1), rollout="forged", verify={"command": "true", "reward": "file"})
    await service.request("true", rollout="graded", verify={"command": write.format(0.25), "reward": "file"})
    none, quarter = await service.finished("forged"), await service.finished("graded")
    assert (none.reason, none.outcome, none.fault) == ("infrastructure", None, "no_reward")
    assert "wrote no logs/verifier/reward.txt" in none.detail
    assert (quarter.reason, quarter.outcome, quarter.rewards) == ("failure", -0.5, {"reward": 0.25})


async def test_an_agent_that_leaves_too_much_is_no_evidence_and_leaves_nothing(
    service: Service, tmp_path: Path
) -> None:
    await service.request("truncate -s 1500M huge", rollout="wide")
    await service.request("for i in $(seq 120); do mkdir d && cd d; done", rollout="deep")
    wide, deep = await service.finished("wide"), await service.finished("deep")
    assert (wide.reason, wide.outcome, deep.reason, deep.outcome) == ("harness_crash", None) * 2
    assert wide.detail == "command left more than 1024 MiB in its work folder"
    assert deep.detail == "command left folders more than 100 deep in its work folder"
    assert list((tmp_path / "leases").iterdir()) == []


async def test_rollouts_that_are_ranked_end_without_an_outcome_of_their_own(service: Service) -> None:
    await service.request("echo work > done.txt", verify=None, ranked=True)
    done = await service.finished()
    assert (done.reason, done.outcome, done.fault, done.detail) == ("success", None, None, "")


async def test_only_declared_artifacts_join_a_clean_start(service: Service) -> None:
    check = "test -s out/a.txt && test ! -e b.txt && test ! -e none && grep -qx given seed.txt && grep -qx set up.txt"
    await service.request(
        "mkdir out; echo 1 > out/a.txt; echo 1 > b.txt; echo mine > seed.txt; echo mine > up.txt",
        files={"seed.txt": "given"},
        setup="echo set > up.txt",
        artifacts=["out/a.txt", "none"],
        verify={"command": check},
    )
    assert (await service.finished()).reason == "success"


async def test_what_a_task_needs_is_there_or_said(service: Service) -> None:
    await service.request("grep -q up up.txt", setup="echo up > up.txt", needs=["grep"], rollout="ready")
    await service.request("true", needs=["sh", "no-such-program"], rollout="lacking")
    await service.request("true", setup="echo trouble; exit 3", rollout="broken")
    assert (await service.finished("ready")).reason == "success"
    lacking, broken = await service.finished("lacking"), await service.finished("broken")
    assert (lacking.reason, lacking.outcome) == (broken.reason, broken.outcome) == ("infrastructure", None)
    assert "this task needs no-such-program, which is not in /usr/local/bin" in lacking.detail
    assert broken.detail == "the setup of t ended with status 3; its last lines: trouble"


async def test_a_service_is_ready_before_the_harness_and_ends_with_it(service: Service, tmp_path: Path) -> None:
    script = (
        f'echo here > address.txt; echo $$ > {tmp_path / "pid"}; echo ready; cat "$SERVICE_DIR/end"; exec sleep 600'
    )
    await service.request("grep -qx here address.txt", service={"command": script, "files": {"end": "x"}})
    assert (await service.finished()).reason == "success"
    assert ended(int((tmp_path / "pid").read_text()))


async def test_a_service_that_does_not_start_is_no_outcome(service: Service) -> None:
    await service.request("touch ran", service={"command": "echo trouble >&2; exit 1"}, verify={"command": "true"})
    done = await service.finished()
    assert (done.reason, done.outcome) == ("infrastructure", None)
    assert done.detail == "the task's service did not start; its last lines: trouble"


async def test_a_task_that_needs_a_container_or_its_places_is_not_run_here(service: Service) -> None:
    await service.request("true", container_only=["it sets agent.user"], rollout="image")
    await service.request("cp /tests/x y", rollout="places")
    image, places = await service.finished("image"), await service.finished("places")
    assert (image.reason, image.detail) == ("cancelled", "t needs a container: it sets agent.user")
    assert places.reason == "cancelled"
    assert "t names /tests, and this backend has no such place" in places.detail


async def test_a_timeout_keeps_and_grades_the_work_so_far(service: Service) -> None:
    await service.request("echo 7 > out.txt; sleep 600", timeout_s=0.5, verify={"command": "grep -qx 7 out.txt"})
    done = await service.finished()
    assert (done.reason, done.outcome) == ("timeout", 1.0)
    assert "did not end within 0.5 s" in done.detail


async def test_a_stubborn_harness_that_leaves_grandchildren_ends_too(service: Service, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    script = (
        "import os, signal, subprocess, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        f"child = subprocess.Popen(['setsid', 'sleep', '600']); open({str(pids)!r}, 'w').write(str(child.pid));"
        "time.sleep(600)"
    )
    await service.request(f'{sys.executable} -c "{script}"', timeout_s=1.5)
    assert (await service.finished()).reason == "timeout"
    assert ended(int(pids.read_text()))


async def test_a_harness_that_is_not_installed_is_a_crash_that_says_what_to_do(service: Service) -> None:
    await service.request(None, harness="mini-swe-agent")
    done = await service.finished()
    assert (done.reason, done.outcome) == ("harness_crash", None)
    assert done.detail.startswith("mini was not found in /usr/local/bin:/usr/bin:/bin: install mini-swe-agent 2.4.6")


async def test_a_crash_tells_the_last_lines_without_the_key(service: Service) -> None:
    await service.request("echo key $OPENAI_API_KEY; kill -SEGV $$")
    done = await service.finished()
    assert done.reason == "harness_crash"
    assert done.detail == "command was killed by signal 11; its last lines: key <key>"


async def test_a_verifier_that_hangs_is_no_outcome(service: Service) -> None:
    await service.request("true", verify={"command": "sleep 600", "timeout_s": 0.2})
    done = await service.finished()
    assert (done.reason, done.outcome, done.fault) == ("infrastructure", None, "hung")
    assert done.detail == "the verifier did not end within 0.2 s"


async def test_a_bad_task_is_cancelled_with_the_key_and_the_rest_goes_on(service: Service) -> None:
    await service.request("true", rollout="bad", verfy={})
    await service.request("true", rollout="good")
    bad = await service.finished("bad")
    assert (bad.reason, bad.outcome) == ("cancelled", None)
    assert "unknown key verfy" in bad.detail
    assert (await service.finished("good")).reason == "success"
    assert await service.one("rollout.started.r.bad", RolloutStarted) is None


async def test_never_more_than_the_ceiling_run_and_nothing_is_left(service: Service, tmp_path: Path) -> None:
    log = tmp_path / "log"
    for number in range(6):
        await service.request(f"echo + >> {log}; sleep 0.1; echo - >> {log}", rollout=f"o{number}")
    assert {(await service.finished(f"o{number}")).reason for number in range(6)} == {"success"}
    running = peak = 0
    for line in log.read_text().split():
        running += 1 if line == "+" else -1
        peak = max(peak, running)
    assert peak == 2
    assert list((tmp_path / "leases").iterdir()) == list((tmp_path / "staging").iterdir()) == []


async def test_a_redelivered_request_is_not_run_again(tmp_path: Path) -> None:
    bus, count = MemoryBus(), tmp_path / "count"
    async with serving(Service(bus, tmp_path / "a")) as first:
        await first.request(f"echo ran >> {count}")
        await first.finished()
    bus._states.clear()  # the server forgets its consumers: everything is delivered anew
    async with serving(Service(bus, tmp_path / "b")) as second:
        await second.request("true", rollout="next")
        await second.finished("next")
    assert count.read_text() == "ran\n"


async def test_a_broken_request_is_dead_lettered_and_the_next_one_runs(service: Service) -> None:
    service.bus.store("ROLLOUTS", "rollout.requested.r.broken", b"\x81\xa1v\x01")
    await service.request("true")
    await service.finished()
    dead = await service.bus.last("DEAD", "dead.>")
    assert [stored.subject for stored in dead] == ["dead.ROLLOUTS.orchestrator"]


@pytest.mark.parametrize("rollout", ["../../out", "*", "a b", ""])
async def test_a_name_that_is_no_name_is_dead_lettered_before_it_names_a_folder(service: Service, rollout: str) -> None:
    await service.request("true", rollout=rollout)
    await service.request("true", rollout="next")
    assert (await service.finished("next")).reason == "success"
    (dead,) = await service.bus.last("DEAD", "dead.>")
    assert isinstance(dead.event, DeadLetter)
    assert dead.event.reason.startswith(f"the request's rollout is {rollout!r}: use 1 to 64 letters")


async def test_a_request_of_a_newer_schema_stops_the_intake_and_stays(tmp_path: Path) -> None:
    service = Service(MemoryBus(), tmp_path)
    async with serving(service):
        await service.request("true", rollout="old")
        await service.finished("old")
        service.bus.store("ROLLOUTS", "rollout.requested.r.new", b"\x81\xa1v\x09")
        assert await until(lambda: halted(service))
    assert await service.bus.last("DEAD", "dead.>") == []


async def halted(service: Service) -> Service | None:
    return None if service.orchestrator.serving else service


def test_a_second_orchestrator_on_the_same_folder_is_refused(tmp_path: Path) -> None:
    with claimed(tmp_path), pytest.raises(FolderInUse, match="set another work_folder"), claimed(tmp_path):
        pass
    with claimed(tmp_path):
        pass
