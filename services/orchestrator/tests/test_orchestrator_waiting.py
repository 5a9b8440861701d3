"""Who is next: a share for every run, ceilings, and the trainer's pace."""

from drivetrain.common.bus.memory import MemoryBus
from drivetrain.common.events import RolloutRef, RolloutRequested, WeightsCandidate, WeightsHeld, WeightsPromoted
from drivetrain.orchestrator.lifecycle.attempts import Retries
from drivetrain.orchestrator.lifecycle.demand import Demand, Versions
from drivetrain.orchestrator.lifecycle.waiting import Job, Waiting


def job(run: str, rollout: str = "1", policy: str = "p", **more: float) -> Job:
    ref = RolloutRef(run=run, group="g", rollout=rollout)
    return Job(RolloutRequested(rollout=ref, policy=policy, task={}, timeout_s=1.0, at=0.0), **more)  # type: ignore[arg-type]


def line(*jobs: Job, per_run: int | None = None) -> Waiting:
    waiting = Waiting(per_run)
    for one in jobs:
        waiting.put(one)
    return waiting


def taken(waiting: Waiting, count: int, now: float = 0.0) -> list[str]:
    found = [waiting.take(now) for _ in range(count)]
    return [one.name if one else "-" for one in found]


def test_one_run_keeps_the_order_of_its_requests() -> None:
    assert taken(line(*(job("a", str(number)) for number in range(3))), 4) == ["a.0", "a.1", "a.2", "-"]


def test_a_run_that_comes_late_does_not_wait_for_a_long_one() -> None:
    waiting = line(*(job("long", str(number)) for number in range(100)))
    assert taken(waiting, 3) == ["long.0", "long.1", "long.2"]
    waiting.put(job("late", "0"))
    waiting.put(job("late", "1"))
    assert taken(waiting, 3) == ["late.0", "late.1", "long.3"]


def test_runs_that_have_as_many_out_take_turns() -> None:
    jobs = [job(run, str(number)) for run in "abc" for number in range(2)]
    assert taken(line(*jobs), 6) == ["a.0", "b.0", "c.0", "a.1", "b.1", "c.1"]


def test_no_run_has_more_out_than_its_ceiling() -> None:
    jobs = [job("a", str(number)) for number in range(4)]
    waiting = line(*jobs, job("b", "0"), per_run=2)
    assert taken(waiting, 4) == ["a.0", "b.0", "a.1", "-"]
    waiting.done(jobs[0])
    assert taken(waiting, 2) == ["a.2", "-"]
    assert len(waiting) == 1


def test_a_job_that_must_wait_lets_others_by() -> None:
    waiting = line(job("a", "0", not_before=5.0), job("a", "1"))
    assert taken(waiting, 2, now=4.9) == ["a.1", "-"]
    assert taken(waiting, 1, now=5.0) == ["a.0"]


def test_what_may_not_start_stays_in_its_place() -> None:
    waiting = line(job("a", "0", policy="stale"), job("a", "1"))
    found = waiting.take(0.0, lambda one: one.request.policy != "stale")
    assert found is not None
    assert (found.name, len(waiting)) == ("a.1", 1)


def test_a_withdrawn_job_is_not_taken() -> None:
    waiting = line(job("a", "0"), job("a", "1"))
    gone = waiting.withdraw("a.0")
    assert gone is not None
    assert gone.name == "a.0"
    assert waiting.withdraw("a.0") is None
    assert taken(waiting, 2) == ["a.1", "-"]


def test_waits_double_spread_and_end_somewhere() -> None:
    retries = Retries(attempts=9, backoff_s=2.0)
    waits = [retries.wait_s(attempt, "r.o") for attempt in (1, 2, 3)]
    assert waits[1:] == [2 * waits[0], 4 * waits[0]]
    spread = [retries.wait_s(1, f"r.{number}") for number in range(200)]
    assert 2.0 <= min(spread) < 2.1
    assert 2.9 < max(spread) <= 3.0
    assert retries.wait_s(50, "r.o") <= 450.0


def test_how_far_what_is_served_is_behind() -> None:
    assert Versions().behind == 0
    assert Versions(candidate=7, promoted=4).behind == 3
    assert Versions(candidate=7, promoted=4, held=7).behind == 0
    assert Versions(candidate=8, promoted=4, held=7).behind == 4


async def test_rollouts_wait_for_a_trainer_that_has_enough_and_go_on_with_its_next_version() -> None:
    bus = MemoryBus()
    demand = Demand(bus, max_staleness=1, ahead=2)
    assert demand.held("p") == ""
    for _ in range(2):
        demand.begun("p")
    assert demand.held("p") == "2 rollouts began since version 0, and the trainer has no newer one"
    assert demand.held("other") == ""
    for version in (1, 2):
        await bus.publish(WeightsCandidate(policy="p", version=version, parent=0, digest="d", step=version, at=1.0))
    await demand.look()
    assert demand.held("p") == "what is served is 2 versions behind the trainer (at most 1)"
    await bus.publish(WeightsPromoted(policy="p", version=1, replicas=["v"], at=1.0))
    await demand.look()
    assert demand.held("p") == ""
    await bus.publish(WeightsHeld(policy="p", version=2, reason="bad", at=1.0))
    await demand.look()
    assert demand.held("p") == ""
