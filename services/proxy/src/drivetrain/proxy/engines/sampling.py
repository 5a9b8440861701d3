"""Sampling parameters: what the engine is told, and whether its logprobs can be used in a ratio afterwards."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from drivetrain.common.events import Sampling
from drivetrain.proxy.engines import grammar
from drivetrain.proxy.turns import Ask

NEUTRAL: dict[str, float] = {
    "min_p": 0.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "repetition_penalty": 1.0,
}
"""Parameters beyond temperature, top-p and top-k, with the value at which each changes nothing. Any parameter that is
not listed changes the logprobs unless it is empty."""

GREEDY_BELOW = 1e-5
CALL_END = "</tool_call>"
MOST_TOPS = 20
"""Candidates at each place that vLLM gives at the most, unless it is told otherwise."""


def for_rollout(sampling: Sampling, temperature: float) -> Sampling:
    """A rollout's sampling follows the policy, not the harness: plain sampling at one temperature, without a seed (the
    rollouts of a group would be one). Only a form that the harness needs its replies to have stays."""
    form = {name: value for name, value in sampling.other.items() if name == grammar.PARAMETER}
    return msgspec.structs.replace(sampling, temperature=temperature, top_p=1.0, top_k=0, seed=None, other=form)


def inexact_because(sampling: Sampling) -> str:
    """Why the reply's logprobs are not those of plain sampling; empty when they are."""
    reasons = []
    if sampling.temperature < GREEDY_BELOW:
        reasons.append("greedy")
    if sampling.top_p < 1.0:
        reasons.append("top_p")
    if sampling.top_k > 0:
        reasons.append("top_k")
    changing = {name: value for name, value in sampling.other.items() if value and value != NEUTRAL.get(name)}
    reasons += ["grammar" if name == grammar.PARAMETER else name for name in changing]
    return ", ".join(reasons)


def capped(sampling: Sampling, prompt_tokens: int, context_tokens: int) -> Sampling:
    """The same sampling, with `max_tokens` set to at most what the context leaves."""
    left = context_tokens - prompt_tokens
    return msgspec.structs.replace(sampling, max_tokens=min(sampling.max_tokens or left, left))


def ends_of(ask: Ask) -> list[str]:
    """The texts at which the engine ends the reply; where it may have only one call, the end of a call is one of them.
    Their tokens are sampled and recorded like all others."""
    return [*ask.stop, CALL_END] if ask.one_call and ask.tools else ask.stop


def engine_parameters(ask: Ask, stop_ids: Sequence[int], marker_ids: Mapping[int, str]) -> dict[str, Any]:
    """The parameters as the engine's generate endpoint takes them, with the sampled token's logprob asked for. A text
    of `marker_ids` is one token of the model."""
    sampling, ends = ask.sampling, ends_of(ask)
    parameters: dict[str, Any] = {
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "max_tokens": sampling.max_tokens,
        # One more than was asked for: of so many vLLM counts the sampled token as the first, however unlikely it was.
        "logprobs": min(ask.top_logprobs + 1, MOST_TOPS) if ask.top_logprobs else 0,
        "stop_token_ids": [*stop_ids, *(token for token, marker in marker_ids.items() if marker in ends)],
        **sampling.other,
    }
    if sampling.seed is not None:
        parameters["seed"] = sampling.seed
    if stop := [text for text in ends if text not in marker_ids.values()]:
        parameters["stop"] = stop
    return parameters
