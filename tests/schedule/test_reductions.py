"""Groups around reductions: rows, columns and mixed axes, one to three levels, several outputs."""

from __future__ import annotations

import numpy as np
import pytest
from tvm.ir import Var

from tests.cases.modules import const
from tests.pipeline.columns import fused_column, unfused_column
from tests.schedule.equivalence import assert_close, check, check_sizes, draw, draws, graph, wide

SHAPES = [(1, 1), (1, 1023), (2, 3), (7, 8), (9, 33), (31, 77), (33, 1), (3, 2, 9)]


# ---------------------------------------------------------------------------------------------------- graphs and NumPy
def row_sum(g, x, y):
    return g.sum(g.multiply(x, y), axis=-1)


def softmax(g, x, y):
    return g.multiply(g.softmax(g.add(x, y), axis=-1), y)


def layer_norm(g, x, y):
    total = g.add(x, y)
    mean = g.mean(total, axis=-1, keepdims=True)
    centred = g.subtract(total, mean)
    variance = g.mean(g.multiply(centred, centred), axis=-1, keepdims=True)
    return [total, g.divide(centred, g.sqrt(g.add(variance, const(1e-2))))]


def log_sum_exp(g, x, y):
    top = g.max(x, axis=-1, keepdims=True)
    total = g.sum(g.exp(g.subtract(x, top)), axis=-1, keepdims=True)
    return [g.add(g.log(total), top), g.multiply(g.subtract(x, top), y)]


def four_levels(g, x, y):
    """A softmax, normalised by its largest element, minus its mean."""
    p = g.softmax(x, axis=-1)
    scaled = g.divide(p, g.max(p, axis=-1, keepdims=True))
    return g.multiply(g.subtract(scaled, g.mean(scaled, axis=-1, keepdims=True)), y)


def several_of_one(g, x, y):
    t = g.tanh(g.add(x, y))
    return [t, g.sum(t, axis=-1), g.max(t, axis=-1), g.min(t, axis=-1), g.sum(g.multiply(t, t), axis=-1)]


def np_softmax(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def np_layer_norm(x, y):
    total = x + y
    centred = total - total.mean(-1, keepdims=True)
    return total, centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-2)


def np_log_sum_exp(x, y):
    top = x.max(-1, keepdims=True)
    return np.log(np.exp(x - top).sum(-1, keepdims=True)) + top, (x - top) * y


def np_four_levels(x, y):
    p = np_softmax(x)
    scaled = p / p.max(-1, keepdims=True)
    return (scaled - scaled.mean(-1, keepdims=True)) * y


def np_several(x, y):
    t = np.tanh(x + y)
    return t, t.sum(-1), t.max(-1), t.min(-1), (t * t).sum(-1)


ROWS = {
    "row_sum": (row_sum, lambda x, y: (x * y).sum(-1)),
    "softmax": (softmax, lambda x, y: np_softmax(x + y) * y),
    "layer_norm": (layer_norm, np_layer_norm),
    "log_sum_exp": (log_sum_exp, np_log_sum_exp),
    "four_levels": (four_levels, np_four_levels),
    "several_of_one": (several_of_one, np_several),
}


# ----------------------------------------------------------------------------------------------------------------- rows
@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("pick", [0, 1])
def test_row_groups(name, pick, rng):
    """Two shapes for each graph, other ones for the next graph: all shapes and all graphs are met."""
    body, expected = ROWS[name]
    shape = SHAPES[(2 * list(ROWS).index(name) + 3 * pick) % len(SHAPES)]
    check(graph(body, shape, shape), draws(rng, shape, shape), expected, None, tolerance=2e-5)


@pytest.mark.parametrize("name", ROWS)
def test_long_rows_run_along_the_lanes(name, rng):
    body, expected = ROWS[name]
    check(
        graph(body, (3, 1023), (3, 1023)), draws(rng, (3, 1023), (3, 1023)), expected, "row-reduction", tolerance=2e-5
    )


