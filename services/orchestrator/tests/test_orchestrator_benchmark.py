"""The figures of the orchestrator benchmark, worked out by hand, and what counts as left behind."""

import os
import subprocess
from pathlib import Path

from benchmarks.orchestrator.figures import Cluster, Many, figures, quantile
from benchmarks.orchestrator.measure import cpu_s, left_on_machine, peak_mib


def test_the_figures_are_what_was_measured_by_their_names() -> None:
    seconds = [n / 1000 for n in range(1, 101)]
    found = figures(seconds, [0.002] * 3, [0.5], Many(200, 50.0, 4.0, 80.0, 1), Cluster(100, 20.0, 1500, 64, 2))
    assert found["leaked"] == 3
    assert (found["process_start_ms_p50"], found["process_start_ms_p95"]) == (50, 95)
    assert found["process_warm_start_ms_p50"] == 2
    assert found["requested_to_first_call_ms_p95"] == 500
    assert (found["process_rollouts_per_s"], found["process_orchestrator_cpu_ms_per_rollout"]) == (4, 20)
    assert (found["kubernetes_rollouts_per_s"], found["kubernetes_api_calls_per_rollout"]) == (5, 15)
    assert found["kubernetes_most_pods"] == 64


def test_quantiles_are_values_that_were_seen() -> None:
    assert [quantile([3.0, 1.0, 2.0], share) for share in (0.0, 0.5, 1.0)] == [1, 2, 3]


def test_a_folder_and_a_process_count_as_left(tmp_path: Path) -> None:
    assert left_on_machine(tmp_path / "leases") == 0
    (tmp_path / "leases/a").mkdir(parents=True)
    sleeper = subprocess.Popen(["sleep", "60"], env={"DRIVETRAIN_LEASE": str(tmp_path / "leases/a")})
    try:
        assert left_on_machine(tmp_path / "leases") == 2
    finally:
        sleeper.kill()
        sleeper.wait()


def test_a_process_is_measured() -> None:
    assert cpu_s(os.getpid()) > 0
    assert peak_mib(os.getpid()) > 10
