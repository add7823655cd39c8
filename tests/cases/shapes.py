"""Shapes: dimensions known late or only at run time, no elements, no dimensions, dimensions of one."""

from __future__ import annotations

import numpy as np
import tvm
from tvm import relax, tirx
from tvm.script import tirx as T

from tests.cases.case import REORDERED, Case
from tests.cases.modules import const, dataflow, tensor, uniform


@T.prim_func(private=True, s_tir=True)
def plus_one(src: T.handle, dst: T.handle):
    """Rows of eight; the output's number of rows is its own."""
    T.func_attr({"tirx.noalias": True})
    rows_in = T.int64()
    rows_out = T.int64()
    X = T.match_buffer(src, (rows_in, T.int64(8)))
    Y = T.match_buffer(dst, (rows_out, T.int64(8)))
    for r, c in T.grid(rows_out, T.int64(8)):
        with T.sblock("plus_one"):
            vr, vc = T.axis.remap("SS", [r, c])
            Y[vr, vc] = X[vr, vc] + T.float32(1)


@T.prim_func(private=True, s_tir=True)
def add_scalar(src: T.handle, scalar: T.int64, dst: T.handle):
    T.func_attr({"tirx.noalias": True})
    rows = T.int64()
    X = T.match_buffer(src, (rows, T.int64(4)))
    Y = T.match_buffer(dst, (rows, T.int64(4)))
    for r, c in T.grid(rows, T.int64(4)):
        with T.sblock("add_scalar"):
            vr, vc = T.axis.remap("SS", [r, c])
            Y[vr, vc] = X[vr, vc] + T.Cast("float32", scalar)


@T.prim_func(private=True, s_tir=True)
def double(src: T.handle, dst: T.handle):
    T.func_attr({"tirx.noalias": True})
    rows = T.int64()
    columns = T.int64()
    X = T.match_buffer(src, (rows, columns))
    Y = T.match_buffer(dst, (rows, columns))
    for r, c in T.grid(rows, columns):
        with T.sblock("double"):
            vr, vc = T.axis.remap("SS", [r, c])
            Y[vr, vc] = X[vr, vc] * T.float32(2)


def dimensions_bound_between_kernels() -> tvm.IRModule:
    def body(g, x):
        results = []
        for name in "pq":
            rows = tirx.Var(name, "int64")
            g.match(g.shape_of(x), relax.ShapeType([rows, 8]))
            results.append(g.kernel(plus_one, [x], tensor(rows, 8)))
        return results

    return dataflow({"x": tensor(4, 8)}, body)


def dimension_computed_from_data() -> tvm.IRModule:
    def body(g, x, wanted, y):
        early = g.exp(y)
        rows = tirx.Var("rows", "int64")
        g.match(g.tensor_to_shape(g.add(wanted, const(1, "int64"))), relax.ShapeType([rows, 8]))
        return g.multiply(g.kernel(plus_one, [x], tensor(rows, 8)), early)

    return dataflow({"x": tensor(4, 8), "wanted": tensor(2, dtype="int64"), "y": tensor(8)}, body)


def dimension_as_a_scalar_argument() -> tvm.IRModule:
    n = tirx.Var("n", "int64")

    def body(g, x):
        return g.tanh(g.kernel(add_scalar, [g.abs(x), n], tensor(n, 4)))

    return dataflow({"x": tensor(n, 4)}, body)


def alias_read_late() -> tvm.IRModule:
    def body(g, x):
        first = g.multiply(x, const(3.0))
        alias = g.match(first, tensor(6, 4))
        later = g.add(x, const(0.75))
        return g.subtract(alias, later)

    return dataflow({"x": tensor(6, 4)}, body)


def difference_of_neighbours() -> tvm.IRModule:
    n = tirx.Var("n", "int64")

    def body(g, x):
        y = g.exp(x)
        upper = g.strided_slice(y, [0], [1], [n], assume_inbound=True)
        lower = g.strided_slice(y, [0], [0], [n - 1], assume_inbound=True)
        return g.abs(g.subtract(upper, lower))

    return dataflow({"x": tensor(n, 5)}, body)


def one_kernel_two_static_shapes() -> tvm.IRModule:
    def body(g, x, y):
        first = g.abs(g.kernel(double, [x], tensor(4, 6)))
        return [first, g.kernel(double, [g.abs(y)], tensor(3, 2))]

    return dataflow({"x": tensor(4, 6), "y": tensor(3, 2)}, body)


def no_rows() -> tvm.IRModule:
    def body(g, x, b):
        y = g.relu(g.add(x, b))
        return [y, g.sum(g.exp(y), axis=-1)]

    return dataflow({"x": tensor(0, 8), "b": tensor(8)}, body)


