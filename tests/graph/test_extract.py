"""From a binding block to a graph: kinds of operators, values, what must come before what."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.ir import Var

from tests.cases.modules import const, dataflow, tensor
from tests.graph import kernels, refused_kernels
from tests.graph.regions import region_of, regions_of
from tests.schedule.equivalence import graph


def kinds(mod):
    return {o.name: o.kind for o in region_of(mod).graph.operators}


def only(mod, kind):
    (op,) = [o for o in region_of(mod).graph.operators if o.kind == kind]
    return op


def value_names(g, indices):
    return [g.values[v].name for v in indices]


# ------------------------------------------------------------------------------------------------------------ operators
def test_operators_and_values_of_a_small_graph():
    def body(g, x, y):
        e = g.exp(g.add(x, y))
        return [e, g.sum(g.multiply(e, e), axis=1)]

    g = region_of(graph(body, (8, 32), (32,))).graph
    assert [o.op for o in g.operators] == ["add", "tir_exp", "multiply", "sum"]
    add, exp, square, total = g.operators
    assert value_names(g, add.inputs) == ["x0", "x1"]
    assert value_names(g, add.aligned) == ["x0"]
    assert (add.pointwise, exp.pointwise, square.pointwise, total.pointwise) == (True, True, True, False)
    assert len(square.inputs) == 1  # e twice is one value
    assert (exp.expensive, add.expensive) == (8 * 32, 0)
    assert (total.reductions, total.contraction) == (1, False)
    assert add.flops == 8 * 32
    e = g.values[exp.outputs[0]]
    assert (e.shape, e.dtype, e.num_bytes, e.live_out) == ((8, 32), "float32", 1024, True)
    assert not g.values[square.outputs[0]].live_out
    assert g.values[total.outputs[0]].live_out
    assert g.consumers[exp.outputs[0]] == (square.index,)


@pytest.mark.parametrize(
    ("body", "shapes", "contraction"),
    [
        (lambda g, x, w: g.matmul(x, w), [(8, 16), (16, 4)], True),
        (lambda g, x, w: g.conv2d(x, w), [(1, 3, 8, 8), (4, 3, 3, 3)], True),
        (lambda g, x: g.max_pool2d(x, pool_size=3, strides=1), [(1, 3, 8, 8)], True),
        (lambda g, x: g.sum(x, axis=0), [(8, 16)], False),
        (lambda g, x: g.softmax(x, axis=1), [(8, 16)], False),
        (lambda g, x: g.mean(x, axis=[0, 2, 3], keepdims=True), [(2, 3, 4, 5)], False),
    ],
    ids=["matmul", "conv2d", "overlapping windows", "column sum", "softmax", "image statistics"],
)
def test_a_contraction_reads_elements_more_than_once(body, shapes, contraction):
    operators = region_of(graph(body, *shapes)).graph.operators
    assert any(o.contraction for o in operators) == contraction
    assert any(o.reductions for o in operators)


def test_symbolic_extents_are_text_and_count_1024():
    n = Var("n", "int64")
    g = region_of(graph(lambda g, x: g.exp(x), (n, 8))).graph
    assert [v.shape for v in g.values] == [("n", 8), ("n", 8)]
    assert g.values[0].num_bytes == 1024 * 8 * 4
    assert g.operators[0].expensive == 1024 * 8


def test_constants_are_marked():
    weight = const(np.arange(8.0))
    values = region_of(graph(lambda g, x: g.add(x, weight), (4, 8))).graph.values
    assert [v.constant for v in values] == [False, True, False]


@pytest.mark.parametrize(("dtype", "size"), [("bool", 1), ("int8", 1), ("float16", 2), ("bfloat16", 2), ("int64", 8)])
def test_sizes_are_in_bytes(dtype, size):
    g = region_of(graph(lambda g, x: g.where(g.equal(x, x), x, x), (8, 4), dtype=dtype)).graph
    assert g.values[0].num_bytes == 32 * size


# ------------------------------------------------------------------------------------------- what is no kernel to fuse
def test_views_and_match_casts_are_no_barriers():
    n = Var("n", "int64")

    def body(g, x):
        known = g.match(x, relax.TensorType([n, 8], "float32"))
        return g.exp(known)

    mod = dataflow({"x": relax.TensorType(ndim=2, dtype="float32")}, body)
    found = kinds(mod)
    assert "barrier" not in found.values()
    assert "other" in found.values()


def test_a_symbol_is_bound_before_it_is_used():
    n = Var("n", "int64")

    def body(g, x, y):
        bound = g.match(x, relax.TensorType([n, 8], "float32"))
        return [g.exp(bound), g.add(y, relax.op.full([n, 8], const(1.0), "float32"))]

    region = region_of(dataflow({"x": relax.TensorType(ndim=2, dtype="float32"), "y": tensor(1, 8)}, body))
    cast = next(o for o in region.graph.operators if o.kind == "other")
    users = [o for o in region.graph.operators if o.index > cast.index]
    assert users
    assert all(cast.index in o.requires or cast.index in region.graph.predecessors(o.index) for o in users)


def test_pure_packed_calls_are_no_kernels_but_do_not_stop_others():
    def body(g, x):
        made = g.packed("my.packed", [g.exp(x)], tensor(8, 8))
        return g.add(made, x)

    op = only(dataflow({"x": tensor(8, 8)}, body), "other")
    assert op.why == "call_dps_packed my.packed is no kernel"


def impure_module() -> tvm.IRModule:
    builder = relax.BlockBuilder()
    x = relax.Var("x", tensor(8, 8))
    with builder.function("main", [x], pure=False):
        a = builder.emit(relax.op.exp(x))
        builder.emit(relax.op.print(a, format="{}"))
        b = builder.emit(relax.op.add(a, a))
        builder.emit_func_output(b)
    return builder.get()


def test_impure_calls_are_barriers_for_all_that_follows():
    region = region_of(impure_module())
    before, barrier, after = region.graph.operators
    assert (before.kind, barrier.kind, after.kind) == ("kernel", "barrier", "kernel")
    assert barrier.requires == (0,)
    assert after.requires == (1,) or 1 in after.requires
    assert "has side effects: nothing moves across it" in barrier.why


def test_in_place_calls_are_barriers():
    def body(g, x):
        made = g.exp(x)
        changed = g.kernel(refused_kernels.in_place, [made, x], tensor(8), inplace=True)
        return g.add(changed, x)

    op = only(dataflow({"x": tensor(8)}, body), "barrier")
    assert "call_tir_inplace kernel has side effects" in op.why


def test_calls_of_other_functions_are_no_kernels():
    builder = relax.BlockBuilder()
    inner = relax.Var("y", tensor(8, 8))
    with builder.function("helper", [inner], private=True):
        with builder.dataflow():
            out = builder.emit_output(relax.op.exp(inner))
        builder.emit_func_output(out)
    gv = builder.get().get_global_var("helper")
    x = relax.Var("x", tensor(8, 8))
    with builder.function("main", [x]):
        with builder.dataflow():
            called = builder.emit(relax.Call(gv, [builder.emit(relax.op.negative(x))]))
            out = builder.emit_output(relax.op.add(called, x))
        builder.emit_func_output(out)
    found = regions_of(builder.get())
    assert {o.kind for r in found for o in r.graph.operators} == {"kernel", "other"}


# ------------------------------------------------------------------------------------------ arguments that do not fit
def test_a_kernel_that_writes_its_input_is_opaque():
    def body(g, x, y):
        return g.add(g.kernel(swapped, [x, y], tensor(8)), x)

    op = only(dataflow({"x": tensor(8), "y": tensor(8)}, body), "opaque")
    assert op.why == "the kernel writes one of its inputs or leaves an output unwritten"


@kernels.T.prim_func(private=True, s_tir=True)
def swapped(
    a: kernels.T.Buffer((8,), "float32"), b: kernels.T.Buffer((8,), "float32"), c: kernels.T.Buffer((8,), "float32")
):
    """Writes b, which a call passes as an input, and leaves c alone."""
    for i in range(8):
        with kernels.T.sblock("b"):
            v = kernels.T.axis.spatial(8, i)
            b[v] = a[v] + c[v]


def test_an_argument_of_unknown_rank_makes_a_call_opaque():
    def body(g, x):
        return g.kernel(kernels.doubled, [x], tensor(8))

    op = only(dataflow({"x": relax.TensorType(dtype="float32")}, body), "opaque")
    assert op.why == "an argument is no tensor of known rank"


# --------------------------------------------------------------------------------------------------------------- tuples
def test_several_outputs_are_values_of_their_own():
    def body(g, x):
        low, high = g.fields(g.split(x, 2, axis=1))
        return g.add(g.exp(high), low)

    region = region_of(graph(body, (8, 16)))
    split = region.graph.operators[0]
    assert len(split.outputs) == 2
    assert [region.graph.values[v].shape for v in split.outputs] == [(8, 8), (8, 8)]
    exp, add = region.graph.operators[1:]
    assert exp.inputs == (split.outputs[1],)
    assert set(add.inputs) == {exp.outputs[0], split.outputs[0]}


def test_tuples_fields_and_aliases_are_followed():
    def body(g, x):
        pack = g.builder.emit(relax.Tuple([g.exp(x), relax.Tuple([g.negative(x), x])]))
        inner = g.builder.emit(relax.TupleGetItem(pack, 1))
        return g.add(g.builder.emit(relax.TupleGetItem(inner, 0)), g.builder.emit(relax.TupleGetItem(pack, 0)))

    g = region_of(graph(body, (8, 8))).graph
    assert all(o.kind == "kernel" for o in g.operators)
    assert g.predecessors(len(g.operators) - 1) == (0, 1)


def test_a_value_that_leaves_in_a_tuple_is_live():
    mod = graph(lambda g, x: [g.exp(x), g.relu(g.exp(x))], (8, 8))
    g = region_of(mod).graph
    assert next(g.values[o.outputs[0]].live_out for o in g.operators if o.op.startswith("tir_exp"))
    assert sum(v.live_out for v in g.values) == 2
