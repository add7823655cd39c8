"""Groups whose operators read from another place: transposes, concatenation, gathering, padding, slices, reshapes."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import relax
from tvm.ir import Var

from tests.pipeline.columns import fused_column, unfused_column
from tests.schedule.equivalence import (
    assert_close,
    assert_one_kernel,
    assert_same_bits,
    check,
    check_sizes,
    draw,
    draws,
    graph,
)

OF_ONE_OPERATOR = {
    # the shape, the operator that reads from elsewhere, NumPy's
    "transpose": ((33, 77), lambda g, x: g.permute_dims(x, [1, 0]), lambda x: x.T),
    "transpose of a row": ((1, 1023), lambda g, x: g.permute_dims(x, [1, 0]), lambda x: x.T),
    "swap of the outer axes": ((3, 7, 9), lambda g, x: g.permute_dims(x, [1, 0, 2]), lambda x: x.transpose(1, 0, 2)),
    "channels last": ((2, 3, 8, 9), lambda g, x: g.permute_dims(x, [0, 2, 3, 1]), lambda x: x.transpose(0, 2, 3, 1)),
    "reversal of five axes": ((2, 3, 1, 4, 5), lambda g, x: g.permute_dims(x), lambda x: x.T),
    "reshape": ((8, 31), lambda g, x: g.reshape(x, (4, 62)), lambda x: x.reshape(4, 62)),
    "reshape that joins and splits": ((2, 9, 4), lambda g, x: g.reshape(x, (3, 2, 12)), lambda x: x.reshape(3, 2, 12)),
    "flip": ((7, 33), lambda g, x: g.flip(x, axis=1), lambda x: x[:, ::-1]),
    "slice": ((9, 31), lambda g, x: g.strided_slice(x, [0, 1], [1, 2], [8, 31], [2, 3]), lambda x: x[1:8:2, 2:31:3]),
    "slice backwards": ((9, 31), lambda g, x: g.strided_slice(x, [1], [30], [2], [-2]), lambda x: x[:, 30:2:-2]),
    "pad": ((7, 9), lambda g, x: g.pad(x, [1, 2, 0, 3]), lambda x: np.pad(x, [(1, 2), (0, 3)])),
    "mirrored": (
        (7, 9),
        lambda g, x: g.pad(x, [2, 2, 1, 3], "reflect"),
        lambda x: np.pad(x, [(2, 2), (1, 3)], "reflect"),
    ),
    "tile": ((3, 5), lambda g, x: g.tile(x, (2, 3)), lambda x: np.tile(x, (2, 3))),
    "repeat": ((3, 5), lambda g, x: g.repeat(x, 4, axis=1), lambda x: np.repeat(x, 4, axis=1)),
    "broadcast": ((7, 1, 3), lambda g, x: g.broadcast_to(x, (2, 7, 5, 3)), lambda x: np.broadcast_to(x, (2, 7, 5, 3))),
    "lower triangle": ((9, 8), lambda g, x: g.tril(x), np.tril),
}  # fmt: skip


@pytest.mark.parametrize("name", OF_ONE_OPERATOR)
def test_between_elementwise_operators(name, rng):
    """A cheap producer moves into the reader; the result goes on into an epilogue."""
    shape, move, numpy_move = OF_ONE_OPERATOR[name]
    mod = graph(lambda g, x, y: g.tanh(move(g, g.add(g.multiply(x, y), x))), shape, shape)
    check(mod, draws(rng, shape, shape), lambda x, y: np.tanh(numpy_move(x * y + x)), "elementwise", bitwise=True)


@pytest.mark.parametrize("name", ["transpose", "channels last", "reshape", "flip", "slice", "pad"])
def test_before_a_reduction(name, rng):
    shape, move, numpy_move = OF_ONE_OPERATOR[name]
    mod = graph(lambda g, x: g.sum(move(g, g.relu(x)), axis=-1), shape)
    check(mod, draws(rng, shape), lambda x: numpy_move(np.maximum(x, 0)).sum(-1), None)


@pytest.mark.parametrize("dtype", ["float16", "int8", "int64", "float64", "bool"])
def test_transposes_of_other_widths(dtype, rng):
    mod = graph(lambda g, x: g.permute_dims(g.where(g.equal(x, x), x, x), [1, 0]), (31, 65), dtype=dtype)
    inputs = draws(rng, (31, 65), dtype=dtype)
    column = fused_column(mod)
    assert_one_kernel(column, inputs, "elementwise")
    np.testing.assert_array_equal(column.run(inputs)[0], inputs[0].T)


@pytest.mark.parametrize("shape", [(1, 1), (8, 9), (33, 33), (130, 67)], ids=str)
def test_a_tensor_and_a_transposed_one(shape, rng):
    mod = graph(lambda g, x, y: g.relu(g.add(x, g.permute_dims(y, [1, 0]))), shape, shape[::-1])
    check(mod, draws(rng, shape, shape[::-1]), lambda x, y: np.maximum(x + y.T, 0), "elementwise", bitwise=True)


def test_an_expensive_producer_of_a_transpose_is_evaluated_once(rng):
    mod = graph(lambda g, x: g.add(g.permute_dims(g.exp(x), [1, 0]), g.permute_dims(x, [1, 0])), (31, 33))
    check(mod, draws(rng, (31, 33)), lambda x: (np.exp(x) + x).T, "elementwise", bitwise=True)


def test_both_a_tensor_and_its_transpose_are_returned(rng):
    mod = graph(lambda g, x: [g.exp(x), g.permute_dims(g.exp(x), [1, 0])], (9, 31))
    inputs = draws(rng, (9, 31))
    assert_close(fused_column(mod).run(inputs), [np.exp(inputs[0]), np.exp(inputs[0]).T])


# ------------------------------------------------------------------------------------------------------- concatenation
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("rows", [1, 8, 33])
def test_concatenation_of_three_producers(axis, rows, rng):
    """Each part is evaluated on its own side only, however expensive it is."""
    shapes = [(rows, 9), (rows, 31), (rows, 2)] if axis else [(rows, 9), (2 * rows, 9), (1, 9)]

    def body(g, x, y, z):
        return g.relu(g.concat([g.exp(x), g.tanh(y), g.negative(z)], axis=axis))

    def expected(x, y, z):
        return np.maximum(np.concatenate([np.exp(x), np.tanh(y), -z], axis), 0)

    check(graph(body, *shapes), draws(rng, *shapes), expected, "elementwise", bitwise=True)


def test_concatenation_of_rows_that_are_reduced(rng):
    def body(g, x, y):
        return g.softmax(g.concat([g.exp(x), y], axis=1), axis=1)

    def expected(x, y):
        z = np.concatenate([np.exp(x), y], 1)
        e = np.exp(z - z.max(1, keepdims=True))
        return e / e.sum(1, keepdims=True)

    column = fused_column(graph(body, (7, 9), (7, 24)))
    inputs = draws(rng, (7, 9), (7, 24))
    assert_close(column.run(inputs), [expected(*inputs)], 1e-5)


def test_split_and_swapped_halves(rng):
    """Rotary embedding's rotation: halves of a row change places."""

    def body(g, x, c):
        low, high = g.fields(g.split(x, 2, axis=-1))
        return g.add(g.multiply(x, c), g.concat([g.negative(high), low], axis=-1))

    def expected(x, c):
        low, high = np.split(x, 2, -1)
        return x * c + np.concatenate([-high, low], -1)

    check(graph(body, (5, 3, 16), (16,)), draws(rng, (5, 3, 16), (16,)), expected, "elementwise", bitwise=True)


