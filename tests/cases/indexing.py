"""Elements picked, placed and moved: gather, scatter, slices, concatenation."""

from __future__ import annotations

import numpy as np
import tvm
from tvm import relax, tirx
from tvm.script import tirx as T

from tests.cases.case import HALF, Case
from tests.cases.modules import const, dataflow, tensor, uniform


@T.prim_func(private=True, s_tir=True)
def half_plus_one(X: T.Buffer((T.int64(4), T.int64(4)), "float16"), Y: T.Buffer((T.int64(4), T.int64(4)), "float16")):
    T.func_attr({"tirx.noalias": True})
    for r, c in T.grid(T.int64(4), T.int64(4)):
        with T.sblock("half_plus_one"):
            vr, vc = T.axis.remap("SS", [r, c])
            Y[vr, vc] = X[vr, vc] + T.float16(1)


@T.prim_func(private=True, s_tir=True)
def pick_row(
    X: T.Buffer((T.int64(4), T.int64(4)), "float16"),
    Row: T.Buffer((T.int64(1),), "int32"),
    Y: T.Buffer((T.int64(1), T.int64(4)), "float16"),
):
    T.func_attr({"tirx.noalias": True})
    for r, c in T.grid(T.int64(1), T.int64(4)):
        with T.sblock("pick_row"):
            vr, vc = T.axis.remap("SS", [r, c])
            Y[vr, vc] = X[Row[vr], vc]


