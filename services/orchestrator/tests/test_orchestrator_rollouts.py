"""The rules of a rollout's life, and of what its end is worth."""

import pytest

from drivetrain.common.declarations import BadDeclaration
from drivetrain.common.events import RolloutRef, RolloutRequested
from drivetrain.common.events.rollouts import VerifierFault
from drivetrain.common.harnesses import load_harnesses
from drivetrain.common.identity import ROLLOUT_TENANT, RolloutKey, rollout_session, verify_rollout_key
from drivetrain.common.tasks import Verify
from drivetrain.orchestrator.backends.base import Exit
from drivetrain.orchestrator.lifecycle.rollouts import (
    Ending,
    InvalidTransition,
    Rollout,
    ending_from_signal,
    finished_event,
    outcome_signal,
)
from drivetrain.orchestrator.running.grading import MAX_REWARD_BYTES, Verdict, Work, crash, ending, verdict
from drivetrain.orchestrator.running.requests import Planner

SECRET = b"0123456789abcdef"
REF = RolloutRef(run="r", group="g", rollout="o", group_size=4)
ROLLOUT = Rollout(REF, "p", "s", since=100.0)
HARNESSES = load_harnesses()
STATUS = Verify(command="true")
REWARD = Verify(command="true", reward="file")


def ran(status: int = 0, timed_out: bool = False) -> Exit:
    return Exit(status, timed_out, 1.0)


def worked(harness: str, exit_: Exit, log: str = "") -> Work:
    return Work(HARNESSES[harness], exit_, log, 5.0)


def request(timeout_s: float = 50.0, **task: object) -> RolloutRequested:
    data = {"name": "t", "instruction": "i", "command": "c", "timeout_s": 30, "verify": {"command": "true"}, **task}
    return RolloutRequested(rollout=REF, policy="p", task=data, timeout_s=timeout_s, at=0.0)


def test_a_rollout_goes_through_its_states_in_order() -> None:
    done = ROLLOUT.to("starting").to("running").to("grading").finish(Ending("success", 1.0))
    assert done.state == "finished"
    assert done.ending == Ending("success", 1.0)


def test_no_state_is_skipped_repeated_or_left_after_the_end() -> None:
    with pytest.raises(InvalidTransition, match="requested cannot become running"):
        ROLLOUT.to("running")
    with pytest.raises(InvalidTransition):
        ROLLOUT.to("starting").to("starting")
    done = ROLLOUT.finish(Ending("cancelled"))
    with pytest.raises(InvalidTransition, match="finished already"):
        done.finish(Ending("success"))


def test_the_outcome_is_told_as_a_signal_of_the_rollouts_session() -> None:
    signal = outcome_signal(ROLLOUT, Ending("failure", -1.0, "why"), now=107.0)
    assert signal.subject() == "signal.outcome.0.p.s.o"
    assert (signal.tenant, signal.value, signal.reason, signal.rollout) == (ROLLOUT_TENANT, -1.0, "failure", REF)
    assert ending_from_signal(signal) == Ending("failure", -1.0, "why")


def test_the_end_says_how_long_it_took() -> None:
    assert finished_event(ROLLOUT, Ending("timeout", -1.0), now=107.5).seconds == 7.5


@pytest.mark.parametrize(("status", "reward"), [(0, 1.0), (1, 0.0), (127, 0.0)])
def test_the_status_is_the_reward_where_nothing_is_written(status: int, reward: float) -> None:
    found = verdict(STATUS, ran(status), {}, "")
    assert (found.rewards, found.fault, found.outcome) == ({"reward": reward}, None, 2 * reward - 1)


@pytest.mark.parametrize(("text", "outcome"), [("1", 1.0), (" 0.25\n", -0.5), ("0", -1.0), ("1e-1", -0.8)])
def test_a_number_is_kept_as_it_is_and_scaled_to_the_outcome(text: str, outcome: float) -> None:
    found = verdict(REWARD, ran(1), {"reward.txt": text.encode()}, "")
    assert found.rewards == {"reward": float(text)}
    assert found.outcome == pytest.approx(outcome)


