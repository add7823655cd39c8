"""Groups around a contraction: products, convolutions, windows, with what comes before and after them."""

from __future__ import annotations

import numpy as np
import pytest
from tvm.ir import Var

from tests.pipeline.columns import fused_column
from tests.schedule.equivalence import assert_close, check, check_sizes, draw, draws, graph, wide

PRODUCTS = [(1, 1, 1), (1, 77, 9), (7, 3, 33), (33, 31, 8), (9, 1023, 2), (64, 8, 77)]


@pytest.mark.parametrize("sizes", PRODUCTS, ids=str)
def test_a_product_with_bias_activation_and_residual(sizes, rng):
    rows, inner, columns = sizes

    def body(g, x, w, b, r):
        return g.add(g.relu(g.add(g.matmul(x, w), b)), r)

    shapes = [(rows, inner), (inner, columns), (columns,), (rows, columns)]
    check(graph(body, *shapes), draws(rng, *shapes), lambda x, w, b, r: np.maximum(x @ w + b, 0) + r, None)


def test_a_product_of_a_transposed_weight(rng):
    mod = graph(lambda g, x, w: g.tanh(g.matmul(x, g.permute_dims(w, [1, 0]))), (9, 33), (31, 33))
    column = fused_column(mod)
    inputs = draws(rng, (9, 33), (31, 33))
    assert_close(column.run(inputs), [np.tanh(wide(inputs)[0] @ wide(inputs)[1].T)])


@pytest.mark.parametrize(
    "shapes", [((2, 3, 7, 9), (2, 3, 9, 8)), ((5, 7, 9), (9, 8)), ((3, 1, 7, 9), (1, 2, 9, 4))], ids=str
)
def test_batched_products_and_an_epilogue(shapes, rng):
    mod = graph(lambda g, x, y: g.relu(g.matmul(x, y)), *shapes)
    check(mod, draws(rng, *shapes), lambda x, y: np.maximum(x @ y, 0), None)


def test_a_cheap_prologue_of_a_product(rng):
    """The mask is applied on the way in, or stays a kernel; the result is right in any case."""
    mod = graph(lambda g, x, m, w: g.matmul(g.multiply(x, m), w), (33, 31), (31,), (31, 8))
    inputs = draws(rng, (33, 31), (31,), (31, 8))
    x, m, w = wide(inputs)
    assert_close(fused_column(mod).run(inputs), [(x * m) @ w])


def test_an_expensive_prologue_is_not_evaluated_for_every_column(rng):
    mod = graph(lambda g, x, w: g.matmul(g.exp(x), w), (9, 31), (31, 16))
    column = fused_column(mod)
    inputs = draws(rng, (9, 31), (31, 16))
    assert len(column.kernels(inputs)) == 2
    (refusal,) = column.result.refused
    assert refusal["reason"] == "expensive-recompute"
    assert_close(column.run(inputs), [np.exp(wide(inputs)[0]) @ wide(inputs)[1]])


def test_the_rows_of_a_product_are_normalised_or_cut_and_right(rng):
    mod = graph(lambda g, x, w: g.softmax(g.matmul(x, w), axis=-1), (9, 31), (31, 33))
    inputs = draws(rng, (9, 31), (31, 33))
    z = wide(inputs)[0] @ wide(inputs)[1]
    e = np.exp(z - z.max(-1, keepdims=True))
    assert_close(fused_column(mod).run(inputs), [e / e.sum(-1, keepdims=True)], 1e-4)


@pytest.mark.parametrize("dtype", ["float16", "float64", "int32", "int8"])
def test_products_of_other_dtypes(dtype, rng):
    shapes = [(7, 33), (33, 9), (9,)]
    mod = graph(lambda g, x, w, b: g.maximum(g.add(g.matmul(x, w), b), b), *shapes, dtype=dtype)
    inputs = [(a / 2 if dtype == "float16" else a).astype(a.dtype) for a in draws(rng, *shapes, dtype=dtype)]
    tolerance = 2e-2 if dtype == "float16" else None
    check(mod, inputs, lambda x, w, b: np.maximum(x @ w + b, b), None, tolerance=tolerance)


