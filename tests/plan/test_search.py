"""The searched plan on random graphs: legal, convex, within what the user asked for."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.plan.graphs import (
    MACHINE,
    SHAPE,
    FakeOracle,
    Op,
    can_run_in_order,
    graphs,
    is_connected,
    is_convex,
    joined,
    make_graph,
    pairs,
    picky,
)
from tvm_vfuse.legality.candidate import KINDS
from tvm_vfuse.options import FusionOptions
from tvm_vfuse.plan.search import RULE_MODE_KINDS, Pricing, search

DEFAULT = FusionOptions()
salts = st.integers(0, 2**20)


def names(plan):
    return [[plan.graph.operators[i].name for i in g.members] for g in plan.groups]


def reasons(plan):
    ops = plan.graph.operators
    return {(ops[r.producer].name, ops[r.consumer].name): r.reason for r in plan.refused}


# ------------------------------------------------------------------------------------------------ on random graphs
@settings(max_examples=200, deadline=None, derandomize=True)
@given(graphs(), salts)
def test_a_plan_is_a_partition_into_convex_legal_groups_that_can_run_in_order(graph, salt):
    oracle = picky(graph, salt)
    plan = search(graph, oracle, MACHINE, DEFAULT)
    plan.verify()
    assert can_run_in_order(graph, plan.groups)
    for g in plan.groups:
        assert is_convex(graph, g.members)
        if len(g.all_members) > 1:
            assert all(graph.operators[i].kind == "kernel" for i in g.all_members)
            assert sum(graph.operators[i].contraction for i in g.members) <= 1
            assert g.facts is None or oracle(g.members, g.clones).legal


@settings(max_examples=100, deadline=None, derandomize=True)
@given(graphs(), salts)
def test_no_group_is_predicted_to_be_slower_than_its_operators_apart(graph, salt):
    oracle = picky(graph, salt)
    plan = search(graph, oracle, MACHINE, FusionOptions(never=("recompute",)))
    price = Pricing(graph, MACHINE)
    for g in plan.groups:
        if len(g.members) > 1:
            apart = sum(
                price.time_us((i,), None if graph.operators[i].pointwise else oracle((i,)).facts) for i in g.members
            )
            assert g.predicted_us < apart


@settings(max_examples=100, deadline=None, derandomize=True)
@given(graphs(), salts)
def test_every_edge_between_groups_has_a_reason(graph, salt):
    plan = search(graph, picky(graph, salt), MACHINE, DEFAULT)
    owner = {i: n for n, g in enumerate(plan.groups) for i in g.members}
    cut = {(a, b) for a, b in pairs(graph) if owner[a] != owner[b]}
    assert {(r.producer, r.consumer) for r in plan.refused} == cut
    assert all(r.reason and r.detail for r in plan.refused)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(graphs(), salts, st.integers(1, 5))
def test_no_group_exceeds_the_size_that_was_asked_for(graph, salt, limit):
    plan = search(graph, picky(graph, salt), MACHINE, FusionOptions(max_group_size=limit))
    assert all(len(g.all_members) <= limit for g in plan.groups)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(graphs(), salts)
def test_without_all_kinds_nothing_is_fused(graph, salt):
    plan = search(graph, picky(graph, salt), MACHINE, FusionOptions(never=KINDS))
    assert all(len(g.all_members) == 1 for g in plan.groups)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(graphs(only_kernels=True), salts)
def test_without_siblings_each_group_hangs_together_by_data_edges(graph, salt):
    plan = search(graph, picky(graph, salt), MACHINE, FusionOptions(never=("sibling",)))
    edges = set(pairs(graph))
    for g in plan.groups:
        assert is_connected(g.members, lambda a, b: (a, b) in edges or (b, a) in edges)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(graphs(only_kernels=True), salts)
def test_without_contraction_prologues_no_contraction_reads_a_value_of_its_group(graph, salt):
    plan = search(graph, picky(graph, salt), MACHINE, FusionOptions(never=("contraction-prologue",)))
    for g in plan.groups:
        made = {v for i in g.members for v in graph.operators[i].outputs}
        assert not any(made & set(graph.operators[i].inputs) for i in g.members if graph.operators[i].contraction)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(graphs(only_kernels=True), salts)
def test_every_group_hangs_together_by_values_that_its_members_share(graph, salt):
    plan = search(graph, picky(graph, salt), MACHINE, FusionOptions(never=("recompute",)))
    assert all(is_connected(g.members, lambda a, b: joined(graph, a, b)) for g in plan.groups)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(graphs(), salts)
def test_the_same_graph_gives_the_same_text(graph, salt):
    first, second = (search(graph, picky(graph, salt), MACHINE, DEFAULT) for _ in range(2))
    assert first.text() == second.text()
    assert first.refused == second.refused


# ------------------------------------------------------------------------------------------------ by hand
def test_a_chain_becomes_one_group():
    graph = make_graph([Op("a", "x"), Op("b", "a"), Op("c", "b")])
    assert names(search(graph, FakeOracle(graph), MACHINE, DEFAULT)) == [["a", "b", "c"]]


def test_a_pointwise_chain_is_evaluated_once_and_only_for_the_report():
    graph = make_graph([Op("a", "x"), Op("b", "a"), Op("c", "b")])
    oracle = FakeOracle(graph)
    search(graph, oracle, MACHINE, DEFAULT)
    assert oracle.asked in ([], [((0, 1, 2), ())])


def test_a_diamond_and_its_side_output_become_one_group():
    graph = make_graph([Op("a", "x"), Op("b", "a"), Op("c", "a", live=True), Op("d", "b c")])
    assert names(search(graph, FakeOracle(graph), MACHINE, DEFAULT)) == [["a", "b", "c", "d"]]


def test_two_readers_of_one_large_tensor_become_one_group():
    graph = make_graph([Op("a", "x"), Op("b", "x")], {"x": (1024, 1024)})
    assert names(search(graph, FakeOracle(graph), MACHINE, DEFAULT)) == [["a", "b"]]


def test_a_matmul_between_keeps_both_sides_apart():
    """p feeds the opaque m and the last operator: p and q in one kernel would run before and after m."""
    graph = make_graph([Op("p", "x"), Op("m", "p", kind="opaque"), Op("q", "p m")])
    plan = search(graph, FakeOracle(graph), MACHINE, DEFAULT)
    assert names(plan) == [["p"], ["m"], ["q"]]
    assert reasons(plan) == {("p", "m"): "opaque", ("p", "q"): "not-convex", ("m", "q"): "opaque"}


def test_nothing_moves_across_a_barrier():
    graph = make_graph([Op("a", "x"), Op("print", "a", kind="barrier"), Op("b", "a")])
    plan = search(graph, FakeOracle(graph), MACHINE, DEFAULT)
    assert names(plan) == [["a"], ["print"], ["b"]]
    assert reasons(plan)[("a", "b")] == "not-convex"


def test_a_set_that_the_oracle_refuses_is_cut_and_says_so():
    graph = make_graph([Op("a", "x", "stretch"), Op("b", "a", "stretch")])
    plan = search(graph, FakeOracle(graph, lambda m: m == (0, 1)), MACHINE, DEFAULT)
    assert names(plan) == [["a"], ["b"]]
    assert reasons(plan) == {("a", "b"): "refused-here"}


def test_a_fusion_that_recomputes_more_than_it_saves_does_not_pay_unless_it_is_forced():
    graph = make_graph([Op("a", "x", "stretch"), Op("b", "a", "stretch")])
    oracle = FakeOracle(graph, extra_ops=lambda m: 1e9 if len(m) > 1 else 0.0)
    plan = search(graph, oracle, MACHINE, DEFAULT)
    assert names(plan) == [["a"], ["b"]]
    (refusal,) = plan.refused
    assert refusal.reason == "does-not-pay"
    assert refusal.slack == "--always elementwise"
    forced = search(graph, oracle, MACHINE, FusionOptions(always=("elementwise",)))
    assert names(forced) == [["a", "b"]]


def test_the_fusion_that_saves_most_comes_first():
    """b may join a or c, not both: the larger tensor decides."""
    graph = make_graph(
        [Op("a", "x", "stretch", shape=(8,)), Op("b", "a y", "stretch", shape=(1024, 1024)), Op("c", "b", "stretch")]
    )
    plan = search(graph, FakeOracle(graph, lambda m: m == (0, 1, 2)), MACHINE, FusionOptions(never=("recompute",)))
    assert names(plan) == [["a"], ["b", "c"]]


@pytest.mark.parametrize(
    ("kind", "graph"),
    [
        ("elementwise", [Op("a", "x"), Op("b", "a")]),
        ("sibling", [Op("a", "x"), Op("b", "x")]),
        ("reduction-prologue", [Op("a", "x"), Op("b", "a", "reduction")]),
        ("reduction-epilogue", [Op("a", "x", "reduction"), Op("b", "a")]),
        ("several-reductions", [Op("a", "x", "reduction"), Op("b", "a", "reduction")]),
        ("contraction-epilogue", [Op("a", "x", "contraction"), Op("b", "a")]),
        ("contraction-prologue", [Op("a", "x"), Op("b", "a", "contraction")]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_kind_can_be_switched_off_and_is_the_reason_then(kind, graph):
    graph = make_graph(graph)
    assert names(search(graph, FakeOracle(graph), MACHINE, DEFAULT)) == [["a", "b"]]
    plan = search(graph, FakeOracle(graph), MACHINE, FusionOptions(never=(kind, "recompute")))
    assert names(plan) == [["a"], ["b"]]
    if kind != "sibling":
        assert reasons(plan) == {("a", "b"): "never"}
    others = tuple(k for k in KINDS if k != kind)
    assert names(search(graph, FakeOracle(graph), MACHINE, FusionOptions(never=others))) == [["a", "b"]]


@pytest.mark.parametrize("kind", [k for k in KINDS if k not in ("sibling", "recompute")])
def test_the_rule_based_mode_has_templates_for_its_kinds_only(kind):
    first = {
        "reduction-epilogue": "reduction",
        "several-reductions": "reduction",
        "contraction-epilogue": "contraction",
    }
    second = {
        "reduction-prologue": "reduction",
        "several-reductions": "reduction",
        "contraction-prologue": "contraction",
    }
    graph = make_graph([Op("a", "x", first.get(kind, "pointwise")), Op("b", "a", second.get(kind, "pointwise"))])
    plan = search(graph, FakeOracle(graph), MACHINE, FusionOptions(mode="rules"))
    assert names(plan) == ([["a", "b"]] if kind in RULE_MODE_KINDS else [["a"], ["b"]])
    if kind not in RULE_MODE_KINDS:
        assert reasons(plan) == {("a", "b"): "no-template"}


def test_the_rule_based_mode_asks_no_model():
    graph = make_graph([Op("a", "x", "stretch"), Op("b", "a", "stretch")])
    oracle = FakeOracle(graph, extra_ops=lambda m: 1e9 if len(m) > 1 else 0.0)
    assert names(search(graph, oracle, MACHINE, FusionOptions(mode="rules"))) == [["a", "b"]]


def test_symbolic_shapes_are_planned_like_known_ones():
    graph = make_graph([Op("a", "x", shape=("n", 64)), Op("b", "a", shape=("n", 64))], {"x": ("n", 64)})
    assert names(search(graph, FakeOracle(graph), MACHINE, DEFAULT)) == [["a", "b"]]


def test_a_chain_of_2000_is_planned_as_one_group():
    ops = [Op("op0", "x"), *(Op(f"op{i}", f"op{i - 1}") for i in range(1, 2000))]
    graph = make_graph(ops, {"x": SHAPE})
    (group,) = search(graph, FakeOracle(graph), MACHINE, DEFAULT).groups
    assert len(group.members) == 2000