@pytest.mark.parametrize("name", ["softmax", "layer_norm", "several_of_one"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_row_groups_in_other_floats(name, dtype, rng):
    body, expected = ROWS[name]
    if name == "layer_norm":  # the constant inside has a dtype of its own
        body = typed_layer_norm(dtype)
    mod = graph(body, (9, 77), (9, 77), dtype=dtype)
    tolerance = {"float16": 1e-2, "bfloat16": 8e-2, "float64": 1e-12}[dtype]
    check(mod, draws(rng, (9, 77), (9, 77), dtype=dtype), expected, None, tolerance=tolerance)


def typed_layer_norm(dtype):
    def body(g, x, y):
        total = g.add(x, y)
        centred = g.subtract(total, g.mean(total, axis=-1, keepdims=True))
        variance = g.mean(g.multiply(centred, centred), axis=-1, keepdims=True)
        return [total, g.divide(centred, g.sqrt(g.add(variance, const(1e-2, dtype))))]

    return body


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8"])
def test_integer_reductions_are_exact(dtype, rng):
    def body(g, x):
        return [g.sum(x, axis=1), g.max(x, axis=1), g.min(x, axis=1), g.prod(g.maximum(x, const(1, dtype)), axis=1)]

    def expected(x):
        product = np.prod(np.maximum(x, np.array(1, x.dtype)), axis=1, dtype=x.dtype)
        return x.sum(1, dtype=x.dtype), x.max(1), x.min(1), product

    check(graph(body, (9, 33), dtype=dtype), draws(rng, (9, 33), dtype=dtype), expected, None)


@pytest.mark.parametrize("name", ["softmax", "layer_norm"])
@pytest.mark.parametrize("symbolic", ["rows", "columns", "both"])
def test_symbolic_rows_and_columns(name, symbolic, rng):
    body, expected = ROWS[name]
    n, m = Var("n", "int64"), Var("m", "int64")
    shape = (7 if symbolic == "columns" else n, 33 if symbolic == "rows" else m)
    sizes = {
        "rows": [(1, 33), (9, 33), (77, 33)],
        "columns": [(7, 1), (7, 8), (7, 31), (7, 1023)],
        "both": [(1, 1), (3, 77)],
    }
    check_sizes(graph(body, shape, shape), [draws(rng, s, s) for s in sizes[symbolic]], expected, "row-reduction")


def test_nan_and_infinities_reach_the_results_of_their_rows_only(rng):
    x = draw(rng, (8, 77))
    x[1, 3], x[2, 5], x[3, :], x[4, 76] = np.nan, np.inf, -np.inf, -np.inf
    mod = graph(lambda g, x: [g.sum(g.relu(x), axis=1), g.sum(g.tanh(x), axis=1), g.softmax(x, axis=1)], (8, 77))
    got = fused_column(mod).run([x])
    clean = np.isfinite(x).all(1)
    assert all(np.isfinite(r[clean]).all() for r in got)
    assert np.isnan(got[1][1])
    assert np.isposinf(got[0][2])
    assert np.isfinite(got[1][2:5]).all()
    assert np.isnan(got[2][1]).all()
    assert np.isnan(got[2][3]).all()
    assert np.isfinite(got[2][4]).all()
    assert got[2][4, 76] == 0


def test_rows_of_extreme_values_keep_their_softmax(rng):
    x = (draw(rng, (5, 33)) * 1e4).astype("float32")
    mod = graph(lambda g, x: g.softmax(g.add(x, x), axis=1), (5, 33))
    check(mod, [x], lambda x: np_softmax(x.astype("float32") * 2.0), None, tolerance=1e-5)


# -------------------------------------------------------------------------------------------------------------- columns
def columns(g, x):
    e = g.exp(x)
    return [g.sum(e, axis=0), g.max(x, axis=0), g.divide(e, g.sum(e, axis=0, keepdims=True))]


def np_columns(x):
    e = np.exp(x)
    return e.sum(0), x.max(0), e / e.sum(0, keepdims=True)


@pytest.mark.parametrize("shape", [(33, 77), (1023, 3), (8, 31), (1, 9), (7, 1), (1, 1)], ids=str)
def test_column_groups(shape, rng):
    check(graph(columns, shape), draws(rng, shape), np_columns, None)


def test_long_columns_put_rows_into_lanes(rng):
    mod = graph(lambda g, x: g.sum(g.exp(x), axis=0), (1023, 33))
    check(mod, draws(rng, (1023, 33)), lambda x: np.exp(x).sum(0), "column-reduction")


def test_symbolic_columns(rng):
    n, m = Var("n", "int64"), Var("m", "int64")
    mod = graph(lambda g, x: g.softmax(g.multiply(x, x), axis=0), (n, m))
    check_sizes(mod, [draws(rng, s) for s in [(1, 1), (9, 31), (77, 3)]], lambda x: np_softmax(x * x, 0), None)


# ---------------------------------------------------------------------------------------------------------- mixed axes
IMAGES = [(2, 3, 4, 5), (1, 7, 3, 1), (3, 1, 9, 8)]
STATISTICS = [
    *((s, a) for s in IMAGES for a in [(0, 2, 3), (2, 3), (0, 1, 2, 3)]),
    (IMAGES[0], (1,)),
    (IMAGES[0], (1, 3)),
]


@pytest.mark.parametrize(("shape", "axes"), STATISTICS, ids=str)
def test_statistics_of_images(shape, axes, rng):
    """Batch, instance and layer norm, statistics along a strided axis, and of everything."""

    def body(g, x, scale):
        centred = g.subtract(x, g.mean(x, axis=list(axes), keepdims=True))
        variance = g.mean(g.multiply(centred, centred), axis=list(axes), keepdims=True)
        return g.relu(g.multiply(g.divide(centred, g.sqrt(g.add(variance, const(1e-2)))), scale))

    def expected(x, scale):
        centred = x - x.mean(axes, keepdims=True)
        return np.maximum(centred / np.sqrt((centred**2).mean(axes, keepdims=True) + 1e-2) * scale, 0)

    scale = (shape[1], 1, 1)
    check(graph(body, shape, scale), draws(rng, shape, scale), expected, None, tolerance=2e-5)


def test_reductions_of_two_different_axes_are_two_kernels(rng):
    """Row sums and column sums share no rows."""
    mod = graph(lambda g, x: [g.sum(x, axis=0), g.sum(x, axis=1)], (9, 33))
    x = draw(rng, (9, 33))
    column = fused_column(mod)
    assert len(column.kernels([x])) == 2
    assert_close(column.run([x]), [wide([x])[0].sum(0), wide([x])[0].sum(1)])


def test_a_reduction_of_a_reduction(rng):
    """Row maxima, then the sum of all of them."""
    mod = graph(lambda g, x: g.sum(g.max(x, axis=1), axis=0), (31, 33))
    x = draw(rng, (31, 33))
    column = fused_column(mod)
    assert_close(column.run([x]), [wide([x])[0].max(1).sum()])


@pytest.mark.parametrize("shape", [(1, 16), (1, 1), (16, 1)], ids=str)
def test_a_reduction_over_an_axis_of_extent_one_counts_each_element_once(shape, rng):
    """Beside a longer reduction it has one term, not as many as that one."""

    def body(g, x):
        rows = g.sum(x, axis=1)
        return (
            [rows, g.sum(rows, axis=0, keepdims=True)] if shape[0] == 1 else [rows, g.sum(x, axis=[1], keepdims=True)]
        )

    x = draw(rng, shape, "int32")
    mod = graph(body, shape, dtype="int32")
    assert_close(fused_column(mod).run([x]), unfused_column(mod).run([x]))


def test_an_empty_row_has_the_first_value_of_its_reduction(rng):
    n = Var("n", "int64")
    mod = graph(lambda g, x: [g.sum(x, axis=1), g.sum(g.exp(x), axis=0)], (3, n))
    got = fused_column(mod).run([np.zeros((3, 0), "float32")])
    np.testing.assert_array_equal(got[0], np.zeros(3, "float32"))
    assert got[1].shape == (0,)


def test_a_reduction_to_nothing_and_a_scalar_epilogue(rng):
    mod = graph(lambda g, x: g.sqrt(g.sum(g.multiply(x, x))), (9, 7, 5))
    check(mod, draws(rng, (9, 7, 5)), lambda x: np.sqrt((x * x).sum()), None)


def test_positions_of_extremes_stay_in_kernels_of_their_own_and_are_right(rng):
    mod = graph(lambda g, x: [g.argmax(g.multiply(x, x), axis=1), g.exp(x)], (9, 33))
    x = draw(rng, (9, 33))
    got = fused_column(mod).run([x])
    np.testing.assert_array_equal(got[0], (x * x).argmax(1))