def test_named_scores_are_kept_beside_the_reward() -> None:
    written = {"reward.json": b'{"reward": 0.5, "tests": 3, "style": -1.5}', "reward.txt": b"1"}
    found = verdict(REWARD, ran(0), written, "")
    assert found.rewards == {"reward": 0.5, "tests": 3.0, "style": -1.5}
    assert found.outcome == 0.0
    assert verdict(REWARD, ran(0), {"reward.json": b'{"accuracy": 0.75}'}, "").rewards == {
        "reward": 0.75,
        "accuracy": 0.75,
    }


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("reward.txt", "nan", "reward is nan, not a number"),
        ("reward.txt", "inf", "reward is inf, not a number"),
        ("reward.txt", "1.01", "reward is 1.01, not a number from 0 to 1"),
        ("reward.txt", "-0.1", "reward is -0.1"),
        ("reward.txt", "good", "holds 'good', not a number from 0 to 1"),
        ("reward.txt", "", "holds ''"),
        ("reward.txt", "\0\xff", "not a number"),
        ("reward.json", "{", "holds '{', not JSON"),
        ("reward.json", "[" * 60_000, "not JSON"),
        ("reward.json", "{}", "not an object of numbers"),
        ("reward.json", "1", "not an object of numbers"),
        ("reward.json", '{"reward": NaN}', "reward is nan"),
        ("reward.json", '{"reward": true}', "reward is True"),
        ("reward.json", '{"reward": {"a": 1}}', "reward is {'a': 1}"),
        ("reward.json", '{"a": 1, "b": 0}', "has the scores a, b, and none is named 'reward'"),
    ],
)
def test_what_is_no_reward_is_a_fault_and_no_outcome(name: str, text: str, told: str) -> None:
    found = verdict(REWARD, ran(0), {name: text.encode("latin-1")}, "")
    assert (found.fault, found.outcome, found.rewards) == ("bad_reward", None, {})
    assert told in found.detail


@pytest.mark.parametrize(
    ("exit_", "written", "fault", "told"),
    [
        (Exit(-15, True, 60.0), {"reward.txt": b"1"}, "hung", "did not end within 60 s"),
        (Exit(-9, False, 1.0), {"reward.txt": b"1"}, "killed", "killed by signal 9; its last lines: LOG"),
        (Exit(137, False, 1.0), {"reward.txt": b"1"}, "killed", "killed by signal 9"),
        (Exit(0, False, 1.0), {}, "no_reward", "wrote no logs/verifier/reward.txt or logs/verifier/reward.json"),
        (Exit(0, False, 1.0), {"reward.txt": b"1" * (MAX_REWARD_BYTES + 1)}, "too_large", "more than 65536 bytes"),
    ],
)
def test_a_verifier_that_fails_says_why_and_nothing_else(
    exit_: Exit, written: dict[str, bytes], fault: VerifierFault, told: str
) -> None:
    found = verdict(REWARD, exit_, written, "LOG")
    assert (found.fault, found.outcome) == (fault, None)
    assert told in found.detail
    ended = ending(worked("command", ran()), found)
    assert (ended.reason, ended.outcome, ended.fault) == ("infrastructure", None, fault)


def test_a_harness_that_breaks_down_is_a_crash_and_its_last_lines_are_told() -> None:
    found = crash(worked("mini-swe-agent", ran(1), "boom"))
    assert found == Ending(
        "harness_crash", None, "mini-swe-agent ended with status 1; its last lines: boom", log="boom"
    )
    assert crash(worked("command", ran(1))) is None
    assert crash(worked("command", ran(-11))) is not None
    assert crash(worked("mini-swe-agent", ran(-15, timed_out=True))) is None


