"""From what a harness and a verifier left behind to the ending of a rollout. Pure rules."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from drivetrain.common.events.rollouts import VerifierFault
from drivetrain.common.harnesses import Harness
from drivetrain.common.tasks import Verify
from drivetrain.orchestrator.backends.base import Exit
from drivetrain.orchestrator.rollouts import Ending

REWARD = "reward"
REWARD_FILES = ("reward.json", "reward.txt")
"""What a verifier writes, below the folder `verifier` of its logs; the first that is there counts."""
MAX_REWARD_BYTES = 65_536


@dataclass(frozen=True)
class Verdict:
    """What a verifier wrote: `reward` in [0, 1], and scores of other names. With a fault it said nothing."""

    rewards: Mapping[str, float] = field(default_factory=dict)
    fault: VerifierFault | None = None
    detail: str = ""

    @property
    def outcome(self) -> float | None:
        """The reward on the scale of outcomes: 0 is -1, 1 is 1. None without a reward."""
        return None if self.fault else 2.0 * self.rewards[REWARD] - 1.0


def verdict(verify: Verify, ran: Exit, written: Mapping[str, bytes], log: str) -> Verdict:
    """What a verifier's run says of the work. `written` are the reward files it left, up to `MAX_REWARD_BYTES` and one.

    A verifier that hangs, is killed, or writes no usable number says nothing: that is no bad reward.
    """
    if ran.timed_out:
        return Verdict(fault="hung", detail=f"the verifier did not end within {verify.timeout_s:g} s")
    if ran.signal is not None:
        return Verdict(fault="killed", detail=f"the verifier was killed by signal {ran.signal}; its last lines: {log}")
    if verify.reward == "status":
        return Verdict({REWARD: 1.0 if ran.status == 0 else 0.0})
    name = next((name for name in REWARD_FILES if name in written), None)
    if name is None:
        files = " or ".join(f"logs/verifier/{name}" for name in reversed(REWARD_FILES))
        return Verdict(fault="no_reward", detail=f"the verifier wrote no {files}; its last lines: {log}")
    if len(written[name]) > MAX_REWARD_BYTES:
        return Verdict(fault="too_large", detail=f"{name} holds more than {MAX_REWARD_BYTES} bytes")
    return _read_rewards(name, written[name].decode("utf-8", errors="replace"))


def crash(harness: Harness, ran: Exit, log: str) -> Ending | None:
    """The ending of a harness that broke down, or None if its work is to be graded. A timeout's work is graded."""
    if ran.timed_out or (harness.run.end.is_regular(ran.status) and "disk" not in ran.limits):
        return None
    if ran.limits:
        return Ending("harness_crash", None, f"{harness.name} ran into its limit of {' and '.join(ran.limits)}: {log}")
    how = f"was killed by signal {-ran.status}" if ran.status < 0 else f"ended with status {ran.status}"
    return Ending("harness_crash", None, f"{harness.name} {how}; its last lines: {log}")


def ending(ran: Exit, found: Verdict, timeout_s: float) -> Ending:
    """The ending of a rollout that was graded. What a timed-out rollout reached counts as it is."""
    if found.outcome is None:
        return Ending("infrastructure", None, found.detail, fault=found.fault)
    if ran.timed_out:
        detail = f"the harness did not end within {timeout_s:g} s"
        return Ending("timeout", found.outcome, detail, found.rewards)
    return Ending("success" if found.outcome >= 1.0 else "failure", found.outcome, found.detail, found.rewards)


def _read_rewards(name: str, text: str) -> Verdict:
    """The scores in a reward file: a number, or a JSON object of numbers."""
    try:
        found = json.loads(text) if name.endswith(".json") else {REWARD: float(text)}
    except (ValueError, RecursionError):
        return _bad(f"{name} holds {text[:40]!r}, not {'JSON' if name.endswith('.json') else 'a number from 0 to 1'}")
    if not isinstance(found, dict) or not found:
        return _bad(f"{name} holds {text[:40]!r}, not an object of numbers")
    for key, value in found.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            return _bad(f"{name}: {key} is {value!r}, not a number")
    rewards = {key: float(value) for key, value in found.items()}
    if len(rewards) == 1:
        rewards = {REWARD: next(iter(rewards.values())), **rewards}
    if REWARD not in rewards:
        return _bad(f"{name} has the scores {', '.join(sorted(rewards))}, and none is named {REWARD!r}")
    if not 0.0 <= rewards[REWARD] <= 1.0:
        return _bad(f"{name}: {REWARD} is {rewards[REWARD]:g}, not a number from 0 to 1")
    return Verdict(rewards)


def _bad(detail: str) -> Verdict:
    return Verdict(fault="bad_reward", detail=detail)
