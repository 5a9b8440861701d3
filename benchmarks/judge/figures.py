"""The figures of the judge benchmark, from what was measured."""

from collections.abc import Mapping, Sequence

from benchmarks.judge.measure import Rate


def figures(rates: Sequence[Rate], delays: Sequence[float], parts: Mapping[str, float]) -> dict[str, float]:
    """One replica's rate, how a second one adds to it, the delay, and where a replica's CPU time goes: its rules, the
    codec, and the rest, which is the bus's client and the loop around it."""
    one, two = rates
    cpu = 1000 * one.judge_cpu_s / one.turns
    ordered = sorted(delays)
    found = {
        "turns_per_s": one.per_s,
        "turns_per_s_2_replicas": two.per_s,
        "scaling_1_to_2": two.per_s / one.per_s,
        "turns_per_judge_cpu_s": one.turns / one.judge_cpu_s,
        "judge_cores": one.judge_cpu_s / one.seconds,
        "followed_to_scored_ms_p50": 1000 * quantile(ordered, 0.5),
        "followed_to_scored_ms_p99": 1000 * quantile(ordered, 0.99),
        "cpu_ms_per_turn": cpu,
        **{f"cpu_ms_per_turn_{name}": 1000 * seconds for name, seconds in parts.items()},
        "cpu_ms_per_turn_bus": cpu - 1000 * sum(parts.values()),
        "server_cpu_ms_per_turn": 1000 * one.server_cpu_s / one.turns,
        "server_cores_2_replicas": two.server_cpu_s / two.seconds,
    }
    return {name: round(value, 3) for name, value in found.items()}


def quantile(ordered: Sequence[float], share: float) -> float:
    """The smallest value that at least such a share of them does not exceed."""
    return ordered[min(len(ordered) - 1, max(0, -(-int(share * len(ordered) * 1000) // 1000) - 1))]
