"""From what a harness and a verifier left behind to the ending of a rollout. Pure rules."""

import math
from dataclasses import dataclass

from drivetrain.orchestrator.backends.base import Exit
from drivetrain.orchestrator.harnesses import Harness
from drivetrain.orchestrator.rollouts import Ending
from drivetrain.orchestrator.tasks import Verify


@dataclass(frozen=True)
class Verdict:
    """A verifier's outcome in [-1, 1], or None and why there is none."""

    outcome: float | None
    detail: str = ""


def verdict(verify: Verify, ran: Exit, reward: str | None, log: str) -> Verdict:
    """What a verifier's run says of the work. `reward` is the content of the reward file, None if it is missing.

    A verifier that hangs, is killed, or writes no usable number says nothing: that is no bad outcome.
    """
    if ran.timed_out:
        return Verdict(None, f"the verifier did not end within {verify.timeout_s:g} s")
    if ran.status < 0:
        return Verdict(None, f"the verifier was killed by signal {-ran.status}; its last lines: {log}")
    if verify.reward_file is None:
        return Verdict(1.0 if ran.status == 0 else -1.0)
    if reward is None:
        return Verdict(None, f"the verifier wrote nothing to {verify.reward_file}; its last lines: {log}")
    return _read_reward(reward, verify.reward_file)


def crash(harness: Harness, ran: Exit, log: str) -> Ending | None:
    """The ending of a harness that broke down, or None if its work is to be graded. A timeout's work is graded."""
    if ran.timed_out or harness.end.is_regular(ran.status):
        return None
    how = f"was killed by signal {-ran.status}" if ran.status < 0 else f"ended with status {ran.status}"
    return Ending("harness_crash", None, f"{harness.name} {how}; its last lines: {log}")


def ending(ran: Exit, found: Verdict, timeout_s: float) -> Ending:
    """The ending of a rollout that was graded. What a timed-out rollout reached counts as it is."""
    if found.outcome is None:
        return Ending("infrastructure", None, found.detail)
    if ran.timed_out:
        return Ending("timeout", found.outcome, f"the harness did not end within {timeout_s:g} s")
    return Ending("success" if found.outcome >= 1.0 else "failure", found.outcome, found.detail)


def _read_reward(text: str, name: str) -> Verdict:
    try:
        value = float(text)
    except ValueError:
        return Verdict(None, f"{name} holds {text[:40]!r}, not a number in [0, 1]")
    if math.isnan(value) or not 0.0 <= value <= 1.0:
        return Verdict(None, f"{name} holds {value}, not a number in [0, 1]")
    return Verdict(value)
