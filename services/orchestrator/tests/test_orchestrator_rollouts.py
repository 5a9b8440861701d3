"""The rules of a rollout's life, and of what its end is worth."""

import pytest

from drivetrain.common.events import RolloutRef, RolloutRequested
from drivetrain.common.identity import ROLLOUT_TENANT, RolloutKey, rollout_session, verify_rollout_key
from drivetrain.orchestrator.backends.base import Exit
from drivetrain.orchestrator.declarations import BadDeclaration
from drivetrain.orchestrator.grading import Verdict, crash, ending, verdict
from drivetrain.orchestrator.harnesses import built_in_folder, load_harnesses
from drivetrain.orchestrator.requests import Planner
from drivetrain.orchestrator.rollouts import (
    Ending,
    InvalidTransition,
    Rollout,
    ending_from_signal,
    finished_event,
    outcome_signal,
)
from drivetrain.orchestrator.tasks import Verify

SECRET = b"0123456789abcdef"
REF = RolloutRef(run="r", group="g", rollout="o", group_size=4)
ROLLOUT = Rollout(REF, "p", "s", since=100.0)
HARNESSES = load_harnesses([built_in_folder()])
STATUS = Verify(command="true")
REWARD = Verify(command="true", reward_file="reward.txt")


def ran(status: int = 0, timed_out: bool = False) -> Exit:
    return Exit(status, timed_out, 1.0)


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


@pytest.mark.parametrize(("status", "outcome"), [(0, 1.0), (1, -1.0), (127, -1.0), (-9, None)])
def test_without_a_reward_file_the_status_is_the_outcome(status: int, outcome: float | None) -> None:
    assert verdict(STATUS, ran(status), None, "").outcome == outcome


@pytest.mark.parametrize(
    ("text", "outcome"),
    [("1", 1.0), (" 0.25\n", 0.25), ("0", 0.0), ("nan", None), ("inf", None), ("1.01", None), ("-0.1", None),
     ("good", None), ("", None), (None, None)],
)  # fmt: skip
def test_a_reward_is_kept_as_it_is_or_is_no_evidence(text: str | None, outcome: float | None) -> None:
    found = verdict(REWARD, ran(1), text, "")
    assert found.outcome == outcome
    assert (outcome is None) == ("reward.txt" in found.detail)


def test_a_verifier_that_hangs_says_nothing() -> None:
    assert verdict(STATUS, ran(-15, timed_out=True), None, "") == Verdict(None, "the verifier did not end within 60 s")


def test_a_harness_that_breaks_down_is_a_crash_and_its_last_lines_are_told() -> None:
    found = crash(HARNESSES["mini-swe-agent"], ran(1), "boom")
    assert found == Ending("harness_crash", None, "mini-swe-agent ended with status 1; its last lines: boom")
    assert crash(HARNESSES["command"], ran(1), "") is None
    assert crash(HARNESSES["command"], ran(-11), "") is not None
    assert crash(HARNESSES["mini-swe-agent"], ran(-15, timed_out=True), "") is None


@pytest.mark.parametrize(
    ("timed_out", "outcome", "reason"),
    [(False, 1.0, "success"), (False, 0.9, "failure"), (False, -1.0, "failure"), (False, None, "infrastructure"),
     (True, 1.0, "timeout"), (True, -1.0, "timeout"), (True, None, "infrastructure")],
)  # fmt: skip
def test_the_reason_follows_from_time_and_outcome(timed_out: bool, outcome: float | None, reason: str) -> None:
    found = ending(ran(timed_out=timed_out), Verdict(outcome), 5.0)
    assert (found.reason, found.outcome) == (reason, outcome)


def test_a_plan_holds_a_key_for_this_rollout_alone_that_ends_with_it() -> None:
    plan = Planner("http://proxy:1/", SECRET, HARNESSES).plan(request(), now=1000.0)
    key = verify_rollout_key(SECRET, plan.key, now=1000.0)
    assert (key.rollout, key.policy, plan.timeout_s) == (REF, "p", 30)
    assert key.expires_at == 1000 + 30 + 60
    assert plan.values["proxy_url"] == "http://proxy:1"


def test_the_session_is_the_one_that_the_proxy_derives_from_the_key() -> None:
    planner = Planner("http://proxy", SECRET, HARNESSES)
    key: RolloutKey = verify_rollout_key(SECRET, planner.plan(request(), now=5.0).key, now=5.0)
    assert planner.session(request()) == rollout_session(SECRET, key)


def test_the_shorter_timeout_applies() -> None:
    planner = Planner("http://proxy", SECRET, HARNESSES)
    assert planner.plan(request(timeout_s=7.0), now=0.0).timeout_s == 7
    with pytest.raises(BadDeclaration, match="timeout_s is 0"):
        planner.plan(request(timeout_s=0.0), now=0.0)


def test_an_unknown_harness_is_named_with_the_known_ones() -> None:
    with pytest.raises(BadDeclaration, match="'nano' is unknown: use one of command, mini-swe-agent"):
        Planner("http://proxy", SECRET, HARNESSES).plan(request(harness="nano", command=None), now=0.0)
