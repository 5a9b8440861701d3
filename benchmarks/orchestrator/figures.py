"""The figures of the orchestrator benchmark, from what was measured."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Many:
    """A run of many rollouts: how many ended well, in how many seconds, with what CPU and memory of the orchestrator,
    and what was left of them afterwards."""

    good: int
    seconds: float
    cpu_s: float
    peak_mib: float
    left: int


@dataclass(frozen=True)
class Cluster:
    """The same through the API of a cluster: its calls, and the most pods that were there at a time."""

    good: int
    seconds: float
    calls: int
    most_pods: int
    left: int


def figures(
    cold: Sequence[float], warm: Sequence[float], calls: Sequence[float], many: Many, cluster: Cluster
) -> dict[str, float]:
    """`cold`, `warm`: seconds that a sandbox took to run its first and its next command; `calls`: seconds from a
    request to the first call of the model."""
    found = {
        "leaked": many.left + cluster.left,
        "process_start_ms_p50": 1000 * quantile(cold, 0.5),
        "process_start_ms_p95": 1000 * quantile(cold, 0.95),
        "process_warm_start_ms_p50": 1000 * quantile(warm, 0.5),
        "process_warm_start_ms_p95": 1000 * quantile(warm, 0.95),
        "requested_to_first_call_ms_p50": 1000 * quantile(calls, 0.5),
        "requested_to_first_call_ms_p95": 1000 * quantile(calls, 0.95),
        "process_rollouts": many.good,
        "process_rollouts_per_s": many.good / many.seconds,
        "process_orchestrator_cpu_ms_per_rollout": 1000 * many.cpu_s / many.good,
        "process_orchestrator_peak_mib": many.peak_mib,
        "kubernetes_rollouts": cluster.good,
        "kubernetes_rollouts_per_s": cluster.good / cluster.seconds,
        "kubernetes_api_calls_per_rollout": cluster.calls / cluster.good,
        "kubernetes_most_pods": cluster.most_pods,
    }
    return {name: round(value, 3) for name, value in found.items()}


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least such a share of them does not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -(-int(share * len(ordered) * 1000) // 1000) - 1)]
