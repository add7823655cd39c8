"""Kernels that the user wrote: names that collide, several blocks, a schedule of their own, effects."""

from __future__ import annotations

import numpy as np
import tvm
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T

from tests.cases import packed
from tests.cases.case import Case
from tests.cases.modules import const, dataflow, tensor, uniform


@T.prim_func(private=True, s_tir=True)
def doubled(A: T.Buffer((T.int64(4), T.int64(4)), "float32"), B: T.Buffer((T.int64(4), T.int64(4)), "float32")):
    T.func_attr({"tirx.noalias": True})
    for i, j in T.grid(T.int64(4), T.int64(4)):
        with T.sblock("compute"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)


@T.prim_func(private=True, s_tir=True)
def plus_three(A: T.Buffer((T.int64(4), T.int64(4)), "float32"), B: T.Buffer((T.int64(4), T.int64(4)), "float32")):
    T.func_attr({"tirx.noalias": True})
    for i, j in T.grid(T.int64(4), T.int64(4)):
        with T.sblock("compute"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + T.float32(3)


@T.prim_func(private=True, s_tir=True)
def below_row_maximum(X: T.Buffer((4, 5), "float32"), Y: T.Buffer((4, 5), "float32"), Top: T.Buffer((4,), "float32")):
    T.func_attr({"tirx.noalias": True})
    for i, k in T.grid(4, 5):
        with T.sblock("maximum"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                Top[vi] = T.float32(-3.0e38)
            Top[vi] = T.max(Top[vi], X[vi, vk])
    for i, j in T.grid(4, 5):
        with T.sblock("difference"):
            vi, vj = T.axis.remap("SS", [i, j])
            Y[vi, vj] = X[vi, vj] - Top[vi]


@T.prim_func(private=True, s_tir=True)
def scheduled_by_hand(
    X: T.Buffer((T.int64(8), T.int64(16)), "float32"), Y: T.Buffer((T.int64(8), T.int64(16)), "float32")
):
    T.func_attr({"tirx.noalias": True})
    for i in T.parallel(T.int64(8)):
        for outer in range(T.int64(4)):
            for inner in range(T.int64(4)):
                with T.sblock("scheduled"):
                    vi = T.axis.spatial(T.int64(8), i)
                    vj = T.axis.spatial(T.int64(16), outer * T.int64(4) + inner)
                    Y[vi, vj] = X[vi, vj] * T.float32(2) - T.float32(3)


@T.prim_func(private=True, s_tir=True)
def raise_in_place(X: T.Buffer((4, 6), "float32")):
    T.func_attr({"tirx.noalias": True})
    for i, j in T.grid(4, 6):
        with T.sblock("raise"):
            vi, vj = T.axis.remap("SS", [i, j])
            X[vi, vj] = X[vi, vj] + T.float32(5)


def same_names_everywhere() -> tvm.IRModule:
    def body(g, x):
        for func in (doubled, plus_three, doubled):
            x = g.kernel(func, [x], tensor(4, 4))
        return x

    def with_input(g, x):
        return g.subtract(body(g, x), x)

    return dataflow({"A": tensor(4, 4)}, with_input)


def names_that_fusion_makes() -> tvm.IRModule:
    @I.ir_module
    class Named:
        @T.prim_func(private=True, s_tir=True)
        def exp(X: T.Buffer((T.int64(3), T.int64(3)), "float32"), Y: T.Buffer((T.int64(3), T.int64(3)), "float32")):
            T.func_attr({"tirx.noalias": True})
            for i, j in T.grid(T.int64(3), T.int64(3)):
                with T.sblock("compute"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    Y[vi, vj] = X[vi, vj] * T.float32(3)

        @R.function(private=True)
        def fused(x: R.Tensor((3, 3), "float32")) -> R.Tensor((3, 3), "float32"):
            with R.dataflow():
                y = R.subtract(x, R.const(4.0, "float32"))
                R.output(y)
            return y

        @R.function(private=True)
        def fused_exp_add(x: R.Tensor((3, 3), "float32")) -> R.Tensor((3, 3), "float32"):
            with R.dataflow():
                power = R.exp(x)
                y = R.add(power, R.const(1.0, "float32"))
                R.output(y)
            return y

        @R.function
        def main(x: R.Tensor((3, 3), "float32")) -> R.Tensor((3, 3), "float32"):
            cls = Named
            with R.dataflow():
                first = cls.fused_exp_add(x)
                second = R.call_tir(cls.exp, (first,), out_ty=R.Tensor((3, 3), "float32"))
                third = cls.fused(second)
                R.output(third)
            return third

    return Named


def two_blocks_two_results() -> tvm.IRModule:
    def body(g, x):
        pair = g.kernel(below_row_maximum, [g.multiply(x, const(2.0))], [tensor(4, 5), tensor(4)])
        below, top = g.fields(pair)
        return [g.tanh(below), g.add(top, const(1.0))]

    return dataflow({"x": tensor(4, 5)}, body)


def between_elementwise(func: tvm.tirx.PrimFunc, *shape: int) -> tvm.IRModule:
    def body(g, x):
        return g.relu(g.kernel(func, [g.exp(x)], tensor(*shape)))

    return dataflow({"x": tensor(*shape)}, body)


def overwritten_intermediate() -> tvm.IRModule:
    def body(g, x):
        power = g.exp(x)
        tripled = g.abs(g.multiply(power, const(3.0)))
        return [g.kernel(raise_in_place, [power], tensor(4, 6), inplace=True), tripled]

    return dataflow({"x": tensor(4, 6)}, body)


def packed_call_between() -> tvm.IRModule:
    def body(g, x):
        doubled_size = g.multiply(g.abs(x), const(2.0))
        raised = g.packed(packed.PLUS_TEN, [doubled_size], tensor(3, 5))
        return g.subtract(g.tanh(raised), doubled_size)

    return dataflow({"x": tensor(3, 5)}, body)


def _below_row_maximum(x: np.ndarray) -> list[np.ndarray]:
    top = (x * 2).max(1)
    return [np.tanh(x * 2 - top[:, None]), top + np.float32(1)]


CASES = [
    Case(
        name="the_same_names_in_every_kernel",
        source="apache/tvm#16433",
        what="two kernels whose buffers, blocks and the graph's own variables are all named alike are mixed up",
        build=same_names_everywhere,
        inputs=lambda: [uniform(9, 4, 4)],
        expect=lambda x: [(x * 2 + 3) * 2 - x],
        bitwise=True,
    ),
    Case(
        name="names_that_fusion_would_make_are_taken",
        source="variant of apache/tvm#20194",
        what="functions named fused, exp and fused_exp_add are there already and are called instead of the new ones",
        build=names_that_fusion_makes,
        inputs=lambda: [uniform(21, 3, 3)],
        expect=lambda x: [(np.exp(x) + np.float32(1)) * np.float32(3) - np.float32(4)],
        bitwise=True,
    ),
    Case(
        name="kernel_with_two_blocks_and_two_results",
        source="apache/tvm#17341",
        what="a reduction and its reader in one kernel, both results used by further operators",
        build=two_blocks_two_results,
        inputs=lambda: [uniform(11, 4, 5)],
        expect=_below_row_maximum,
    ),
    Case(
        name="kernel_that_is_scheduled_already",
        source="tlc-pack/relax#141",
        what="parallel and split loops that the user wrote meet a fuser that expects a plain nest",
        build=lambda: between_elementwise(scheduled_by_hand, 8, 16),
        inputs=lambda: [uniform(25, 8, 16)],
        expect=lambda x: [np.maximum(np.exp(x) * np.float32(2) - np.float32(3), 0)],
    ),
    Case(
        name="intermediate_overwritten_in_place",
        source="apache/tvm#15878",
        what="an in-place kernel moves before another reader of the value that it overwrites",
        build=overwritten_intermediate,
        inputs=lambda: [uniform(12, 4, 6)],
        expect=lambda x: [np.exp(x) + np.float32(5), np.abs(np.exp(x) * np.float32(3))],
        bitwise=True,
    ),
    Case(
        name="packed_call_is_a_barrier",
        source="apache/tvm#14044",
        what="a call of foreign code between fusable operators is taken for a kernel",
        build=packed_call_between,
        inputs=lambda: [uniform(13, 3, 5)],
        expect=lambda x: [np.tanh(np.abs(x) * 2 + 10) - np.abs(x) * 2],
        bitwise=True,
    ),
]
