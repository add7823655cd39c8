"""Programs beyond one dataflow block: order, side effects, branches, tuples, aliases. Fused equals unfused."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.ir import Var
from tvm.script import tirx as T

from tests.cases.modules import Emitter, const, dataflow, tensor
from tests.pipeline.columns import LIBM, fused_column, unfused_column
from tests.schedule.equivalence import assert_close, assert_same_bits, draw, graph
from tvm_vfuse.build import Runner, compile_module, to_arrays, to_device
from tvm_vfuse.options import FusionOptions

SHAPE = (64, 256)
op = relax.op


def same(mod, inputs, kernels=None, options=LIBM):
    """Fused equals unfused bit for bit (all groups here are elementwise); returns the fused column."""
    column = fused_column(mod, options)
    assert_same_bits(column.run(inputs), unfused_column(mod).run(inputs))
    if kernels is not None:
        assert len(column.kernels(inputs)) == kernels, column.kernels(inputs)
    return column


def function(params, body, **how) -> tvm.IRModule:
    """A module whose ``main`` is made by ``body(builder, g, *params)`` outside of any dataflow block."""
    builder = relax.BlockBuilder()
    variables = [relax.Var(n, t) for n, t in params.items()]
    with builder.function("main", variables, **how):
        result = body(builder, Emitter(builder), *variables)
        builder.emit_func_output(relax.Tuple(list(result)) if isinstance(result, (list, tuple)) else result)
    return builder.get()


# --------------------------------------------------------------------------------------------------------------- blocks
def test_neighbouring_dataflow_blocks_are_one(rng):
    def body(builder, g, x):
        with builder.dataflow():
            a = builder.emit_output(op.exp(g.add(x, x)))
        with builder.dataflow():
            b = builder.emit_output(op.tanh(g.multiply(a, x)))
        return [a, b]

    same(function({"x": tensor(*SHAPE)}, body), [draw(rng, SHAPE)], kernels=1)


def test_blocks_apart_are_planned_each_by_itself(rng):
    def body(builder, g, x):
        with builder.dataflow():
            a = builder.emit_output(op.exp(g.add(x, x)))
        builder.emit(op.assert_op(const(True, "bool")))
        with builder.dataflow():
            b = builder.emit_output(op.tanh(g.multiply(a, x)))
        return [a, b]

    column = same(function({"x": tensor(*SHAPE)}, body, pure=False), [draw(rng, SHAPE)], kernels=2)
    assert len(column.result.plans) == 3


def test_bindings_outside_of_dataflow_fuse_too(rng):
    def body(builder, g, x):
        return g.tanh(g.multiply(g.exp(g.add(x, x)), x))

    same(function({"x": tensor(*SHAPE)}, body), [draw(rng, SHAPE)], kernels=1)


def test_a_variable_of_one_block_that_a_later_one_reads_is_kept(rng):
    def body(builder, g, x):
        with builder.dataflow():
            a = g.exp(x)
            kept = builder.emit_output(a)
            b = builder.emit_output(op.relu(a) if hasattr(op, "relu") else op.nn.relu(a))
        c = g.add(kept, b)
        with builder.dataflow():
            d = builder.emit_output(op.multiply(c, kept))
        return [b, d]

    same(function({"x": tensor(*SHAPE)}, body), [draw(rng, SHAPE)])


def test_branches_are_blocks_of_their_own(rng):
    def body(builder, g, x, flag):
        y = g.exp(x)
        taken, other = (
            relax.SeqExpr([relax.BindingBlock(bindings)], out)
            for bindings, out in (branch(y, op.tanh, op.add), branch(y, op.negative, op.multiply))
        )
        z = builder.emit(relax.If(flag, taken, other))
        return g.add(z, y)

    def branch(y, first, second):
        a = relax.Var("a", tensor(*SHAPE))
        b = relax.Var("b", tensor(*SHAPE))
        return [relax.VarBinding(a, first(y)), relax.VarBinding(b, second(a, y))], b

    mod = function({"x": tensor(*SHAPE), "flag": relax.TensorType((), "bool")}, body)
    x = draw(rng, SHAPE)
    column = fused_column(mod, LIBM)
    plain = unfused_column(mod)
    for flag in (True, False):
        given = [x, np.array(flag)]
        assert_same_bits(column.run(given), plain.run(given))
    assert len(column.result.plans) >= 3
    fused = [g["members"] for g in column.result.groups if len(g["members"]) > 1]
    assert len(fused) == 2  # one in each branch


def test_functions_that_are_called_are_fused_by_themselves(rng):
    builder = relax.BlockBuilder()
    y = relax.Var("y", tensor(*SHAPE))
    with builder.function("helper", [y], private=True):
        g = Emitter(builder)
        with builder.dataflow():
            out = builder.emit_output(op.multiply(g.exp(g.add(y, y)), y))
        builder.emit_func_output(out)
    helper = builder.get().get_global_var("helper")
    x = relax.Var("x", tensor(*SHAPE))
    with builder.function("main", [x]):
        with builder.dataflow():
            a = builder.emit(op.negative(g.abs(x)))
            b = builder.emit(relax.Call(helper, [a]))
            out = builder.emit_output(op.tanh(g.add(b, a)))
        builder.emit_func_output(out)
    same(builder.get(), [draw(rng, SHAPE)], kernels=3)


def test_a_user_function_called_fused_does_no_harm(rng):
    """FuseTIR aborts on a group of that name."""
    mod = graph(lambda g, x: g.exp(g.add(x, x)), SHAPE)
    other = graph(lambda g, x: g.tanh(g.multiply(x, x)), SHAPE)["main"].with_attr("global_symbol", "fused")
    same(tvm.IRModule({"fused": other, "main": mod["main"]}), [draw(rng, SHAPE)], kernels=1)


def test_two_entry_functions_are_both_fused(rng):
    first = graph(lambda g, x: g.exp(g.add(x, x)), SHAPE)["main"]
    second = graph(lambda g, x: g.tanh(g.multiply(x, x)), SHAPE)["main"].with_attr("global_symbol", "other")
    mod = tvm.IRModule({"main": first, "other": second})
    x = draw(rng, SHAPE)
    column = fused_column(mod, LIBM)
    runner = Runner(compile_module(column.mod, tvm.target.Target("llvm")), "other")
    assert_close(runner.run([x]), [np.tanh(x * x)])
    assert_close(column.run([x]), [np.exp(x + x)])
    assert len(column.result.plans) == 2


# --------------------------------------------------------------------------------------------------------- side effects
@T.prim_func(private=True, s_tir=True)
def increment(x: T.Buffer((64, 256), "float32")):
    for i, j in T.grid(64, 256):
        with T.sblock("increment"):
            vi, vj = T.axis.remap("SS", [i, j])
            x[vi, vj] = x[vi, vj] + T.float32(1)


def test_what_was_read_before_an_in_place_call_is_read_before_it(rng):
    """p is cheap: computed again behind the call it would see the new x."""

    def body(g, a):
        x = g.cumsum(a, axis=1)
        p = g.add(x, const(1.0))
        q = g.kernel(increment, [x], tensor(*SHAPE), inplace=True)
        return [g.multiply(p, q), g.add(p, q)]

    mod = dataflow({"a": tensor(*SHAPE)}, body)
    x = draw(rng, SHAPE)
    sums = np.cumsum(x, axis=1, dtype="float32")
    got = fused_column(mod).run([x])
    assert_close(got, [(sums + 1) * (sums + 1), sums + 1 + sums + 1])


def test_in_place_calls_stay_in_order(rng):
    def body(g, a):
        x = g.exp(a)
        once = g.kernel(increment, [x], tensor(*SHAPE), inplace=True)
        twice = g.kernel(increment, [g.multiply(once, a)], tensor(*SHAPE), inplace=True)
        return g.negative(g.multiply(twice, a))

    mod = dataflow({"a": tensor(*SHAPE)}, body)
    x = draw(rng, SHAPE)
    column = fused_column(mod)
    assert_close(column.run([x]), [-((np.exp(x) + 1) * x + 1) * x])
    names = column.kernels([x])
    assert [n.startswith("kernel") for n in names] == [False, True, False, True, False]


class Recorder:
    """A packed function that remembers the sums of what it was given, in the order of its calls."""

    def __init__(self, name: str) -> None:
        self.name, self.seen = name, []
        tvm.register_global_func(name, self.record, override=True)

    def record(self, x, out) -> None:
        self.seen.append(float(x.numpy().sum()))
        out.copyfrom(x.numpy() * 2)


def test_packed_calls_keep_their_order_and_number(rng):
    recorder = Recorder("tests.pipeline.doubled")

    def body(builder, g, x):
        a = g.packed(recorder.name, [g.add(x, x)], tensor(*SHAPE))
        b = g.packed(recorder.name, [g.multiply(a, x)], tensor(*SHAPE))
        c = g.packed(recorder.name, [g.negative(x)], tensor(*SHAPE))
        return g.add(g.add(a, b), c)

    mod = function({"x": tensor(*SHAPE)}, body, pure=True)
    x = draw(rng, SHAPE)
    seen = []
    for column in (fused_column(mod, LIBM), unfused_column(mod)):
        recorder.seen.clear()
        runner = Runner(compile_module(column.mod, tvm.target.Target("llvm")))
        result = to_arrays(runner(*to_device([x])))
        seen.append((list(recorder.seen), result[0]))
    assert len(seen[0][0]) == 3
    np.testing.assert_allclose(seen[0][0], seen[1][0], rtol=1e-6)
    assert_same_bits([seen[0][1]], [seen[1][1]])


def test_impure_calls_keep_their_order_and_number(capfd, rng):
    """Three prints between operators that would otherwise be one kernel."""

    def body(builder, g, x):
        a = g.add(x, x)
        builder.emit(op.print(a, format="first {}"))
        b = g.multiply(a, a)
        builder.emit(op.print(b, format="second {}"))
        builder.emit(op.print(a, format="third {}"))
        return g.subtract(b, a)

    mod = function({"x": tensor(2)}, body, pure=False)
    x = np.array([1.0, 3.0], "float32")
    column = fused_column(mod)
    assert_close(column.run([x]), [4 * x * x - 2 * x])
    printed = capfd.readouterr().out
    assert [printed.index(w) for w in ("first", "second", "third")] == sorted(
        printed.index(w) for w in ("first", "second", "third")
    )
    assert len(column.kernels([x])) == 3


# --------------------------------------------------------------------------------------------------------------- tuples
def test_a_tuple_is_returned_whole_and_its_fields_are_used(rng):
    def body(builder, g, x):
        with builder.dataflow():
            pieces = builder.emit(op.split(x, 2, axis=1))
            low, high = g.fields(pieces)
            total = g.add(g.exp(low), high)
            kept = builder.emit_output(pieces)
            out = builder.emit_output(op.tanh(total))
        return [kept, out]

    same(function({"x": tensor(*SHAPE)}, body), [draw(rng, SHAPE)])


def test_nested_tuples_come_back_nested(rng):
    def body(builder, g, x):
        with builder.dataflow():
            a, b = g.exp(x), g.negative(x)
            return builder.emit_output(relax.Tuple([a, relax.Tuple([b, g.add(a, b)]), a]))

    mod = function({"x": tensor(*SHAPE)}, body)
    column = same(mod, [draw(rng, SHAPE)], kernels=1)
    assert [type(f).__name__ for f in column.mod["main"].ret_ty.fields] == ["TensorType", "TupleType", "TensorType"]


def test_a_tuple_argument_is_used_by_field(rng):
    pair = tvm.ir.TupleType([tensor(*SHAPE), tensor(*SHAPE)])

    def body(builder, g, p):
        with builder.dataflow():
            a, b = g.fields(p)
            return builder.emit_output(op.multiply(g.add(a, b), a))

    mod = function({"p": pair}, body)
    a, b = draw(rng, SHAPE), draw(rng, SHAPE)
    runner = Runner(compile_module(fused_column(mod).mod, tvm.target.Target("llvm")))
    assert_close(to_arrays(runner(to_device([a, b]))), [(a + b) * a])


@pytest.mark.parametrize(
    "body",
    [
        lambda g, x: [x, g.exp(x)],
        lambda g, x: [g.exp(x), x, x],
        lambda g, x: x,
        lambda g, x: [g.exp(x)] * 2,
    ],
    ids=["first", "twice", "alone", "one result twice"],
)
def test_an_output_may_be_an_input_or_another_output(body, rng):
    same(graph(body, SHAPE), [draw(rng, SHAPE)])


def test_one_value_feeds_two_parameters(rng):
    """FuseTIR keeps one region of a value that is read at two places: relu(y @ y)."""
    mod = graph(lambda g, y: g.relu(g.matmul(y, y)), (16, 16))
    y = draw(rng, (16, 16))
    column = fused_column(mod)
    assert len(column.kernels([y])) == 1
    assert_close(column.run([y]), [np.maximum(y @ y, 0)])
    mod = graph(lambda g, y: g.subtract(g.multiply(y, g.permute_dims(y)), g.matmul(y, y)), (16, 16))
    assert_close(fused_column(mod).run([y]), [y * y.T - y @ y], 1e-4)


# ------------------------------------------------------------------------------------------------------------ constants
def test_constants_are_parameters_of_their_kernels(rng):
    weights = [draw(rng, (256,)) for _ in range(2)]
    mod = graph(lambda g, x: g.add(g.multiply(x, const(weights[0])), const(weights[1])), SHAPE)
    x = draw(rng, SHAPE)
    column = same(mod, [x], kernels=1)
    (kernel,) = column.functions([x])
    assert len(kernel.params) == 4
    assert_close(column.run([x]), [x * weights[0] + weights[1]])


def test_one_constant_in_two_groups(rng):
    weight = const(draw(rng, (256,)))

    def body(g, x):
        a = g.cumsum(g.multiply(x, weight), axis=1)
        return g.multiply(a, weight)

    same(graph(body, SHAPE), [draw(rng, SHAPE)])


# -------------------------------------------------------------------------------------------------------------- symbols
def test_a_match_cast_binds_symbols_for_what_follows(rng):
    n = Var("n", "int64")

    def body(g, x):
        known = g.match(x, relax.TensorType([n, 8], "float32"))
        return g.exp(g.add(known, known))

    mod = dataflow({"x": relax.TensorType(ndim=2, dtype="float32")}, body)
    for rows in (1, 5):
        x = draw(rng, (rows, 8))
        runner = Runner(compile_module(fused_column(mod).mod, tvm.target.Target("llvm")))
        assert_close(to_arrays(runner(*to_device([x]))), [np.exp(x + x)])


def test_a_symbol_that_no_input_of_the_group_defines_is_passed(rng):
    """The group makes a tensor of n rows out of nothing but a shape."""
    n = Var("n", "int64")

    def body(g, x, y):
        filled = g.builder.emit(op.full([n, 8], const(3.0), "float32"))
        return [g.multiply(g.add(filled, y), y), g.relu(x)]

    mod = dataflow({"x": tensor(n, 4), "y": tensor(1, 8)}, body)
    x, y = draw(rng, (5, 4)), draw(rng, (1, 8))
    got = fused_column(mod).run([x, y])
    assert_close(got, [np.broadcast_to((3 + y) * y, (5, 8)), np.maximum(x, 0)])


# -------------------------------------------------------------------------------------------------------------- options
@pytest.mark.parametrize(
    "options",
    [
        FusionOptions(math="libm", mode="rules"),
        FusionOptions(math="libm", max_group_size=2),
        FusionOptions(math="libm", first_groups=1),
        FusionOptions(math="libm", never=("elementwise",)),
    ],
    ids=["rules", "max_group_size", "first_groups", "never"],
)
def test_options_change_the_plan_and_never_the_results(options, rng):
    def body(g, x, y):
        a = g.exp(g.add(x, y))
        b = g.cumsum(a, axis=1)
        return [g.tanh(g.multiply(b, y)), g.negative(a)]

    mod = graph(body, SHAPE, SHAPE)
    inputs = [draw(rng, SHAPE), draw(rng, SHAPE)]
    same(mod, inputs, options=options)
