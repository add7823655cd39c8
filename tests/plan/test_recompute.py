"""Cheap producers are computed again in all of their readers or in none; expensive ones never."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.plan.graphs import MACHINE, FakeOracle, Op, graphs, make_graph, picky
from tvm_vfuse.legality.verdict import Verdict
from tvm_vfuse.options import FusionOptions
from tvm_vfuse.plan.model import FusionPlan
from tvm_vfuse.plan.search import search

DEFAULT = FusionOptions()
# p feeds two products; they and p in one kernel would need two register tiles, and p is neither's alone.
LARGE = (1024, 1024)


def two_readers(producer: str = "pointwise", live: bool = False, ops_per_element: float = 1.0):
    return make_graph(
        [
            Op("p", "x", producer, shape=LARGE, live=live, ops_per_element=ops_per_element),
            Op("m", "p w", "contraction", shape=LARGE),
            Op("n", "p v", "contraction", shape=LARGE),
        ],
        {"x": LARGE, "w": LARGE, "v": LARGE},
    )


def apart(graph):
    """Members and clones together must not hold both products, nor p without being cloned."""
    return FakeOracle(graph, lambda inside: {1, 2} <= set(inside))


def clones(plan: FusionPlan) -> dict[str, list[str]]:
    name = [o.name for o in plan.graph.operators]
    return {name[g.members[0]]: [name[i] for i in g.clones] for g in plan.groups if g.clones}


def only_cloned(graph):
    """Nothing joins p but as a clone."""

    class Oracle(FakeOracle):
        def __call__(self, members, clones=()):
            if 0 in members and len(members) > 1:
                return Verdict("refused-here", "p is read by two")
            return super().__call__(members, clones)

    return Oracle(graph, lambda inside: {1, 2} <= set(inside))


def test_a_cheap_producer_is_computed_again_in_all_readers():
    graph = two_readers()
    plan = search(graph, only_cloned(graph), MACHINE, DEFAULT)
    assert clones(plan) == {"m": ["p"], "n": ["p"]}
    assert [g.members for g in plan.groups] == [(0,), (1,), (2,)]


def test_recompute_can_be_switched_off():
    graph = two_readers()
    assert clones(search(graph, only_cloned(graph), MACHINE, FusionOptions(never=("recompute",)))) == {}


def test_the_rule_based_mode_computes_nothing_again():
    graph = two_readers()
    assert clones(search(graph, only_cloned(graph), MACHINE, FusionOptions(mode="rules"))) == {}


def test_an_expensive_producer_is_never_computed_again():
    graph = two_readers("exp")
    assert clones(search(graph, only_cloned(graph), MACHINE, DEFAULT)) == {}


def test_a_reduction_is_never_computed_again():
    graph = two_readers("reduction")
    assert clones(search(graph, only_cloned(graph), MACHINE, DEFAULT)) == {}


def test_many_operations_an_element_are_not_cheap():
    graph = two_readers(ops_per_element=8.0)
    assert clones(search(graph, only_cloned(graph), MACHINE, DEFAULT)) == {}


def test_a_producer_that_is_an_output_is_written_anyway_and_not_computed_again():
    graph = two_readers(live=True)
    assert clones(search(graph, only_cloned(graph), MACHINE, DEFAULT)) == {}


def test_one_reader_that_can_not_take_it_is_enough_to_leave_it():
    graph = two_readers()

    class Oracle(FakeOracle):
        def __call__(self, members, clones=()):
            if (0 in members and len(members) > 1) or (2 in members and clones):
                return Verdict("refused-here", "not n")
            return super().__call__(members, clones)

    assert clones(search(graph, Oracle(graph, lambda inside: {1, 2} <= set(inside)), MACHINE, DEFAULT)) == {}


def test_a_reader_that_is_no_kernel_is_enough_to_leave_it():
    graph = make_graph(
        [
            Op("p", "x", shape=LARGE),
            Op("m", "p w", "contraction", shape=LARGE),
            Op("q", "p", kind="opaque", shape=LARGE),
        ],
        {"x": LARGE, "w": LARGE},
    )
    oracle = FakeOracle(graph, lambda inside: {0, 1} <= set(inside))
    assert clones(search(graph, oracle, MACHINE, DEFAULT)) == {}


@pytest.mark.parametrize(("kind", "cloned"), [("barrier", {}), ("other", {"m": ["p"], "n": ["p"]})])
def test_nothing_is_computed_again_behind_a_barrier(kind, cloned):
    """An in-place call may have overwritten what p reads; another call between does no harm."""
    products = [Op("m", "p w", "contraction", shape=LARGE), Op("n", "p v", "contraction", shape=LARGE)]
    ops = [Op("p", "x", shape=LARGE), Op("call", "y", kind=kind), *products]
    graph = make_graph(ops, {"x": LARGE, "w": LARGE, "v": LARGE})

    class Oracle(FakeOracle):
        def __call__(self, members, clones=()):
            if {0, 2} <= set(members) or {0, 3} <= set(members) or {2, 3} <= {*members, *clones}:
                return Verdict("refused-here", "only clones")
            return super().__call__(members, clones)

    assert clones(search(graph, Oracle(graph), MACHINE, DEFAULT)) == cloned


def test_nothing_is_computed_again_beside_a_tensor_without_elements():
    """The rules of legality hold for what is computed again, too."""
    ops = [Op("p", "x"), Op("m", "p empty", "stretch"), Op("n", "p v", "contraction")]
    graph = make_graph(ops, {"empty": (0, 64)})
    assert clones(search(graph, only_cloned(graph), MACHINE, DEFAULT)) == {}
    full = make_graph(ops, {"empty": (1, 64)})
    assert clones(search(full, only_cloned(full), MACHINE, DEFAULT)) == {"m": ["p"], "n": ["p"]}


def test_the_group_size_counts_what_is_computed_again():
    graph = two_readers()
    assert clones(search(graph, only_cloned(graph), MACHINE, FusionOptions(max_group_size=1))) == {}
    assert clones(search(graph, only_cloned(graph), MACHINE, FusionOptions(max_group_size=2))) != {}


@settings(max_examples=300, deadline=None, derandomize=True)
@given(graphs(only_kernels=True), st.integers(0, 2**20))
def test_clones_are_cheap_and_all_readers_have_them(graph, salt):
    plan = search(graph, picky(graph, salt, 2), MACHINE, DEFAULT)
    plan.verify()
    holders = {i: [g for g in plan.groups if i in g.all_members] for o in graph.operators for i in [o.index]}
    for i in sorted({c for g in plan.groups for c in g.clones}):
        op = graph.operators[i]
        assert op.pointwise or not (op.reductions or op.contraction)
        assert not op.expensive
        assert not any(graph.values[v].live_out for v in op.outputs)
        (owner,) = [g for g in plan.groups if i in g.members]
        for v in op.outputs:
            for reader in graph.consumers[v]:
                (home,) = [g for g in plan.groups if reader in g.members]
                assert home is owner or i in home.clones
        assert len(holders[i]) >= 2