def test_a_limit_of_the_sandbox_is_named() -> None:
    found = crash(worked("mini-swe-agent", Exit(-9, False, 1.0, ("memory",)), "last words"))
    assert found is not None
    assert found.detail == "mini-swe-agent ran into its limit of memory; its last lines: last words"
    assert crash(worked("command", Exit(0, False, 1.0, ("processes",)))) is None
    full = crash(worked("command", Exit(0, False, 1.0, ("disk",))))
    assert full is not None
    assert full.reason == "harness_crash"


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        ("BadRequestError: ... 'code': 'context_length_exceeded'", "context_overflow"),
        ("API Error: 400 prompt is too long: 9012 tokens > 8192 maximum", "context_overflow"),
        ("the prompt is too long for my taste", "harness_crash"),
    ],
)
def test_a_full_context_is_told_from_a_crash(log: str, reason: str) -> None:
    work = worked("mini-swe-agent", ran(1), log)
    found = crash(work) or ending(work, Verdict({"reward": 0.5}))
    assert (found.reason, found.outcome) == (reason, 0.0 if reason == "context_overflow" else None)


@pytest.mark.parametrize(
    ("timed_out", "reward", "reason"),
    [(False, 1.0, "success"), (False, 0.9, "failure"), (False, 0.0, "failure"), (True, 1.0, "timeout")],
)
def test_the_reason_follows_from_time_and_reward(timed_out: bool, reward: float, reason: str) -> None:
    found = ending(worked("command", ran(timed_out=timed_out)), Verdict({"reward": reward, "part": 0.5}))
    assert (found.reason, found.outcome) == (reason, 2 * reward - 1)
    assert found.rewards == {"reward": reward, "part": 0.5}


def test_rewards_and_fault_are_told_with_the_end_and_survive_a_crash() -> None:
    end = Ending("infrastructure", None, "why", {"reward": 0.5}, "hung")
    assert ending_from_signal(outcome_signal(ROLLOUT, end, now=1.0)) == end
    done = finished_event(ROLLOUT, end, now=1.0)
    assert (done.rewards, done.fault) == ({"reward": 0.5}, "hung")


def test_a_plan_holds_a_key_for_this_rollout_alone_that_ends_with_it() -> None:
    plan = Planner("http://proxy:1/", SECRET, HARNESSES).plan(request(), now=1000.0)
    key = verify_rollout_key(SECRET, str(plan.values["key"]), now=1000.0)
    assert (key.rollout, key.policy, plan.timeout_s) == (REF, "p", 30)
    assert key.expires_at == 1000 + 30 + 60
    assert plan.access.url == "http://proxy:1"


def test_the_session_is_the_one_that_the_proxy_derives_from_the_key() -> None:
    planner = Planner("http://proxy", SECRET, HARNESSES)
    key: RolloutKey = verify_rollout_key(SECRET, planner.plan(request(), now=5.0).values["key"], now=5.0)
    assert planner.session(request()) == rollout_session(SECRET, key)


def test_the_shorter_timeout_applies() -> None:
    planner = Planner("http://proxy", SECRET, HARNESSES)
    assert planner.plan(request(timeout_s=7.0), now=0.0).timeout_s == 7
    with pytest.raises(BadDeclaration, match="timeout_s is 0"):
        planner.plan(request(timeout_s=0.0), now=0.0)


def test_an_unknown_harness_is_named_with_the_known_ones() -> None:
    with pytest.raises(BadDeclaration, match=r"'nano' is unknown: use one of aider, .*command, .*pi, "):
        Planner("http://proxy", SECRET, HARNESSES).plan(request(harness="nano", command=None), now=0.0)


def test_a_task_needs_a_harness_or_a_command_and_not_both() -> None:
    planner = Planner("http://proxy", SECRET, HARNESSES)
    with pytest.raises(BadDeclaration, match="name a harness, or give a command"):
        planner.plan(request(command=None), now=0.0)
    with pytest.raises(BadDeclaration, match="command belongs to the harness 'command'"):
        planner.plan(request(harness="mini-swe-agent"), now=0.0)