def test_stacked_and_expanded(rng):
    mod = graph(lambda g, x, y: g.relu(g.stack([g.add(x, y), g.subtract(x, y)], axis=1)), (9, 7), (9, 7))
    check(
        mod,
        draws(rng, (9, 7), (9, 7)),
        lambda x, y: np.maximum(np.stack([x + y, x - y], 1), 0),
        "elementwise",
        bitwise=True,
    )


# ------------------------------------------------------------------------------------------------------------ gathering
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("index_dtype", ["int32", "int64"])
def test_gathered_rows_and_columns(axis, index_dtype, rng):
    shape = (31, 33)
    where = rng.integers(0, shape[axis], 13).astype(index_dtype)
    mod = graph(
        lambda g, x, i, y: g.multiply(g.take(g.add(x, x), i, axis=axis, mode="fast"), y),
        shape, (13,), (13, 33) if axis == 0 else (31, 13), dtype=["float32", index_dtype, "float32"],
    )  # fmt: skip
    x, y = draws(rng, shape, (13, 33) if axis == 0 else (31, 13))
    check(mod, [x, where, y], lambda x, i, y: np.take(x + x, i, axis) * y, "elementwise", bitwise=True)


def test_an_embedding_and_the_norm_of_its_rows(rng):
    def body(g, table, tokens):
        rows = g.take(table, tokens, axis=0, mode="fast")
        return g.divide(rows, g.sqrt(g.sum(g.multiply(rows, rows), axis=-1, keepdims=True)))

    table, tokens = draw(rng, (100, 77)), rng.integers(0, 100, (2, 9))

    def expected(table, tokens):
        rows = table[tokens]
        return rows / np.sqrt((rows**2).sum(-1, keepdims=True))

    check(graph(body, (100, 77), (2, 9), dtype=["float32", "int64"]), [table, tokens], expected, None)


