"""Each rule accepts what is legal and refuses what is not, with the reason, the operators and the numbers."""

from __future__ import annotations

import numpy as np
import pytest

from tests.graph.regions import oracle_of, region_of
from tests.plan.graphs import FakeOracle, Op, make_graph
from tests.schedule.equivalence import graph
from tvm_vfuse.legality import rules
from tvm_vfuse.legality.candidate import KINDS, Candidate
from tvm_vfuse.legality.verdict import LEGAL, Facts, Verdict


def candidate(ops, first=(0,), second=(1,), bypass=None, shapes=None):
    return Candidate(make_graph(ops, shapes), first, second, bypass)


def ask(rule, given):
    return rule(given, FakeOracle(given.graph))


def whole(mod):
    """The module's first operator against all others, and the oracle that evaluates them."""
    region = region_of(mod)
    others = tuple(range(1, len(region.graph.operators)))
    return Candidate(region.graph, (0,), others), oracle_of(region)


# ------------------------------------------------------------------------------------------------ members_are_kernels
def test_kernels_may_be_members():
    assert ask(rules.members_are_kernels, candidate([Op("a", "x"), Op("b", "a")])).legal


@pytest.mark.parametrize("kind", ["opaque", "other", "barrier"])
@pytest.mark.parametrize("second", [False, True])
def test_what_is_no_kernel_may_not_be_a_member(kind, second):
    ops = [Op("a", "x", kind="kernel" if second else kind), Op("b", "a", kind=kind if second else "kernel")]
    verdict = ask(rules.members_are_kernels, candidate(ops))
    name = "b" if second else "a"
    assert verdict.reason == kind
    assert verdict.detail == f"{name} ({name}): {name} is {kind}"


# ---------------------------------------------------------------------------------------------------- group_is_convex
def test_a_group_without_an_outsider_between_is_convex():
    assert ask(rules.group_is_convex, candidate([Op("a", "x"), Op("b", "a")])).legal


def test_an_outsider_between_is_named_with_both_sides_and_the_way_out():
    ops = [Op("a", "x"), Op("m", "a", kind="opaque"), Op("b", "a m")]
    verdict = ask(rules.group_is_convex, candidate(ops, (0,), (2,), bypass=1))
    assert verdict.reason == "not-convex"
    assert all(f"{n} ({n})" in verdict.detail for n in "amb")
    assert "join" in verdict.slack


# ------------------------------------------------------------------------------------------------ shapes_are_nonempty
def test_tensors_with_elements_are_accepted():
    assert ask(rules.shapes_are_nonempty, candidate([Op("a", "x", shape=("n", 1)), Op("b", "a", shape=(1,))])).legal


@pytest.mark.parametrize("shape", [(0,), (3, 0, 2), (0, "n")], ids=str)
@pytest.mark.parametrize("where", ["input", "output"])
def test_a_tensor_without_elements_is_refused_with_its_shape(shape, where):
    ops = [Op("a", "x"), Op("b", "a y", shape=shape if where == "output" else (4,))]
    shapes = {"y": shape if where == "input" else (4,)}
    verdict = ask(rules.shapes_are_nonempty, candidate(ops, shapes=shapes))
    assert verdict.reason == "zero-size"
    assert verdict.detail == f"{'y' if where == 'input' else 'b'} of b (b) has shape {list(shape)}"


# ---------------------------------------------------------------------------------------------------- one_contraction
def test_one_contraction_is_accepted():
    ops = [Op("a", "x"), Op("m", "a w", "contraction"), Op("r", "m", "reduction")]
    assert ask(rules.one_contraction, candidate(ops, (0,), (1, 2))).legal


def test_two_contractions_are_refused_by_name():
    ops = [Op("m", "x w", "contraction"), Op("n", "x v", "contraction")]
    verdict = ask(rules.one_contraction, candidate(ops))
    assert verdict.reason == "two-contractions"
    assert "m (m)" in verdict.detail
    assert "n (n)" in verdict.detail


# -------------------------------------------------------------------------------------------------------- shared_axes
def test_pointwise_members_of_one_shape_share_their_axes_without_an_evaluation():
    given = candidate([Op("a", "x"), Op("b", "a x")])
    oracle = FakeOracle(given.graph)
    assert rules.shared_axes(given, oracle) == LEGAL
    assert oracle.asked == []


def test_a_cut_holds_for_pointwise_members_too():
    """What could not be built is not planned again."""
    given = candidate([Op("a", "x"), Op("b", "a x")])
    oracle = FakeOracle(given.graph, cuts={((0, 1), ()): Verdict("unbuildable", "no template takes it")})
    assert rules.shared_axes(given, oracle).reason == "unbuildable"


@pytest.mark.parametrize(
    "ops",
    [
        [Op("a", "x", shape=(8, 1)), Op("b", "a x", shape=(8, 8))],  # two shapes
        [Op("a", "x"), Op("b", "a", "reduction")],
        [Op("a", "x"), Op("b", "a", "stretch")],
        [Op("a", "x", outputs=2), Op("b", "a")],
    ],
)
def test_everything_else_is_evaluated(ops):
    given = candidate(ops)
    oracle = FakeOracle(given.graph)
    verdict = rules.shared_axes(given, oracle)
    assert oracle.asked == [((0, 1), ())]
    assert verdict.facts.template == "fake"


