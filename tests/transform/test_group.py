"""Groups become Primitive functions: parameters, outputs, constants, symbols, order; TVM's FuseTIR takes them."""

from __future__ import annotations

import numpy as np
import tvm
from tvm import relax
from tvm.ir import Var

from tests.cases.modules import const, tensor
from tests.pipeline.columns import Column, unfused_column
from tests.schedule.equivalence import assert_close, draw, draws, graph
from tests.transform.grouping import bindings_of, called, grouped, legal, primitives, snapshot

SHAPE = (4, 8)


def fused_kernels(fused) -> Column:
    """The grouped module through FuseTIR, blocks as they are: what the grouping itself computes."""
    return Column(relax.transform.DeadCodeElimination()(relax.transform.FuseTIR()(fused.mod)))


def same(mod, fused, inputs) -> None:
    """Equal up to contraction: these kernels are scheduled by nobody."""
    assert_close(fused_kernels(fused).run(inputs), unfused_column(mod).run(inputs))


def chain(g, x):
    a = g.exp(x)
    return [g.relu(a), g.tanh(a)]


def test_a_group_is_one_primitive_function_with_a_tuple_of_outputs(rng):
    mod = graph(chain, SHAPE)
    work = legal(mod)
    fused = grouped(work, "lv lv1 lv2")
    (function,) = primitives(fused.mod).values()
    assert len(function.params) == 1
    assert [f.shape[0].value for f in function.ret_ty.fields] == [4, 4]
    assert called(function) == ["tir_exp", "relu", "tir_tanh"]
    assert called(fused.mod["main"]) == [next(iter(primitives(fused.mod)))]
    same(mod, fused, [draw(rng, SHAPE)])


def test_an_output_that_members_read_too_is_returned(rng):
    mod = graph(lambda g, x: [a := g.exp(x), g.tanh(a)], SHAPE)
    fused = grouped(legal(mod), "lv lv1")
    (function,) = primitives(fused.mod).values()
    assert len(function.ret_ty.fields) == 2
    same(mod, fused, [draw(rng, SHAPE)])


def test_what_nobody_reads_outside_is_no_output(rng):
    mod = graph(lambda g, x: g.tanh(g.exp(x)), SHAPE)
    fused = grouped(legal(mod), "lv gv")
    (function,) = primitives(fused.mod).values()
    assert isinstance(function.ret_ty, relax.TensorType)
    same(mod, fused, [draw(rng, SHAPE)])


def test_a_value_is_one_parameter_however_often_it_is_read(rng):
    mod = graph(lambda g, x: g.add(g.multiply(x, x), g.subtract(g.permute_dims(g.permute_dims(x)), x)), (4, 4))
    work = legal(mod)
    names = " ".join(b.var.name for b in bindings_of(work["main"]))
    fused = grouped(work, names)
    (function,) = primitives(fused.mod).values()
    assert len(function.params) == 1
    same(mod, fused, [draw(rng, (4, 4))])


def test_constants_become_parameters(rng):
    weight = const(np.arange(8.0))
    mod = graph(lambda g, x: g.add(g.multiply(x, weight), weight), SHAPE)
    fused = grouped(legal(mod), "lv gv")
    (function,) = primitives(fused.mod).values()
    assert len(function.params) == 2
    (call,) = [b.value for b in bindings_of(fused.mod["main"]) if isinstance(b.value, tvm.ir.Call)]
    assert isinstance(call.args[1], tvm.ir.GenericConst)
    inner = [b.value.args[1].fields for b in bindings_of(function) if isinstance(b.value, tvm.ir.Call)]
    assert not any(isinstance(f, tvm.ir.GenericConst) for fields in inner for f in fields)
    same(mod, fused, [draw(rng, SHAPE)])


def test_the_name_says_what_is_inside_and_never_is_plain_fused():
    mod = graph(lambda g, x: g.add(g.exp(g.exp(g.exp(x))), x), SHAPE)
    work = legal(mod)
    fused = grouped(work, " ".join(b.var.name for b in bindings_of(work["main"])))
    (name,) = primitives(fused.mod)
    assert name == "vfuse_expx3_add" or name.startswith("vfuse_")
    assert name != "fused"


def test_a_long_group_has_a_short_name():
    def body(g, x):
        for k in range(40):
            x = (g.exp, g.tanh, g.negative)[k % 3](x)
        return x

    work = legal(graph(body, SHAPE))
    fused = grouped(work, " ".join(b.var.name for b in bindings_of(work["main"])))
    (name,) = primitives(fused.mod)
    assert len(name) <= 64
    assert name.endswith("of40")


def test_equal_groups_share_a_function_and_are_both_known(rng):
    def body(g, x):
        a = g.tanh(g.exp(x))
        return g.tanh(g.exp(g.cumsum(a, axis=1)))

    mod = graph(body, SHAPE)
    work = legal(mod)
    names = [b.var.name for b in bindings_of(work["main"])]
    fused = grouped(work, " ".join(names[:2]), " ".join(names[3:5]))
    (uses,) = fused.groups.values()
    assert [group.members for _, _, group in uses] == [(0, 1), (3, 4)]
    same(mod, fused, [draw(rng, SHAPE)])


