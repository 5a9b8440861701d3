"""From what a harness and a verifier left behind to the ending of a rollout. Pure rules."""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from drivetrain.common.events.rollouts import FinishReason, VerifierFault
from drivetrain.common.harnesses import Harness
from drivetrain.common.tasks import Verify
from drivetrain.orchestrator.backends.base import Exit
from drivetrain.orchestrator.lifecycle.rollouts import Ending

REWARD = "reward"
REWARD_FILES = ("reward.json", "reward.txt")
"""What a verifier writes, below the folder `verifier` of its logs; the first that is there counts."""
MAX_REWARD_BYTES = 65_536
QUOTED = 800
"""Characters of a harness's output that an ending's detail quotes."""
OVERFLOW = re.compile(r"context_length_exceeded|maximum context length|prompt is too long: \d+ tokens", re.IGNORECASE)
"""How the proxy says in each dialect that a prompt does not fit."""


@dataclass(frozen=True)
class Work:
    """How a harness's run ended, what it printed last, and the seconds that it had."""

    harness: Harness
    ran: Exit
    log: str
    timeout_s: float

    @property
    def cut(self) -> Literal["timeout", "context_overflow"] | None:
        """What ended the work before the harness was done. That the context was full is told by the proxy's refusal,
        which a harness that gives up over it prints last."""
        if self.ran.timed_out:
            return "timeout"
        broke = not self.harness.run.end.is_regular(self.ran.status) and not self.ran.limits
        return "context_overflow" if broke and OVERFLOW.search(self.log[-QUOTED:]) else None

    @property
    def detail(self) -> str:
        """What cut it short, in words."""
        if self.ran.timed_out:
            return f"the harness did not end within {self.timeout_s:g} s"
        return f"the model's context was full; the last lines: {self.log[-QUOTED:]}"


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


def crash(work: Work) -> Ending | None:
    """The ending of a harness that broke down, or None if its work is to be graded: also where its time, or the model's
    context, was up."""
    ran, name, tail = work.ran, work.harness.name, work.log[-QUOTED:]
    regular = work.harness.run.end.is_regular(ran.status)
    if work.cut or (regular and "disk" not in ran.limits):
        return None
    if ran.limits:
        how = f"ran into its limit of {' and '.join(ran.limits)}"
    elif ran.status < 0:
        how = f"was killed by signal {-ran.status}"
    else:
        how = f"ended with status {ran.status}"
    return Ending("harness_crash", None, f"{name} {how}; its last lines: {tail}", log=work.log)


def ending(work: Work, found: Verdict | None) -> Ending:
    """The ending of a rollout whose harness came to an end. Without a verdict it has no outcome: what was cut short is
    not graded, and rollouts that are ranked get theirs from the judge. What a rollout reached until its time or its
    context was up counts as it is."""
    if found is None:
        return Ending(work.cut or "success", None, work.detail if work.cut else "", log=work.log)
    if found.outcome is None:
        return Ending("infrastructure", None, found.detail, fault=found.fault, log=work.log)
    if work.cut:
        return Ending(work.cut, found.outcome, work.detail, found.rewards, log=work.log)
    reason: FinishReason = "success" if found.outcome >= 1.0 else "failure"
    return Ending(reason, found.outcome, found.detail, found.rewards, log=work.log)


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
