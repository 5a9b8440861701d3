"""Which version a session gets, and under which name it is asked for. Pure."""

import pytest

from drivetrain.common.events import Post, ReplicaRotation
from drivetrain.proxy.engines.base import LabelSpan, Sampled
from drivetrain.proxy.routing.choice import Seen, ranked
from drivetrain.proxy.routing.courses import Asked, asked, available, served, urls, wanted


def rotation(*posts: Post, version: int = 5, **more: object) -> ReplicaRotation:
    fields = {"policy": "main", "version": version, "posts": list(posts), "at": 1.0, **more}
    return ReplicaRotation(**fields)  # type: ignore[arg-type]


def at(label: int | None, *adapters: int, out: str = "") -> Post:
    return Post(url="http://a", label=label, adapters=list(adapters), out=out)


@pytest.mark.parametrize(
    ("post", "version", "name"),
    [
        (at(0, 5), 5, "main@5"),
        (at(0, 4, 5), 4, "main@4"),
        (at(0, 4, 5), 3, "main@5"),  # not there any more: the promoted one
        (at(0, 3, 4), 5, "main@4"),  # not there yet: the newest before it
        (at(0, 6), 5, None),  # a candidate is for those alone who are to try it
        (at(0, 5, 6), 6, "main@6"),
        (at(5), 5, None),
        (at(3), 5, None),
        (at(None, 5), 5, None),
    ],
)
def test_a_version_is_asked_for_by_name_and_the_nearest_takes_its_place(
    post: Post, version: int, name: str | None
) -> None:
    found = asked(rotation(post), post, version)
    assert (found.name if found else None) == name


def test_a_share_of_the_sessions_gets_the_candidate_always_the_same_ones() -> None:
    trial = rotation(version=5, canary=6, share=0.25)
    drawn = [wanted(trial, f"s{number}") for number in range(4000)]
    assert drawn == [wanted(trial, f"s{number}") for number in range(4000)]
    assert 0.22 < drawn.count(6) / 4000 < 0.28
    assert set(drawn) == {5, 6}
    # Of the next candidate it is others who try it
    again = [wanted(rotation(version=5, canary=7, share=0.25), f"s{number}") for number in range(4000)]
    both = sum(a == 6 and b == 7 for a, b in zip(drawn, again, strict=True))
    assert 0.04 < both / 4000 < 0.085


def test_without_a_candidate_everyone_gets_what_is_promoted() -> None:
    assert {wanted(rotation(version=5), f"s{number}") for number in range(50)} == {5}


def test_tokens_of_an_adapter_get_its_version_only_over_the_weights_that_it_is_for() -> None:
    sampled = Sampled([1, 2, 3], [None] * 3, "stop", [LabelSpan(0, 2, "4"), LabelSpan(2, 3, "9")])
    spans = Asked("main@7", 7, "4").relabelled(sampled).spans
    assert spans == [LabelSpan(0, 2, "7"), LabelSpan(2, 3, "main@7 over 9")]
    assert Asked("main@7", 7, "4").relabelled(Sampled([1], [None])) == Sampled([1], [None])


def test_what_is_out_of_rotation_makes_nothing_available() -> None:
    assert available(rotation(at(0, 5)), 5)
    assert not available(rotation(at(0, 5, out="its probe is off")), 5)
    assert not available(rotation(at(0, 5)), 4)
    assert served(at(3, 5)) == {3, 5}


def test_replicas_that_announced_themselves_come_beside_those_of_the_settings() -> None:
    said = rotation(at(1), Post(url="http://b", label=1))
    assert urls(said, ["http://a", "http://c"]) == ["http://a", "http://c", "http://b"]


def test_the_wanted_version_comes_before_load_and_after_health() -> None:
    has = Seen("http://has", in_flight=9, version=6, versions=frozenset({5, 6}))
    lacks = Seen("http://lacks", version=6, versions=frozenset({6}))
    ill = Seen("http://ill", healthy=False, version=5, versions=frozenset({5}))
    order = ranked("s", [lacks, ill, has], max_lead=1, max_lag=9, wanted=5)
    assert [seen.url for seen in order] == ["http://has", "http://lacks", "http://ill"]