def test_computed_again_in_each_reader_and_not_by_itself(rng):
    def body(g, x):
        p = g.add(x, x)
        return [g.exp(p), g.tanh(p)]

    mod = graph(body, SHAPE)
    fused = grouped(legal(mod), "lv1", "lv2", clones={"lv1": "lv", "lv2": "lv"})
    assert len(primitives(fused.mod)) == 2
    assert "add" not in called(fused.mod["main"])
    assert all("add" in called(f) for f in primitives(fused.mod).values())
    same(mod, fused, [draw(rng, SHAPE)])


def test_computed_again_in_one_reader_and_kept_for_the_other(rng):
    def body(g, x):
        p = g.add(x, x)
        return [g.exp(p), g.cumsum(p, axis=1)]

    mod = graph(body, SHAPE)
    fused = grouped(legal(mod), "lv1", clones={"lv1": "lv"})
    assert "add" in called(fused.mod["main"])
    same(mod, fused, [draw(rng, SHAPE)])


def test_a_kernel_with_several_outputs_in_a_group(rng):
    def body(g, x):
        low, high = g.fields(g.split(x, 2, axis=1))
        return [g.add(g.exp(low), high), low]

    mod = graph(body, SHAPE)
    work = legal(mod)
    names = [b.var.name for b in bindings_of(work["main"]) if isinstance(b.value, tvm.ir.Call)]
    fused = grouped(work, " ".join(names))
    (function,) = primitives(fused.mod).values()
    assert len(function.ret_ty.fields) == 2
    same(mod, fused, [draw(rng, SHAPE)])


def test_a_field_is_an_output_and_the_tuple_is_not(rng):
    """Only one of the two outputs is read outside: there is no tuple to take the other from."""

    def body(g, x):
        low, high = g.fields(g.split(x, 2, axis=1))
        return [low, g.exp(high)]

    mod = graph(body, SHAPE)
    work = legal(mod)
    names = [b.var.name for b in bindings_of(work["main"]) if isinstance(b.value, tvm.ir.Call)]
    fused = grouped(work, " ".join(names))
    relax.analysis.well_formed(fused.mod)
    same(mod, fused, [draw(rng, SHAPE)])


def test_the_tuple_is_there_for_who_reads_it_whole(rng):
    builder = relax.BlockBuilder()
    x = relax.Var("x", tensor(*SHAPE))
    with builder.function("main", [x]):
        with builder.dataflow():
            pieces = builder.emit(relax.op.split(x, 2, axis=1))
            low, high = (builder.emit(relax.TupleGetItem(pieces, i)) for i in range(2))
            kept = builder.emit_output(pieces)
            out = builder.emit_output(relax.op.add(builder.emit(relax.op.exp(low)), high))
        builder.emit_func_output(relax.Tuple([out, kept]))
    mod = builder.get()
    work = legal(mod)
    names = [b.var.name for b in bindings_of(work["main"]) if isinstance(b.value, tvm.ir.Call)]
    fused = grouped(work, " ".join(names))
    relax.analysis.well_formed(fused.mod)
    same(mod, fused, [draw(rng, SHAPE)])


def test_symbols_that_no_parameter_defines_come_as_a_shape(rng):
    n = Var("n", "int64")

    def body(g, x, y):
        wide = g.broadcast_to(y, (n, 8))
        return [g.exp(wide), g.relu(x)]

    mod = graph(body, (n, 3), (1, 8))
    work = legal(mod)
    names = [b.var.name for b in bindings_of(work["main"]) if isinstance(b.value, tvm.ir.Call)]
    fused = grouped(work, " ".join(names[:2]))
    (function,) = primitives(fused.mod).values()
    assert isinstance(function.params[-1].ty, relax.ShapeType)
    same(mod, fused, draws(rng, (5, 3), (1, 8)))


def test_groups_run_in_the_order_of_their_data(rng):
    def body(g, x, y):
        a = g.exp(x)
        b = g.cumsum(y, axis=1)
        return g.add(g.multiply(a, b), g.tanh(b))

    mod = graph(body, SHAPE, SHAPE)
    work = legal(mod)
    names = [b.var.name for b in bindings_of(work["main"])]
    fused = grouped(work, f"{names[0]} {' '.join(names[2:])}")
    assert called(fused.mod["main"])[0] == "cumsum"
    same(mod, fused, draws(rng, SHAPE, SHAPE))


def test_grouping_does_not_change_its_module():
    work = legal(graph(chain, SHAPE))
    before = snapshot(work)
    grouped(work, "lv lv1 lv2")
    assert snapshot(work) == before


def test_primitive_functions_of_others_are_left_alone():
    """What stock FuseOps has fused stays as it is."""
    mod = legal(graph(chain, SHAPE))
    stock = relax.transform.FuseOps()(relax.transform.AnnotateTIROpPattern()(mod))
    fused = grouped(stock)
    assert list(primitives(fused.mod)) == list(primitives(stock))
    assert not fused.groups
