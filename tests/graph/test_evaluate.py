"""A group at one symbolic point: its block axes, what is evaluated how often, and what is refused."""

from __future__ import annotations

import pytest
import tvm
from tvm.ir import Var

from tests.cases.modules import const
from tests.graph.regions import evaluation_of, everything, oracle_of, region_of, verdict_of
from tests.schedule.equivalence import graph
from tvm_vfuse.errors import Reject
from tvm_vfuse.graph.indices import const_int


def extents(axes):
    """Extents of the axes that are longer than 1."""
    return [a.size for a in axes if a.size != 1]


def nodes_of(evaluation, kind):
    return [n for n in evaluation.nodes if n.kind == kind]


def refusal_of(mod: tvm.IRModule) -> Reject:
    with pytest.raises(Reject) as refused:
        evaluation_of(mod)
    return refused.value


def softmax(g, x):
    return g.softmax(x, axis=-1)


def instance_norm(g, x):
    centred = g.subtract(x, g.mean(x, axis=[2, 3], keepdims=True))
    return g.divide(centred, g.sqrt(g.mean(g.multiply(centred, centred), axis=[2, 3], keepdims=True)))


def batch_statistics(g, x):
    return [g.mean(x, axis=[0, 2, 3]), g.max(x, axis=[0, 2, 3])]


# ----------------------------------------------------------------------------------------------------------- block axes
PLACED = {
    # body, shapes, extents of the space axes, of the reduce axes
    "elementwise": (lambda g, x: g.exp(g.relu(x)), [(8, 32)], [8, 32], []),
    "scalar": (lambda g, x: g.exp(x), [()], [], []),
    "rows": (softmax, [(8, 32)], [8], [32]),
    "columns": (lambda g, x: g.softmax(x, axis=0), [(8, 32)], [32], [8]),
    "instance norm": (instance_norm, [(2, 3, 4, 5)], [2, 3], [4, 5]),
    "batch statistics": (batch_statistics, [(2, 3, 4, 5)], [3], [2, 4, 5]),
    "everything summed": (lambda g, x: g.sum(g.exp(x)), [(4, 8)], [], [4, 8]),
    "product": (lambda g, x, w, b: g.relu(g.add(g.matmul(x, w), b)), [(8, 32), (32, 16), (16,)], [8, 16], [32]),
    "convolution": (lambda g, x, w: g.relu(g.conv2d(x, w)), [(2, 3, 8, 9), (4, 3, 3, 3)], [2, 4, 6, 7], [3, 3, 3]),
    "transpose before a sum": (lambda g, x: g.sum(g.permute_dims(x, [1, 0]), axis=1), [(8, 32)], [32], [8]),
    "sum before a transpose": (
        lambda g, x: g.permute_dims(g.sum(x, axis=2, keepdims=True), [1, 0, 2]), [(3, 5, 16)], [3, 5], [16],
    ),
    "siblings": (lambda g, x: [g.sum(x, axis=1), g.max(g.exp(x), axis=1), g.relu(x)], [(8, 32)], [8], [32]),
    "reshaped rows": (lambda g, x: g.sum(g.reshape(g.exp(x), (4, 2, 32)), axis=2), [(8, 32)], [4, 2], [32]),
    "nested sums": (lambda g, x: g.subtract(x, g.sum(g.exp(x), axis=1, keepdims=True)), [(8, 32)], [8], [32]),
}  # fmt: skip


@pytest.mark.parametrize("name", PLACED)
def test_the_shared_axes_of_a_group(name):
    body, shapes, space, reduce = PLACED[name]
    where = evaluation_of(graph(body, *shapes)).placement
    assert (extents(where.space), extents(where.reduce)) == (space, reduce)


def test_a_reshape_splits_the_axis_that_it_cuts():
    """Row maxima in pieces of 8: the axis of 32 becomes 4 x 8."""
    mod = graph(lambda g, x: g.max(g.reshape(g.exp(x), (8, 4, 8)), axis=2), (8, 32))
    where = evaluation_of(mod).placement
    assert (extents(where.space), extents(where.reduce)) == ([8, 4], [8])
    mod = graph(lambda g, x: [g.softmax(x, axis=1), g.reshape(g.exp(x), (8, 4, 8))], (8, 32))
    where = evaluation_of(mod).placement
    assert (extents(where.space), extents(where.reduce)) == ([8], [4, 8])


