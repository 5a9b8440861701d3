"""How prompts continue recorded tokens, by family and kind of conversation, against the model's own rendering."""

import random
from collections import Counter

import msgspec

from drivetrain.proxy.prompts.templates import Template
from tests.conversations import TOOLS, Talk, append_only, calls_tools

KINDS = {
    "questions": {"tools": False, "reasoning": False, "system": False},
    "questions, system": {"tools": False, "reasoning": False, "system": True},
    "tools, system": {"tools": True, "reasoning": False, "system": True},
    "reasoning": {"tools": False, "reasoning": True, "system": False},
    "reasoning, tools": {"tools": True, "reasoning": True, "system": True},
}
"""Conversations to which the harness only appends."""


class Counted(msgspec.Struct, frozen=True, kw_only=True):
    """Follow-up prompts of one kind: how many forked and why, and how many were not the reference's."""

    kind: str
    prompts: int
    forks: dict[str, int]
    mismatches: int

    @property
    def fork_rate(self) -> float:
        return sum(self.forks.values()) / self.prompts


def count(template: Template, kind: str, conversations: int = 10, turns: int = 20) -> Counted | None:
    """Random conversations of one kind; None where the family's replies have no tool calls."""
    options = KINDS[kind]
    if options["tools"] and not calls_tools(template):
        return None
    forks, prompts, mismatches = Counter[str](), 0, 0
    for seed in range(conversations):
        talk = Talk(template, random.Random(seed), TOOLS if options["tools"] else [])
        for asked in append_only(talk, turns, **options):
            mismatches += asked.prompt.ids != talk.reference(asked.messages)
            if asked.past is not None:
                prompts += 1
                if asked.prompt.drift == "forked":
                    forks[asked.prompt.cause] += 1
    return Counted(kind=kind, prompts=prompts, forks=dict(forks), mismatches=mismatches)