@T.prim_func(private=True, s_tir=True)
def unpack_nibbles(packed: T.handle, scale: T.handle, dst: T.handle):
    """Eight 4-bit numbers to a word, shifted by eight and scaled by row."""
    T.func_attr({"tirx.noalias": True})
    rows = T.int64()
    W = T.match_buffer(packed, (rows, T.int64(2)), "uint32")
    S = T.match_buffer(scale, (rows, T.int64(1)), "float16")
    Y = T.match_buffer(dst, (rows, T.int64(16)), "float16")
    for r, c in T.grid(rows, T.int64(16)):
        with T.sblock("unpack"):
            vr, vc = T.axis.remap("SS", [r, c])
            Y[vr, vc] = (
                T.Cast(
                    "float16",
                    T.bitwise_and(
                        T.shift_right(W[vr, vc // T.int64(8)], T.Cast("uint32", vc % T.int64(8)) * T.uint32(4)),
                        T.uint32(15),
                    ),
                )
                - T.float16(8)
            ) * S[vr, 0]


def rows_of_a_sum() -> tvm.IRModule:
    def body(g, x, rows):
        return g.take(g.add(x, const(1.0, "float16")), rows, axis=0)

    return dataflow({"x": tensor(9, 4, dtype="float16"), "rows": tensor(3, dtype="int32")}, body)


def group_made_before() -> tvm.IRModule:
    """A module in which somebody fused already: ``main`` only calls a Primitive function."""
    matrix, row = tensor(4, 4, dtype="float16"), tensor(1, 4, dtype="float16")
    builder = relax.BlockBuilder()
    plus, pick = builder.add_func(half_plus_one, "half_plus_one"), builder.add_func(pick_row, "pick_row")

    def params() -> list[relax.Var]:
        return [relax.Var("x", matrix), relax.Var("row", tensor(1, dtype="int32"))]

    x, index = params()
    with builder.function("group", [x, index], attrs={"Primitive": True}, private=True):
        with builder.dataflow():
            raised = builder.emit(relax.call_tir(plus, (x,), matrix))
            result = builder.emit_output(relax.call_tir(pick, (raised, index), row))
        builder.emit_func_output(result)
    group = builder.get().get_global_var("group")
    x, index = params()
    with builder.function("main", [x, index]):
        with builder.dataflow():
            result = builder.emit_output(relax.Call(group, [x, index]))
        builder.emit_func_output(result)
    return builder.get()


def columns_of_a_doubled_matrix() -> tvm.IRModule:
    def body(g, x, columns):
        return g.add(g.take(g.concat([x, x], axis=1), columns, axis=1), const(1.0))

    return dataflow({"x": tensor(5, 3), "columns": tensor(4, dtype="int64")}, body)


def rows_of_a_packed_table() -> tvm.IRModule:
    rows = tirx.Var("rows", "int64")

    def body(g, words, scale, wanted):
        table = g.kernel(unpack_nibbles, [words, scale], tensor(rows, 16, dtype="float16"))
        return g.take(table, wanted, axis=0)

    params = {
        "words": tensor(rows, 2, dtype="uint32"),
        "scale": tensor(rows, 1, dtype="float16"),
        "wanted": tensor(2, dtype="int32"),
    }
    return dataflow(params, body)


def gather_with_two_producers() -> tvm.IRModule:
    def body(g, x, index):
        clamped = g.minimum(g.maximum(index, const(0, "int64")), const(4, "int64"))
        return g.gather_elements(g.multiply(x, x), clamped, axis=1)

    return dataflow({"x": tensor(4, 5), "index": tensor(4, 3, dtype="int64")}, body)


def joined_producers() -> tvm.IRModule:
    def body(g, x, y):
        joined = g.concat([g.exp(x), g.multiply(g.tanh(y), const(2.0))], axis=1)
        return g.subtract(joined, const(1.0))

    return dataflow({"x": tensor(3, 4), "y": tensor(3, 6)}, body)


def scattered_rows() -> tvm.IRModule:
    def body(g, x, rows, update):
        changed = g.scatter_nd(g.abs(x), rows, update, "update")
        return g.multiply(g.concat([changed, x], axis=0), const(2.0))

    return dataflow({"x": tensor(6, 3), "rows": tensor(2, 1, dtype="int64"), "update": tensor(2, 3)}, body)


def two_windows() -> tvm.IRModule:
    def body(g, x):
        y = g.multiply(x, const(3.0))
        low = g.min(g.strided_slice(y, [0], [0], [9]))
        high = g.max(g.strided_slice(y, [0], [4], [16]))
        return g.subtract(high, low)

    return dataflow({"x": tensor(16)}, body)


def _unpacked_rows(words: np.ndarray, scale: np.ndarray, wanted: np.ndarray) -> list[np.ndarray]:
    shifts = np.arange(8, dtype="uint32") * 4
    nibbles = (words[:, :, None] >> shifts & 15).reshape(len(words), 16)
    return [((nibbles.astype("float16") - np.float16(8)) * scale)[wanted]]


def _scattered(x: np.ndarray, rows: np.ndarray, update: np.ndarray) -> list[np.ndarray]:
    changed = np.abs(x)
    changed[rows[:, 0]] = update
    return [np.concatenate([changed, x]) * np.float32(2)]


CASES = [
    Case(
        name="rows_taken_from_a_sum",
        source="apache/tvm#20421",
        what="inlining the sum into the take loses the buffer of row numbers",
        build=rows_of_a_sum,
        inputs=lambda: [uniform(1, 9, 4, dtype="float16"), np.array([7, 0, 3], "int32")],
        expect=lambda x, rows: [(x + np.float16(1))[rows]],
        tolerance=HALF,
        bitwise=True,
    ),
    Case(
        name="group_that_was_fused_before",
        source="apache/tvm#20421",
        what="a Primitive function that is there on arrival is fused again, dropped or left without a schedule",
        build=group_made_before,
        inputs=lambda: [uniform(17, 4, 4, dtype="float16"), np.array([2], "int32")],
        expect=lambda x, row: [(x + np.float16(1))[row]],
        tolerance=HALF,
        bitwise=True,
    ),
    Case(
        name="wide_indices_into_a_tensor_joined_to_itself",
        source="apache/tvm#5235",
        what="64-bit indices meet 32-bit loops over a concatenation of one tensor with itself",
        build=columns_of_a_doubled_matrix,
        inputs=lambda: [uniform(3, 5, 3), np.array([0, 5, 2, 4], "int64")],
        expect=lambda x, columns: [np.hstack([x, x])[:, columns] + np.float32(1)],
        bitwise=True,
    ),
    Case(
        name="rows_of_a_packed_table_of_unknown_height",
        source="apache/tvm#16045",
        what="dequantization of a table with a symbolic number of rows is fused with the take of a few of them",
        build=rows_of_a_packed_table,
        inputs=lambda: [
            np.random.default_rng(5).integers(0, 2**32, size=(13, 2), dtype="uint32"),
            uniform(6, 13, 1, dtype="float16"),
            np.array([12, 0], "int32"),
        ],
        expect=_unpacked_rows,
        tolerance=HALF,
        bitwise=True,
    ),
    Case(
        name="gathered_data_and_indices_both_computed",
        source="variant of apache/tvm#20421",
        what="the clamp that makes indices safe is computed for another element than the one that is gathered",
        build=gather_with_two_producers,
        inputs=lambda: [uniform(7, 4, 5), np.random.default_rng(8).integers(-3, 9, size=(4, 3))],
        expect=lambda x, index: [np.take_along_axis(x * x, index.clip(0, 4), axis=1)],
        bitwise=True,
    ),
    Case(
        name="two_chains_joined",
        source="apache/tvm#18163",
        what="one chain is evaluated over the whole of the concatenation, the other one's part included",
        build=joined_producers,
        inputs=lambda: [uniform(10, 3, 4), uniform(11, 3, 6)],
        expect=lambda x, y: [np.hstack([np.exp(x), np.tanh(y) * np.float32(2)]) - np.float32(1)],
        bitwise=True,
    ),
    Case(
        name="scatter_is_not_elementwise",
        source="apache/tvm#7464",
        what="a scatter between elementwise operators and a concatenation is merged as though it kept positions",
        build=scattered_rows,
        inputs=lambda: [uniform(12, 6, 3), np.array([[4], [1]], "int64"), uniform(13, 2, 3)],
        expect=_scattered,
        bitwise=True,
    ),
    Case(
        name="overlapping_windows_of_one_producer",
        source="tinygrad/tinygrad#9987",
        what="two slices that overlap are reduced in different ways over one shared loop",
        build=two_windows,
        inputs=lambda: [uniform(16, 16)],
        expect=lambda x: [np.asarray((x * 3)[4:].max() - (x * 3)[:9].min(), "float32")],
    ),
]
