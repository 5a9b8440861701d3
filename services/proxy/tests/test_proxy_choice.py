"""The choice of a replica: balanced, sticky, moved as little as possible, and never to a worse replica than needed."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drivetrain.proxy.routing.choice import Seen, ranked

SESSIONS = [f"session-{number}" for number in range(2000)]


lean = settings(deadline=None, max_examples=50)


def replicas(count: int) -> list[Seen]:
    return [Seen(f"http://replica-{number}:8000") for number in range(count)]


def first(session: str, seen: list[Seen], max_lead: int = 4, max_lag: int = 1) -> str:
    return ranked(session, seen, max_lead=max_lead, max_lag=max_lag)[0].url


@pytest.mark.parametrize("count", [2, 3, 5, 12])
def test_sessions_spread_evenly(count: int) -> None:
    counts = Counter(first(session, replicas(count)) for session in SESSIONS)
    fair = len(SESSIONS) / count
    # Five standard deviations of a binomial distribution
    assert all(abs(counts[seen.url] - fair) < 5 * fair**0.5 for seen in replicas(count))


@lean
@given(st.integers(2, 10), st.data())
def test_only_the_sessions_of_a_replica_that_leaves_move(count: int, data: st.DataObject) -> None:
    before = replicas(count)
    gone = data.draw(st.sampled_from(before))
    after = [seen for seen in before if seen != gone]
    for session in SESSIONS[:50]:
        was = first(session, before)
        assert first(session, after) == was or was == gone.url


@lean
@given(st.integers(2, 8), st.data())
def test_an_unhealthy_replica_moves_as_few_sessions_as_one_that_left(count: int, data: st.DataObject) -> None:
    before = replicas(count)
    ill = data.draw(st.integers(0, count - 1))
    after = [Seen(seen.url, healthy=number != ill) for number, seen in enumerate(before)]
    left = [seen for number, seen in enumerate(before) if number != ill]
    assert all(first(session, after) == first(session, left) for session in SESSIONS[:50])


any_seen = st.builds(
    Seen,
    st.integers(0, 30).map(lambda number: f"http://replica-{number}"),
    st.integers(0, 50),
    st.booleans(),
    st.none() | st.integers(0, 20),
)


@lean
@given(st.lists(any_seen, max_size=8, unique_by=lambda seen: seen.url), st.integers(0, 10), st.integers(0, 3))
def test_each_replica_is_tried_once_and_the_better_kind_first(seen: list[Seen], lead: int, lag: int) -> None:
    order = ranked("s", seen, max_lead=lead, max_lag=lag)
    assert sorted(order, key=lambda one: one.url) == sorted(seen, key=lambda one: one.url)
    health = [one.healthy for one in order]
    assert health == sorted(health, reverse=True)
    healthy = [one for one in order if one.healthy]
    newest = max((one.version for one in healthy if one.version is not None), default=0)
    current = [one.version is None or one.version >= newest - lag for one in healthy]
    assert current == sorted(current, reverse=True)
    if healthy:
        least = min(one.in_flight for one, good in zip(healthy, current, strict=True) if good)
        assert order[0].in_flight <= least + lead


@lean
@given(st.lists(any_seen, min_size=1, max_size=8, unique_by=lambda seen: seen.url), st.randoms())
def test_the_order_of_the_settings_does_not_matter(seen: list[Seen], random: object) -> None:
    shuffled = list(seen)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert ranked("s", seen, max_lead=2, max_lag=1) == ranked("s", shuffled, max_lead=2, max_lag=1)


def test_a_session_leaves_its_replica_only_when_that_has_too_many_requests() -> None:
    idle = replicas(3)
    own = first("s", idle)

    def with_load(load: int) -> list[Seen]:
        return [Seen(seen.url, load if seen.url == own else 1) for seen in idle]

    assert first("s", with_load(5)) == own
    assert first("s", with_load(6)) != own


def test_a_replica_that_missed_an_update_is_avoided_but_one_step_is_no_reason_to_move() -> None:
    idle = replicas(2)
    own, other = first("s", idle), next(seen.url for seen in idle if seen.url != first("s", idle))
    assert first("s", [Seen(own, version=6), Seen(other, version=7)]) == own
    assert first("s", [Seen(own, version=5), Seen(other, version=7)]) == other
    # An unhealthy replica's version says nothing about the others
    assert first("s", [Seen(own, version=5), Seen(other, healthy=False, version=7)]) == own
    assert [seen.url for seen in ranked("s", [Seen(own, version=5)], max_lead=1, max_lag=0)] == [own]
