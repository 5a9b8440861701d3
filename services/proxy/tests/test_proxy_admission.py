"""Who may go when: bounded load, turns between callers, waits that end, and places that are never lost."""

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drivetrain.proxy.engines.base import EngineBusy, Want
from drivetrain.proxy.routing.admission import Admission, Limits
from drivetrain.proxy.routing.replica import Replica


def want(session: str = "s", lane: str = "a", rollout: bool = False) -> Want:
    return Want(session=session, lane=lane, rollout=rollout)


def door(replicas: int = 1, held: Any = lambda: "", **limits: Any) -> Admission:
    made = [Replica("default", f"http://replica-{number}") for number in range(replicas)]
    for replica in made:
        replica.saw(healthy=True, version=1)
    return Admission("default", made, Limits(**{"max_in_flight": 1, "queue_s": 5.0} | limits), held)


async def started(*work: Any) -> list[asyncio.Task[Any]]:
    """Tasks that have gone as far as they can."""
    tasks = [asyncio.ensure_future(each) for each in work]
    for _ in range(5):
        await asyncio.sleep(0)
    return tasks


async def taken(admission: Admission, **who: Any) -> Replica:
    replica = await admission.enter(want(**who))
    assert replica is not None
    return replica


async def test_a_full_replica_lets_the_next_one_in_when_a_request_ends() -> None:
    admission = door()
    first = await taken(admission)
    (waiting,) = await started(taken(admission))
    assert not waiting.done()
    admission.leave(first)
    assert await waiting is first
    assert first.in_flight == 1


async def test_a_wait_ends_and_says_when_to_come_back() -> None:
    admission = door(queue_s=0.05)
    replica = await taken(admission)
    with pytest.raises(EngineBusy, match="every replica is busy") as caught:
        await admission.enter(want())
    assert caught.value.retry_after == 1
    admission.leave(replica)
    assert (await taken(admission)).in_flight == 1


async def test_a_long_queue_is_not_made_longer() -> None:
    admission = door(max_queued=1)
    await taken(admission)
    (waiting,) = await started(taken(admission))
    with pytest.raises(EngineBusy, match="1 requests wait already"):
        await admission.enter(want())
    waiting.cancel()


async def test_callers_take_turns_and_each_is_served_in_order() -> None:
    admission, order = door(), list[str]()

    async def call(name: str) -> None:
        replica = await taken(admission, lane=name[0])
        order.append(name)
        admission.leave(replica)

    held = await taken(admission)
    tasks = await started(*map(call, ("a1", "a2", "a3", "b1")))
    admission.leave(held)
    await asyncio.gather(*tasks)
    assert order == ["a1", "b1", "a2", "a3"]


async def test_only_rollouts_are_held_and_only_for_a_while() -> None:
    reasons = ["the replicas are 9 versions behind"]
    admission = door(max_in_flight=5, held=lambda: "".join(reasons))
    (rollout,) = await started(taken(admission, rollout=True))
    assert (await taken(admission)).in_flight == 1
    assert not rollout.done()
    reasons.clear()
    admission.pump()
    assert (await rollout).in_flight == 2
    reasons.append("the replicas are 7 versions behind")
    impatient = Admission("default", admission.replicas, Limits(queue_s=0.02), lambda: reasons[0])
    with pytest.raises(EngineBusy, match="7 versions behind"):
        await impatient.enter(want(rollout=True))


async def test_a_caller_that_leaves_while_it_waits_takes_no_place() -> None:
    admission = door()
    replica = await taken(admission)
    gone, next_one = await started(taken(admission), taken(admission))
    gone.cancel()
    admission.leave(replica)
    assert await next_one is replica
    assert replica.in_flight == 1


async def test_a_place_that_comes_in_the_moment_of_leaving_goes_to_the_next() -> None:
    admission = door()
    replica = await taken(admission)
    gone, next_one = await started(taken(admission), taken(admission))
    admission.leave(replica)
    gone.cancel()
    assert await next_one is replica
    assert gone.cancelled()
    assert replica.in_flight == 1


async def test_an_unhealthy_replica_is_asked_only_when_no_other_is_left() -> None:
    admission = door(2)
    well, ill = admission.replicas
    ill.failed()
    assert [await admission.enter(want())] == [well]
    (waiting,) = await started(taken(admission))
    assert not waiting.done()
    waiting.cancel()
    assert await admission.enter(want(), tried=[well]) is ill
    assert await admission.enter(want(), tried=[well, ill]) is None


async def test_recovery_lets_those_in_who_wait() -> None:
    admission = door(2)
    admission.replicas[1].failed()
    await taken(admission)
    (waiting,) = await started(taken(admission))
    admission.replicas[1].saw(healthy=True, version=1)
    admission.pump()
    assert await waiting is admission.replicas[1]


class Crowd:
    """Callers that come, end and leave in any order."""

    def __init__(self, replicas: int, places: int) -> None:
        self.admission = door(replicas, max_in_flight=places, queue_s=60.0)
        self.waiting: list[asyncio.Task[Replica]] = []

    async def come(self, number: int) -> None:
        self.waiting += await started(taken(self.admission, session=str(number), lane="ab"[number % 2]))

    async def end(self, number: int) -> None:
        inside = [task for task in self.waiting if task.done()]
        if inside:
            self.waiting.remove(inside[0])
            self.admission.leave(inside[0].result())
        await started()

    async def leave(self, number: int) -> None:
        outside = [task for task in self.waiting if not task.done()]
        if outside:
            self.waiting.remove(outside[-1])
            outside[-1].cancel()
        await started()

    async def ill(self, number: int) -> None:
        self.admission.replicas[number % len(self.admission.replicas)].failed()

    async def well(self, number: int) -> None:
        self.admission.replicas[number % len(self.admission.replicas)].saw(healthy=True, version=None)
        self.admission.pump()
        await started()


steps = st.lists(st.tuples(st.sampled_from(["come", "end", "leave", "ill", "well"]), st.integers(0, 9)), max_size=40)


@settings(deadline=None, max_examples=60)
@given(steps, st.integers(1, 3), st.integers(1, 3))
def test_no_place_is_lost_or_given_twice(history: list[tuple[str, int]], replicas: int, places: int) -> None:
    async def live() -> None:
        crowd = Crowd(replicas, places)
        for what, number in history:
            await getattr(crowd, what)(number)
            inside = sum(task.done() for task in crowd.waiting)
            loads = [replica.in_flight for replica in crowd.admission.replicas]
            assert sum(loads) == inside
            assert max(loads) <= places
        for _ in range(len(crowd.waiting)):
            await crowd.end(0)
        assert not crowd.waiting
        assert all(replica.in_flight == 0 for replica in crowd.admission.replicas)

    asyncio.run(live())
