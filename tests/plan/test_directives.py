"""What the user may decide: groups by hand, the first N groups, names of kinds."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.plan.graphs import MACHINE, FakeOracle, Op, can_run_in_order, graphs, make_graph, picky
from tvm_vfuse.errors import InputError
from tvm_vfuse.options import FusionOptions
from tvm_vfuse.plan.directives import apply_directives, check_kinds, check_names
from tvm_vfuse.plan.search import search


def plan_of(graph, oracle=None, **options):
    return apply_directives(graph, oracle or FakeOracle(graph), MACHINE, FusionOptions(**options), search)


def chain(names="a b c d", name="g"):
    parts = names.split()
    return make_graph([Op(parts[0], "x"), *(Op(b, a) for a, b in itertools.pairwise(parts))], name=name)


# ------------------------------------------------------------------------------------------------ by hand
def test_groups_by_hand_are_taken_as_they_are_and_the_rest_stays_alone():
    plan = plan_of(chain(), groups=(("b", "c"),))
    assert plan.text() == "0: a\n1: b c\n2: d"


def test_names_may_come_in_any_order():
    assert plan_of(chain(), groups=(("d", "c"), ("b", "a"))).text() == "0: a b\n1: c d"


def test_groups_by_hand_are_legal_even_where_they_do_not_pay():
    graph = make_graph([Op("a", "x", "stretch"), Op("b", "a", "stretch")])
    oracle = FakeOracle(graph, extra_ops=lambda m: 1e9 if len(m) > 1 else 0.0)
    assert plan_of(graph, oracle, groups=(("a", "b"),)).text() == "0: a b"


def test_a_group_by_hand_that_leaves_and_comes_back_is_refused_with_the_operator_between():
    with pytest.raises(InputError, match=r"group 0 is not legal: not-convex: b \(b\) stands between"):
        plan_of(chain(), groups=(("a", "c"),))


def test_a_group_by_hand_that_the_oracle_refuses_is_refused_with_its_reason():
    graph = make_graph([Op("a", "x", "stretch"), Op("b", "a", "stretch")])
    with pytest.raises(InputError, match=r"group 0 is not legal: refused-here: operators \(0, 1\)"):
        plan_of(graph, FakeOracle(graph, lambda m: len(m) > 1), groups=(("a", "b"),))


def test_a_group_by_hand_across_a_barrier_is_refused():
    graph = make_graph([Op("a", "x"), Op("say", "a", kind="barrier"), Op("b", "a")])
    with pytest.raises(InputError, match="not legal: not-convex: say"):
        plan_of(graph, groups=(("a", "b"),))


def test_an_operator_in_two_groups_is_refused():
    with pytest.raises(InputError, match="b is in groups 0 and 1"):
        plan_of(chain(), groups=(("a", "b"), ("b", "c")))


def test_an_operator_twice_in_one_group_is_refused():
    with pytest.raises(InputError, match="b is in groups 0 and 0"):
        plan_of(chain(), groups=(("a", "b", "b"),))


def test_a_group_over_two_blocks_is_refused_and_another_blocks_group_is_left_to_it():
    first, second = chain("a b"), chain("c d", "h")
    options = {"groups": (("a", "b"), ("c", "d"))}
    assert plan_of(first, **options).text() == "0: a b"
    assert plan_of(second, **options).text() == "0: c d"
    with pytest.raises(InputError, match="joins operators of different blocks: c is not with b"):
        plan_of(first, groups=(("b", "c"),))


def test_an_unknown_name_is_refused_with_the_nearest_known_ones():
    options = FusionOptions(groups=(("alpha", "bett"),))
    with pytest.raises(InputError, match=r"group 0 names 'bett', which is no operator of the module; nearest: beta"):
        check_names([chain("alpha beta"), chain("c d")], options)
    check_names([chain("alpha beta")], FusionOptions(groups=(("alpha", "beta"),)))
    check_names([chain("alpha beta")], FusionOptions())


def test_no_groups_by_hand_is_not_the_same_as_groups_that_are_empty():
    assert plan_of(chain("a b"), groups=()).text() == "0: a\n1: b"
    assert plan_of(chain("a b")).text() == "0: a b"


# ------------------------------------------------------------------------------------------------ kinds
@pytest.mark.parametrize("option", ["always", "never"])
def test_an_unknown_kind_is_refused_with_the_nearest_and_all_known_ones(option):
    with pytest.raises(
        InputError, match=rf"--{option}: 'siblings' is no kind of fusion; did you mean sibling\? .*recompute"
    ):
        check_kinds(FusionOptions(**{option: ("siblings",)}))


def test_kinds_are_checked_even_where_groups_are_given():
    with pytest.raises(InputError, match="no kind of fusion"):
        plan_of(chain("a b"), groups=(("a", "b"),), never=("nothing",))


# ------------------------------------------------------------------------------------------------ the first N groups
def many_chains():
    parts = [[Op(f"a{k}", f"x{k}"), Op(f"b{k}", f"a{k}")] for k in range(4)]
    return make_graph([o for part in parts for o in part])


@pytest.mark.parametrize(("count", "left"), [(0, 0), (1, 0), (3, 0), (4, 0), (9, 5)])
def test_the_first_n_fusions_stay_and_the_others_are_taken_apart(count, left):
    plan, rest = search(many_chains(), FakeOracle(many_chains()), MACHINE, FusionOptions()).first(count)
    fused = [g.members for g in plan.groups if len(g.members) > 1]
    assert fused == [(0, 1), (2, 3), (4, 5), (6, 7)][:count]
    assert rest == left


@settings(max_examples=100, deadline=None, derandomize=True)
@given(graphs(), st.integers(0, 2**20), st.integers(0, 6))
def test_a_plan_cut_to_its_first_fusions_is_still_a_plan(graph, salt, count):
    whole = search(graph, picky(graph, salt), MACHINE, FusionOptions())
    plan, left = whole.first(count)
    assert can_run_in_order(graph, plan.groups)
    fused = [g for g in plan.groups if len(g.all_members) > 1]
    assert len(fused) == count - left
    assert all(g in whole.groups for g in fused)
    if count:
        fewer, _ = whole.first(count - 1)
        assert {g.all_members for g in fewer.groups if len(g.all_members) > 1} <= {g.all_members for g in fused}