LEGAL_GROUPS = {
    "softmax and its epilogue": (lambda g, x: g.relu(g.softmax(x, axis=-1)), (8, 32), "row-reduction"),
    "transposed": (lambda g, x: g.permute_dims(g.exp(x), [1, 0]), (8, 32), "elementwise"),
    "cut by a reshape": (lambda g, x: g.max(g.reshape(g.exp(x), (8, 4, 8)), axis=-1), (8, 32), None),
}


@pytest.mark.parametrize("name", LEGAL_GROUPS)
def test_common_axes_are_found(name):
    body, shape, template = LEGAL_GROUPS[name]
    verdict = rules.shared_axes(*whole(graph(body, shape)))
    assert verdict.legal, verdict
    assert verdict.facts.block_axes
    assert template in (None, verdict.facts.template)


def two_axes(g, x):
    return [g.sum(x, axis=0), g.sum(x, axis=1)]


def other_row(g, x):
    return g.add(g.flip(g.sum(x, axis=1), axis=0), g.sum(x, axis=1))


def windows(g, x):
    return g.max_pool2d(g.exp(x), pool_size=3, strides=1)


def columns(g, x, w):
    return g.matmul(g.tanh(x), w)


REFUSED_GROUPS = {
    "sums of rows and of columns": (two_axes, [(8, 32)], "no-common-axes", ["8", "32"]),
    "a row sum read by another row": (other_row, [(8, 32)], "reduction-read-by-other-row", ["reads the reduction"]),
    "exp in windows": (windows, [(1, 1, 9, 9)], "expensive-recompute", ["81", "441"]),
    "tanh before a product": (columns, [(8, 32), (32, 16)], "expensive-recompute", ["256", "4096"]),
}


@pytest.mark.parametrize("name", REFUSED_GROUPS)
def test_no_common_axes_are_refused_with_the_numbers(name):
    body, shapes, reason, numbers = REFUSED_GROUPS[name]
    verdict = rules.shared_axes(*whole(graph(body, *shapes)))
    assert verdict.reason == reason
    assert all(n in verdict.detail for n in numbers), verdict.detail


# -------------------------------------------------------------------------------------------------------------- judge
def test_the_first_refusal_counts():
    ops = [Op("a", "x", shape=(0,), kind="opaque"), Op("b", "a", shape=(0,))]
    given = candidate(ops, bypass=0)
    assert rules.judge(given, FakeOracle(given.graph)).reason == "opaque"
    assert rules.judge(given, FakeOracle(given.graph), rules.RULES[1:]).reason == "not-convex"
    assert rules.judge(given, FakeOracle(given.graph), rules.RULES[2:]).reason == "zero-size"


def test_a_legal_verdict_carries_the_facts_of_the_evaluation():
    given = candidate([Op("a", "x"), Op("b", "a", "stretch")])
    verdict = rules.judge(given, FakeOracle(given.graph))
    assert verdict.legal
    assert verdict.facts == Facts("fake", ("256",), vector_ops=2.0 * 256 * 64)


def test_a_verdict_is_no_truth_value():
    with pytest.raises(TypeError, match=r"ask \.legal"):
        bool(Verdict("reason", "detail"))
    with pytest.raises(TypeError, match="no bool"):
        bool(LEGAL)


# -------------------------------------------------------------------------------------------------------------- kinds
@pytest.mark.parametrize(
    ("ops", "kind"),
    [
        ([Op("a", "x"), Op("b", "x")], "sibling"),
        ([Op("a", "x"), Op("b", "a")], "elementwise"),
        ([Op("a", "x"), Op("b", "a", "reduction")], "reduction-prologue"),
        ([Op("a", "x", "reduction"), Op("b", "a")], "reduction-epilogue"),
        ([Op("a", "x", "reduction"), Op("b", "a", "reduction")], "several-reductions"),
        ([Op("a", "x", "contraction"), Op("b", "a", "reduction")], "contraction-epilogue"),
        ([Op("a", "x", "reduction"), Op("b", "a", "contraction")], "contraction-prologue"),
    ],
)
def test_the_kind_of_a_fusion_follows_from_what_both_sides_do(ops, kind):
    assert candidate(ops).kind == kind
    assert kind in KINDS


def test_a_pointwise_candidate_has_one_shape_with_elements():
    pair = [Op("a", "x"), Op("b", "a")]
    assert candidate(pair).is_pointwise
    assert not candidate([Op("a", "x", shape=(0,)), Op("b", "a", shape=(0,))]).is_pointwise
    assert not candidate([Op("a", "x"), Op("b", "a", shape=(8,))]).is_pointwise


def test_links_are_the_values_handed_on():
    given = candidate([Op("a", "x"), Op("b", "x"), Op("c", "a b a")], (0, 1), (2,))
    assert [given.graph.values[v].name for v in given.links] == ["a", "b"]


def test_the_real_oracle_remembers_its_answers():
    region = region_of(graph(lambda g, x: g.relu(g.exp(x)), (8, 32)))
    oracle = oracle_of(region)
    first = oracle((0, 1), ())
    assert oracle((0, 1), ()) is first
    assert np.isfinite(first.facts.vector_ops)