def test_a_product_that_accumulates_wider_than_its_inputs(rng):
    mod = graph(lambda g, x, w: g.relu(g.matmul(x, w, out_dtype="float32")), (7, 33), (33, 9), dtype="float16")
    inputs = draws(rng, (7, 33), (33, 9), dtype="float16")
    check(mod, inputs, lambda x, w: np.maximum(x @ w, 0), None)


def test_a_product_with_symbolic_rows(rng):
    n = Var("n", "int64")
    mod = graph(lambda g, x, w, b: g.relu(g.add(g.matmul(x, w), b)), (n, 31), (31, 33), (33,))
    inputs = [draws(rng, (s, 31), (31, 33), (33,)) for s in (1, 2, 7, 33, 77)]
    check_sizes(mod, inputs, lambda x, w, b: np.maximum(x @ w + b, 0), None)


def test_a_product_with_a_symbolic_inner_extent(rng):
    n = Var("n", "int64")
    mod = graph(lambda g, x, w: g.negative(g.matmul(x, w)), (7, n), (n, 9))
    check_sizes(mod, [draws(rng, (7, s), (s, 9)) for s in (1, 8, 31)], lambda x, w: -(x @ w), None)


# --------------------------------------------------------------------------------------------------------- convolutions
def np_conv(x, w, stride=1, padding=0, dilation=1, groups=1):
    """2-D convolution as NumPy has it: sliding windows and one product."""
    x = np.pad(x, [(0, 0), (0, 0), (padding, padding), (padding, padding)])
    span = [(k - 1) * dilation + 1 for k in w.shape[2:]]
    windows = np.lib.stride_tricks.sliding_window_view(x, span, axis=(2, 3))
    windows = windows[:, :, ::stride, ::stride, ::dilation, ::dilation]
    n, c, h, wd = windows.shape[:4]
    windows = windows.reshape(n, groups, c // groups, h, wd, *w.shape[2:])
    weights = w.reshape(groups, w.shape[0] // groups, *w.shape[1:])
    return np.einsum("ngchwij,gocij->ngohw", windows, weights).reshape(n, w.shape[0], h, wd)


CONVOLUTIONS = {
    "1x1": ((2, 9, 7, 8), (33, 9, 1, 1), {}),
    "3x3 padded": ((1, 3, 9, 31), (8, 3, 3, 3), {"padding": 1}),
    "strided": ((2, 7, 9, 9), (16, 7, 3, 3), {"stride": 2, "padding": 1}),
    "dilated": ((1, 2, 11, 33), (3, 2, 3, 3), {"dilation": 2}),
    "grouped": ((1, 8, 7, 7), (12, 4, 3, 3), {"padding": 1, "groups": 2}),
    "depthwise": ((2, 9, 8, 16), (9, 1, 3, 3), {"padding": 1, "groups": 9}),
    "strided depthwise": ((1, 3, 15, 33), (3, 1, 5, 5), {"stride": 2, "padding": 2, "groups": 3}),
    "one pixel": ((1, 1, 3, 3), (1, 1, 3, 3), {}),
    "wide padding": ((1, 2, 2, 3), (2, 2, 3, 3), {"padding": 2}),
    "7x7 of stride 2": ((1, 3, 23, 33), (4, 3, 7, 7), {"stride": 2, "padding": 3}),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_a_convolution_with_bias_residual_and_relu(name, rng):
    shape, weight, how = CONVOLUTIONS[name]
    keywords = {{"stride": "strides"}.get(k, k): v for k, v in how.items()}

    def body(g, x, w, b, r):
        return g.relu(g.add(g.add(g.conv2d(x, w, **keywords), b), r))

    out = np_conv(np.zeros(shape), np.zeros(weight), **how).shape
    shapes = [shape, weight, (weight[0], 1, 1), out]
    column = check(
        graph(body, *shapes), draws(rng, *shapes), lambda x, w, b, r: np.maximum(np_conv(x, w, **how) + b + r, 0), None
    )
    assert column.kernels(draws(rng, *shapes)) == [column.result.groups[0]["name"]]


def test_two_convolutions_stay_two_kernels(rng):
    mod = graph(lambda g, x, w, v: g.conv2d(g.relu(g.conv2d(x, w)), v), (1, 3, 9, 9), (8, 3, 3, 3), (4, 8, 3, 3))
    inputs = draws(rng, (1, 3, 9, 9), (8, 3, 3, 3), (4, 8, 3, 3))
    column = fused_column(mod)
    assert len(column.kernels(inputs)) == 2
    x, w, v = wide(inputs)
    assert_close(column.run(inputs), [np_conv(np.maximum(np_conv(x, w), 0), v)])


def test_convolutions_in_one_and_three_dimensions(rng):
    one = graph(lambda g, x, w: g.relu(g.conv1d(x, w, padding=1)), (2, 3, 31), (8, 3, 3))
    inputs = draws(rng, (2, 3, 31), (8, 3, 3))
    x, w = wide(inputs)
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(x, [(0, 0), (0, 0), (1, 1)]), 3, axis=2)
    assert_close(fused_column(one).run(inputs), [np.maximum(np.einsum("nclk,ock->nol", windows, w), 0)])
    three = graph(lambda g, x, w: g.relu(g.conv3d(x, w)), (1, 2, 4, 5, 9), (3, 2, 2, 3, 3))
    inputs = draws(rng, (1, 2, 4, 5, 9), (3, 2, 2, 3, 3))
    x, w = wide(inputs)
    windows = np.lib.stride_tricks.sliding_window_view(x, (2, 3, 3), axis=(2, 3, 4))
    assert_close(fused_column(three).run(inputs), [np.maximum(np.einsum("ncdhwijk,ocijk->nodhw", windows, w), 0)])


def test_a_transposed_convolution(rng):
    mod = graph(lambda g, x, w: g.relu(g.conv2d_transpose(x, w, strides=2)), (1, 3, 5, 7), (3, 4, 2, 2))
    inputs = draws(rng, (1, 3, 5, 7), (3, 4, 2, 2))
    x, w = wide(inputs)
    out = np.einsum("nchw,coij->nohiwj", x, w).reshape(1, 4, 10, 14)
    assert_close(fused_column(mod).run(inputs), [np.maximum(out, 0)])


# -------------------------------------------------------------------------------------------------------------- windows
def np_pool(x, size, stride, padding, combine, fill):
    x = np.pad(x, [(0, 0), (0, 0), (padding, padding), (padding, padding)], constant_values=fill)
    windows = np.lib.stride_tricks.sliding_window_view(x, (size, size), axis=(2, 3))[:, :, ::stride, ::stride]
    return combine(windows, axis=(-2, -1))


POOLS = [((1, 3, 8, 9), 2, 2, 0), ((2, 1, 7, 33), 3, 1, 1), ((1, 7, 9, 9), 3, 2, 1), ((1, 2, 2, 2), 2, 1, 0)]


@pytest.mark.parametrize("pool", POOLS, ids=str)
def test_windows_with_a_cheap_prologue_and_an_epilogue(pool, rng):
    shape, size, stride, padding = pool
    how = {"pool_size": size, "strides": stride, "padding": padding}
    mod = graph(lambda g, x: g.tanh(g.max_pool2d(g.add(x, x), **how)), shape)
    check(mod, draws(rng, shape), lambda x: np.tanh(np_pool(x + x, size, stride, padding, np.max, -np.inf)), None)
    mean = graph(lambda g, x: g.relu(g.avg_pool2d(x, **how, count_include_pad=True)), shape)
    check(mean, draws(rng, shape), lambda x: np.maximum(np_pool(x, size, stride, padding, np.mean, 0.0), 0), None)


def test_an_expensive_producer_of_overlapping_windows_stays_outside(rng):
    mod = graph(lambda g, x: g.max_pool2d(g.exp(x), pool_size=3, strides=1), (1, 2, 9, 9))
    inputs = [draw(rng, (1, 2, 9, 9))]
    column = fused_column(mod)
    assert len(column.kernels(inputs)) == 2
    (refusal,) = column.result.refused
    assert refusal["reason"] == "expensive-recompute"
    assert "162" in refusal["detail"]  # elements of exp(x)
    assert "882" in refusal["detail"]  # 98 windows of 9
    assert_close(column.run(inputs), [np_pool(np.exp(inputs[0]), 3, 1, 0, np.max, 0)])


def test_global_pooling_after_relu_is_one_kernel(rng):
    mod = graph(lambda g, x: g.adaptive_avg_pool2d(g.relu(x), [1, 1]), (2, 9, 7, 8))
    check(mod, draws(rng, (2, 9, 7, 8)), lambda x: np.maximum(x, 0).mean((2, 3), keepdims=True), None)