def test_symbolic_axes_are_shared_too():
    n, m = Var("n", "int64"), Var("m", "int64")
    where = evaluation_of(graph(softmax, (n, m))).placement
    assert [str(a.extent) for a in (*where.space, *where.reduce)] == ["n", "m"]


# ----------------------------------------------------------------------------------------------------------- refusals
def flipped_sums(g, x):
    return g.add(g.flip(g.sum(x, axis=1), axis=0), g.sum(x, axis=1))


def crossed_softmax(g, x):
    return g.softmax(g.permute_dims(g.softmax(x, axis=1), [1, 0]), axis=1)


def windows_of_exp(g, x):
    return g.max_pool2d(g.exp(x), pool_size=3, strides=1)


REFUSED = {
    "sums along both axes": (lambda g, x: [g.sum(x, axis=0), g.sum(x, axis=1)], [(8, 32)], "no-common-axes", "8 32"),
    "two shapes": (lambda g, x, y: [g.exp(x), g.exp(y)], [(8, 32), (5, 7)], "no-common-axes", "8 32 5 7"),
    "sums of other rows": (flipped_sums, [(8, 32)], "reduction-read-by-other-row", "["),
    "softmax of a transposed softmax": (crossed_softmax, [(32, 32)], "reduction-read-by-other-row", "["),
    "exp in overlapping windows": (windows_of_exp, [(1, 1, 9, 9)], "expensive-recompute", "81 441"),
    "exp before a product": (
        lambda g, x, w: g.matmul(g.exp(x), w),
        [(8, 32), (32, 16)],
        "expensive-recompute",
        "256 4096",
    ),
    "exp repeated": (lambda g, x: g.repeat(g.exp(x), 4, axis=0), [(8, 32)], "expensive-recompute", "256 1024"),
    "no elements": (lambda g, x: g.exp(g.relu(x)), [(0, 4)], "zero-size", ""),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_can_not_be_one_kernel_says_why(name):
    body, shapes, reason, numbers = REFUSED[name]
    refused = refusal_of(graph(body, *shapes))
    assert refused.reason == reason
    assert all(n in refused.detail for n in numbers.split()), refused.detail


# ------------------------------------------------------------------------------------------------------------ how often
def test_a_diamond_is_evaluated_once():
    def body(g, x):
        e = g.exp(x)
        return g.add(g.relu(e), g.tanh(e))

    evaluation = evaluation_of(graph(body, (8, 32)))
    assert len(nodes_of(evaluation, "load")) == 1
    assert len(nodes_of(evaluation, "compute")) == 4


def test_a_tower_of_diamonds_grows_by_its_operators_only():
    def body(g, x):
        for _ in range(24):
            x = g.add(g.multiply(x, const(0.5)), g.tanh(x))
        return x

    assert len(evaluation_of(graph(body, (8, 32))).nodes) == 1 + 24 * 3


def test_one_value_that_is_read_at_two_places_is_two_nodes():
    evaluation = evaluation_of(graph(lambda g, x: g.add(g.relu(x), g.permute_dims(g.relu(x), [1, 0])), (8, 8)))
    assert len(nodes_of(evaluation, "load")) == 2


def test_levels_follow_the_reductions_that_must_be_finished_before():
    evaluation = evaluation_of(graph(softmax, (8, 32)))
    assert evaluation.levels == 3  # the maximum, the sum, the quotient
    assert [n.level for n in evaluation.reductions] == [0, 1]
    assert evaluation_of(graph(lambda g, x: g.exp(x), (8, 32))).levels == 1


def test_cheap_recompute_is_counted():
    """Each of the 49 windows of 9 adds anew: 441 additions and 441 maxima, where 81 + 441 would do."""
    region = region_of(graph(lambda g, x: g.max_pool2d(g.add(x, x), pool_size=3, strides=1), (1, 1, 9, 9)))
    verdict = oracle_of(region)(everything(region), ())
    apart = sum(o.vector_ops for o in region.graph.operators)
    assert verdict.legal
    assert verdict.facts.vector_ops >= 441 + 441
    assert verdict.facts.vector_ops > apart


def test_no_recompute_counts_what_the_operators_do():
    region = region_of(graph(lambda g, x, y: g.exp(g.multiply(g.add(x, y), y)), (8, 32), (8, 32)))
    verdict = oracle_of(region)(everything(region), ())
    assert verdict.facts.vector_ops == sum(o.vector_ops for o in region.graph.operators)


def test_the_parts_of_a_concatenation_are_guarded_and_not_repeated():
    mod = graph(lambda g, x, y: g.relu(g.concat([g.exp(x), g.tanh(y)], axis=1)), (8, 5), (8, 7))
    evaluation = evaluation_of(mod)
    guarded = [n for n in evaluation.nodes if n.guards]
    assert {n.kind for n in guarded} == {"load", "compute"}
    assert len(guarded) == 4
    assert verdict_of(mod).legal


def test_what_is_padded_is_guarded_and_what_is_sliced_is_not():
    padded = evaluation_of(graph(lambda g, x: g.exp(g.pad(x, [0, 0, 1, 1])), (8, 5)))
    assert [bool(n.guards) for n in nodes_of(padded, "load")] == [True]
    sliced = evaluation_of(graph(lambda g, x: g.exp(g.strided_slice(x, [0], [1], [5])), (8, 5)))
    assert [bool(n.guards) for n in nodes_of(sliced, "load")] == [False]


def test_a_broadcast_producer_depends_on_its_own_axes_only():
    """tanh of a row vector is computed once a row, not once an element."""
    evaluation = evaluation_of(graph(lambda g, x, y: g.multiply(g.tanh(x), y), (8, 1), (8, 32)))
    (tanh,) = [n for n in nodes_of(evaluation, "compute") if const_int(n.tensor.shape[1]) == 1]
    assert [a.size for a in evaluation.placement.space if a.var in tanh.axes] == [8]
    assert verdict_of(graph(lambda g, x, y: g.multiply(g.tanh(x), y), (8, 1), (8, 32))).legal


def test_values_before_and_after_a_reduction_know_the_axes_they_change_along():
    evaluation = evaluation_of(graph(lambda g, x: g.sqrt(g.sum(g.exp(x), axis=1)), (8, 32)))
    (total,) = evaluation.reductions
    reduce = {a.var for a in evaluation.placement.reduce}
    exp = next(n for n in nodes_of(evaluation, "compute") if n.axes & reduce)
    root = next(n for n in nodes_of(evaluation, "compute") if not n.axes & reduce)
    assert evaluation.in_reduce(exp)
    assert not total.axes & reduce
    assert (exp.level, total.level, root.level) == (0, 0, 1)


def test_stores_are_the_outputs_in_order():
    def body(g, x):
        e = g.exp(x)
        return [e, g.sum(e, axis=1)]

    evaluation = evaluation_of(graph(body, (8, 32)))
    assert [len(s.indices) for s in evaluation.stores] == [2, 1]
    assert [s.full for s in evaluation.stores] == [True, False]


# ---------------------------------------------------------------------------------------------------------------- facts
def test_facts_tell_template_axes_and_scopes():
    facts = verdict_of(graph(lambda g, x: g.relu(softmax(g, g.add(x, x))), (64, 512))).facts
    assert facts.template == "row-reduction"
    assert facts.block_axes == ("64",)
    assert facts.in_kernel_bytes == 0
    assert set(facts.scopes.values()) == {"register"}
    assert len(facts.scopes) >= 4


def test_scratch_rows_are_counted_where_no_output_can_hold_an_expensive_value():
    """exp(x) is needed again after the sum, and the only output is a float16 tensor: a row of it waits in memory."""

    def body(g, x):
        e = g.exp(x)
        return g.astype(g.divide(e, g.sum(e, axis=1, keepdims=True)), "float16")

    facts = verdict_of(graph(body, (64, 512))).facts
    assert facts.in_kernel_bytes == 512 * 4
    assert "global" in facts.scopes.values()
    kept = verdict_of(graph(lambda g, x: g.divide(g.exp(x), g.sum(g.exp(x), axis=1, keepdims=True)), (64, 512))).facts
    assert kept.in_kernel_bytes == 0
