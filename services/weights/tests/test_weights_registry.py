"""The life of a version, one transition at a time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivetrain.common.store.lives import State, Version
from drivetrain.weights.registry import IllegalTransition, Registry


def promoted(number: int) -> Registry:
    return Registry().announce(number, 0).begin(number).promote(number)


def test_a_version_goes_from_candidate_over_loading_to_promoted() -> None:
    announced = Registry().announce(1, 0)
    loading = announced.begin(1)
    done = loading.promote(1)
    states = [registry.versions[1].state for registry in (announced, loading, done)]
    assert states == [State.CANDIDATE, State.LOADING, State.PROMOTED]
    assert (announced.promoted, done.promoted) == (0, 1)


def test_a_held_version_keeps_its_reason_and_the_promoted_one_stays() -> None:
    registry = promoted(1).announce(2, 1).begin(2).hold(2, "probe off")
    assert registry.promoted == 1
    assert registry.versions[2].reason == "probe off"
    assert registry.loading() is None


def test_announcing_twice_changes_nothing() -> None:
    registry = promoted(3)
    assert registry.announce(3, 0) is registry


def test_a_child_of_the_promoted_version_meets_no_objection() -> None:
    assert promoted(3).announce(4, 3).objection(4) is None


def test_numbers_may_skip_as_long_as_the_parent_is_promoted() -> None:
    assert promoted(3).announce(9, 3).objection(9) is None


def test_an_older_number_than_the_promoted_one_is_refused_with_both_numbers() -> None:
    objection = promoted(5).announce(4, 3).objection(4)
    assert objection is not None
    assert "4" in objection
    assert "5" in objection


def test_the_child_of_a_held_version_is_refused_with_the_parents_reason() -> None:
    registry = promoted(1).announce(2, 1).hold(2, "NaN in a tensor").announce(3, 2)
    objection = registry.objection(3)
    assert objection is not None
    assert "NaN in a tensor" in objection


def test_a_sibling_of_the_promoted_version_is_refused() -> None:
    registry = promoted(1).announce(2, 1).begin(2).promote(2).announce(3, 1)
    assert "trained from 1" in str(registry.objection(3))


def test_two_versions_never_load_at_once() -> None:
    registry = Registry().announce(1, 0).announce(2, 1).begin(1)
    with pytest.raises(IllegalTransition, match="version 2 cannot load while version 1 does"):
        registry.begin(2)


@pytest.mark.parametrize("step", ["begin", "promote"])
def test_a_held_version_never_comes_back(step: str) -> None:
    registry = Registry().announce(1, 0).hold(1, "bad")
    with pytest.raises(IllegalTransition, match="held"):
        getattr(registry, step)(1)


def test_a_version_that_nobody_announced_is_named() -> None:
    with pytest.raises(IllegalTransition, match="version 7 was never announced"):
        Registry().promote(7)


def test_a_candidate_cannot_be_promoted_without_being_loaded() -> None:
    with pytest.raises(IllegalTransition, match="candidate, not loading"):
        Registry().announce(1, 0).promote(1)


def chain(*numbers: int) -> Registry:
    """Promoted one after the other."""
    registry = Registry()
    for number in numbers:
        registry = registry.announce(number, registry.promoted).begin(number).promote(number)
    return registry


def test_a_rollback_withdraws_all_that_was_promoted_since() -> None:
    registry = chain(1, 3, 4)
    assert registry.withdrawn_by(1) == [4, 3]
    back = registry.roll_back(1, "worse")
    assert back.promoted == 1
    states = {number: version.state for number, version in back.versions.items()}
    assert states == {1: State.PROMOTED, 3: State.ROLLEDBACK, 4: State.ROLLEDBACK}
    assert back.versions[4].reason == "worse"
    assert back.roll_back(0, "worse still").promoted == 0


def test_what_serves_already_withdraws_nothing() -> None:
    assert chain(1, 2).withdrawn_by(2) == []


@pytest.mark.parametrize("to", [2, 3, 6, 9])
def test_there_is_no_way_back_to_what_is_no_ancestor(to: int) -> None:
    # 2 was held, 3 was withdrawn, 6 awaits a decision, 9 is unknown
    registry = chain(1).announce(2, 1).hold(2, "bad").announce(3, 1).begin(3).promote(3).roll_back(1, "worse")
    registry = registry.announce(5, 1).begin(5).promote(5).announce(6, 5)
    with pytest.raises(IllegalTransition, match=f"version {to} is no ancestor of version 5.*; its ancestors are 1, 0"):
        registry.withdrawn_by(to)


def test_there_is_no_way_back_beyond_what_the_bus_remembers() -> None:
    registry = Registry(7, {7: Version(7, None, State.PROMOTED)})
    with pytest.raises(IllegalTransition, match="its ancestors are not known"):
        registry.withdrawn_by(6)


def test_the_child_of_a_withdrawn_version_is_refused_with_its_reason_and_the_next_of_the_line_is_not() -> None:
    registry = chain(1, 2).roll_back(1, "replies too short").announce(3, 2).announce(4, 1)
    assert "it was rolledback: replies too short" in str(registry.objection(3))
    assert registry.objection(4) is None


@given(st.lists(st.tuples(st.integers(1, 12), st.integers(0, 12), st.booleans()), max_size=30))
def test_what_is_promoted_only_grows_and_forms_a_chain(candidates: list[tuple[int, int, bool]]) -> None:
    registry, chain = Registry(), [0]
    for number, parent, good in candidates:
        if number in registry.versions:
            continue
        registry = registry.announce(number, parent)
        if registry.objection(number):
            registry = registry.hold(number, "objection")
        elif good:
            registry = registry.begin(number).promote(number)
            assert parent == chain[-1]
            chain.append(number)
        else:
            registry = registry.begin(number).hold(number, "bad")
        assert registry.promoted == chain[-1]
    assert chain == sorted(set(chain))
    assert all(v.state in (State.PROMOTED, State.HELD) for v in registry.versions.values())