def test_elements_gathered_along_rows(rng):
    def body(g, x, i):
        return g.negative(g.gather_elements(g.add(x, x), i, axis=1))

    x, where = draw(rng, (9, 31)), rng.integers(0, 31, (9, 4))
    mod = graph(body, (9, 31), (9, 4), dtype=["float32", "int64"])
    check(mod, [x, where], lambda x, i: -np.take_along_axis(x + x, i, 1), "elementwise", bitwise=True)


@pytest.mark.parametrize("shape", [(17,), (1,)], ids=str)
def test_a_sum_of_one_gathered_element_and_an_epilogue(shape, rng):
    """The lanes lie along an axis of one point, which the sum does not have."""

    def body(g, x):
        picked = g.take(g.add(x, x), relax.const(np.array([0], "int64")), axis=0, mode="fast")
        return g.add(g.sum(picked, axis=0, keepdims=True), relax.const(2.0))

    check(graph(body, shape), draws(rng, shape), lambda x: 2 * x[:1] + 2, None)


def test_an_index_that_is_computed_in_the_group(rng):
    def body(g, x, i):
        return g.take(x, g.floor_mod(g.add(i, i), relax.const(31, "int64")), axis=0, mode="fast")

    x, where = draw(rng, (31, 8)), rng.integers(0, 31, (9,))
    mod = graph(body, (31, 8), (9,), dtype=["float32", "int64"])
    check(mod, [x, where], lambda x, i: x[(i + i) % 31], "elementwise", bitwise=True)


# -------------------------------------------------------------------------------------------------------------- symbols
def test_a_transpose_of_symbolic_extents(rng):
    n, m = Var("n", "int64"), Var("m", "int64")
    mod = graph(lambda g, x, y: g.add(g.permute_dims(g.relu(x), [1, 0]), y), (n, m), (m, n))
    inputs = [draws(rng, s, s[::-1]) for s in [(1, 1), (7, 33), (33, 9), (77, 64)]]
    check_sizes(mod, inputs, lambda x, y: np.maximum(x, 0).T + y, "elementwise")


def test_a_reshape_of_a_symbolic_extent(rng):
    n = Var("n", "int64")
    mod = graph(lambda g, x: g.tanh(g.reshape(g.add(x, x), (n * 4, 9))), (n, 36))
    inputs = [draws(rng, (s, 36)) for s in (1, 3, 31)]
    column, plain = fused_column(mod), unfused_column(mod)
    for given in inputs:
        assert_same_bits([column.run(given)[0].astype("float16")], [plain.run(given)[0].astype("float16")])


def test_padding_of_a_symbolic_extent(rng):
    n = Var("n", "int64")
    mod = graph(lambda g, x: g.relu(g.pad(g.negative(x), [0, 0, 1, 2])), (n, 9))
    check_sizes(
        mod, [draws(rng, (s, 9)) for s in (1, 8, 33)], lambda x: np.pad(np.maximum(-x, 0), [(0, 0), (1, 2)]), None
    )
