"""From a request to a plan: which task, which harness, whose key. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from drivetrain.common.declarations import BadDeclaration
from drivetrain.common.events import RolloutRequested
from drivetrain.common.harnesses import Harness
from drivetrain.common.identity import RolloutKey, rollout_session, sign_rollout_key
from drivetrain.common.tasks import COMMAND_HARNESS, Task, parse_task
from drivetrain.orchestrator.backends.base import Access
from drivetrain.orchestrator.running.runner import Plan

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
KEY_MARGIN_S = 60.0
"""How long a key outlives the harness's timeout, so that a last call in flight is still accepted."""


@dataclass(frozen=True)
class Planner:
    """Makes plans: the proxy's address, the secret shared with the proxy, the harnesses that are known, and what these
    are told of the model: its context window and its longest reply, in tokens."""

    proxy_url: str
    secret: bytes
    harnesses: Mapping[str, Harness]
    context: int = 32_768
    reply: int = 4_096

    def session(self, request: RolloutRequested, attempt: int = 1) -> str:
        """The session that the attempt's model calls carry, as the proxy derives it from the key."""
        return rollout_session(self.secret, _key(request, attempt, expires_at=0.0))

    def plan(self, request: RolloutRequested, now: float, attempt: int = 1) -> Plan:
        """How to run an attempt that begins now. The shorter of the request's timeout and its task's applies.

        Raises:
            BadDeclaration: the task is bad, or its harness is unknown.
        """
        task = parse_task(request.task)
        harness = self._harness(task)
        timeout_s = min(task.timeout_s, request.timeout_s)
        if timeout_s <= 0:
            raise BadDeclaration(f"the request's timeout_s is {request.timeout_s}: give a positive number of seconds")
        key = _key(request, attempt, expires_at=now + timeout_s + KEY_MARGIN_S)
        signed = sign_rollout_key(self.secret, key)
        values: dict[str, str | int] = {
            "key": signed,
            "model": request.policy,
            "instruction": task.instruction,
            "command": task.command or "",
            "context": self.context,
            "reply": self.reply,
        }
        ref = request.rollout
        labels = {"run": ref.run, "group": ref.group, "rollout": ref.rollout, "policy": request.policy}
        access = Access(self.proxy_url.rstrip("/"), signed)
        return Plan(lease_name(request, attempt), task, harness, values, timeout_s, access=access, labels=labels)

    def _harness(self, task: Task) -> Harness:
        name = task.harness or (COMMAND_HARNESS if task.command else None)
        if name is None or (name == COMMAND_HARNESS and task.command is None):
            raise BadDeclaration("the task: neither harness nor command is given: name a harness, or give a command")
        if name != COMMAND_HARNESS and task.command is not None:
            raise BadDeclaration(f"the task: command belongs to the harness 'command', not to {name!r}: remove one")
        if name not in self.harnesses:
            known = ", ".join(sorted(self.harnesses))
            raise BadDeclaration(f"the task: harness {name!r} is unknown: use one of {known}, or add its file")
        return self.harnesses[name]


def check_names(request: RolloutRequested) -> None:
    """Refuse names that cannot be part of a subject or of a folder's name.

    Raises:
        BadDeclaration: with the field and what it may hold.
    """
    ref = request.rollout
    names = (("run", ref.run), ("group", ref.group), ("rollout", ref.rollout), ("policy", request.policy))
    for field, name in names:
        if not _NAME.fullmatch(name):
            raise BadDeclaration(f"the request's {field} is {name!r}: use 1 to 64 letters, digits, '_' and '-'")


def lease_name(request: RolloutRequested, attempt: int = 1) -> str:
    """The name of an attempt's lease: a second start of the same attempt meets the first one's sandbox."""
    return f"{request.rollout.run}.{request.rollout.rollout}.{attempt}"


def _key(request: RolloutRequested, attempt: int, expires_at: float) -> RolloutKey:
    return RolloutKey(rollout=request.rollout, policy=request.policy, attempt=attempt, expires_at=expires_at)