def scalars() -> tvm.IRModule:
    def body(g, x, s, k):
        shift = g.add(g.divide(g.sum(x), s), s)
        below = g.astype(g.less(k, const(0, "int64")), "int64")
        return [g.multiply(x, shift), g.add(g.multiply(g.abs(k), const(2, "int64")), below)]

    return dataflow({"x": tensor(4, 5), "s": tensor(), "k": tensor(dtype="int64")}, body)


def dimensions_of_one() -> tvm.IRModule:
    def body(g, x, y, z):
        flat = g.reshape(g.tanh(g.add(x, y)), (20, 6))
        return g.add(g.multiply(flat, z), g.abs(z))

    return dataflow({"x": tensor(4, 1, 6), "y": tensor(1, 5, 1), "z": tensor(20, 6)}, body)


def _scalars(x: np.ndarray, s: np.ndarray, k: np.ndarray) -> list[np.ndarray]:
    shift = x.sum(dtype="float64").astype("float32") / s + s
    return [x * shift, np.asarray(abs(k) * 2 + (k < 0), "int64")]


CASES = [
    Case(
        name="dimension_bound_between_two_kernels",
        source="apache/tvm#20195",
        what="a kernel moves above the match_cast that gives its output's dimension a value",
        build=dimensions_bound_between_kernels,
        inputs=lambda: [uniform(1, 4, 8)],
        expect=lambda x: [x + np.float32(1)] * 2,
        bitwise=True,
    ),
    Case(
        name="dimension_computed_from_data",
        source="apache/tvm#20177, apache/tvm#20195",
        what="a group that starts with an early operator moves above the run-time shape that its late member needs",
        build=dimension_computed_from_data,
        inputs=lambda: [uniform(17, 4, 8), np.array([3, 7], "int64"), uniform(20, 8)],
        expect=lambda x, wanted, y: [(x + np.float32(1)) * np.exp(y)],
        bitwise=True,
        isolated=True,
    ),
    Case(
        name="dimension_as_a_scalar_argument",
        source="apache/tvm#16564",
        what="a kernel's scalar parameter is taken for a buffer or lost when the kernel is fused",
        build=dimension_as_a_scalar_argument,
        inputs=lambda: [uniform(19, 6, 4)],
        expect=lambda x: [np.tanh(np.abs(x) + np.float32(6))],
        bitwise=True,
    ),
    Case(
        name="alias_read_after_a_later_value_is_written",
        source="apache/tvm#20190",
        what="the memory behind a match_cast alias is given to the next intermediate too early",
        build=alias_read_late,
        inputs=lambda: [uniform(2, 6, 4)],
        expect=lambda x: [x * np.float32(3) - (x + np.float32(0.75))],
        bitwise=True,
    ),
    Case(
        name="difference_of_neighbours_of_unknown_length",
        source="apache/tvm#14931",
        what="extents that are expressions (n - 1) of the symbolic size do not survive into the kernel's parameters",
        build=difference_of_neighbours,
        inputs=lambda: [uniform(4, 7, 5)],
        expect=lambda x: [np.abs(np.exp(x[1:]) - np.exp(x[:-1]))],
        bitwise=True,
    ),
    Case(
        name="one_dynamic_kernel_for_two_static_shapes",
        source="apache/tvm#15883",
        what="a kernel of symbolic shape is specialised for its first caller and used for the second",
        build=one_kernel_two_static_shapes,
        inputs=lambda: [uniform(7, 4, 6), uniform(8, 3, 2)],
        expect=lambda x, y: [np.abs(x * np.float32(2)), np.abs(y) * np.float32(2)],
        bitwise=True,
        isolated=True,
    ),
    Case(
        name="no_rows_at_all",
        source="apache/tvm#20278",
        what="an extent of zero divides, splits or loops wrongly in a chain with a row reduction",
        build=no_rows,
        inputs=lambda: [uniform(3, 0, 8), uniform(9, 8)],
        expect=lambda x, b: [np.zeros((0, 8), "float32"), np.zeros(0, "float32")],
    ),
    Case(
        name="scalars_of_no_dimension",
        source="apache/tvm#17835",
        what="tensors without dimensions: a full sum, arithmetic on scalars, and a broadcast back to a matrix",
        build=scalars,
        inputs=lambda: [uniform(11, 4, 5), np.array(3.0, "float32"), np.array(-7, "int64")],
        expect=_scalars,
        tolerance=REORDERED,
    ),
    Case(
        name="dimensions_of_one_before_a_reshape",
        source="pytorch/pytorch#195963",
        what="two operands broadcast against each other, and the reshape after them is mistaken for the identity",
        build=dimensions_of_one,
        inputs=lambda: [uniform(12, 4, 1, 6), uniform(13, 1, 5, 1), uniform(14, 20, 6)],
        expect=lambda x, y, z: [np.tanh(x + y).reshape(20, 6) * z + np.abs(z)],
        bitwise=True,
    ),
]
