"""Reductions: nested, over several axes, to nothing, with positions, scans, normalizations, convolution, attention."""

from __future__ import annotations

import numpy as np
import tvm

from tests.cases.case import CLOSE, REORDERED, Case, Tolerance
from tests.cases.modules import const, dataflow, tensor, uniform

SUMMED = Tolerance(1e-4, 1e-6)


def mean_of_means() -> tvm.IRModule:
    def body(g, x):
        means = g.mean(g.rsqrt(x), axis=[-1])
        softplus = g.log(g.add(const(1.0), g.exp(means)))
        return g.divide(g.multiply(means, g.tanh(softplus)), g.mean(means, axis=[-1]))

    return dataflow({"x": tensor(5, 5)}, body)


def squared_error() -> tvm.IRModule:
    def body(g, x, y):
        return g.mean(g.square(g.subtract(x, y)))

    return dataflow({"x": tensor(6, 33), "y": tensor(6, 33)}, body)


def weighted_row_sums() -> tvm.IRModule:
    def body(g, x, weight):
        return g.sum(g.multiply(x, weight), axis=-1)

    return dataflow({"x": tensor(3, 2), "weight": tensor(2)}, body)


def tiny_batch_norm() -> tvm.IRModule:
    def body(g, x, scale, shift):
        mean = g.mean(x, axis=[0, 2], keepdims=True)
        variance = g.variance(x, axis=[0, 2], keepdims=True)
        normal = g.divide(g.subtract(x, mean), g.sqrt(g.add(variance, const(1e-3))))
        return g.add(g.multiply(normal, scale), shift)

    return dataflow({name: tensor(1, 2, 1) for name in ("x", "scale", "shift")}, body)


def log_sum_exp() -> tvm.IRModule:
    def body(g, x):
        largest = g.max(x, axis=1, keepdims=True)
        total = g.sum(g.exp(g.subtract(x, largest)), axis=1)
        return g.add(g.log(total), g.squeeze(largest, axis=[1]))

    return dataflow({"x": tensor(6, 33)}, body)


def softmax_down_the_columns() -> tvm.IRModule:
    def body(g, x):
        shares = g.softmax(g.multiply(x, const(4.0)), axis=0)
        return g.add(g.permute_dims(shares), const(1.0))

    return dataflow({"x": tensor(17, 3)}, body)


def positions_of_extremes() -> tvm.IRModule:
    def body(g, x):
        y = g.relu(x)
        largest = g.argmax(y, axis=-2, keepdims=True)
        return [g.add(largest, const(100, "int64")), g.argmin(y, axis=-1, keepdims=False)]

    return dataflow({"x": tensor(3, 6, 4)}, body)


def running_sum() -> tvm.IRModule:
    def body(g, x):
        return g.add(g.abs(g.cumsum(g.multiply(x, const(2.0)), axis=1)), x)

    return dataflow({"x": tensor(4, 9)}, body)


def two_spreads() -> tvm.IRModule:
    def body(g, x):
        mean = g.mean(x, axis=[-1, 0], keepdims=True)
        spread = g.std(x, axis=[-1, 0], keepdims=True)
        normal = g.divide(g.subtract(x, mean), g.add(spread, const(0.5)))
        return [normal, g.multiply(g.variance(x, axis=[0, -1]), const(2.0))]

    return dataflow({"x": tensor(4, 3, 8)}, body)


def largest_negative_zero() -> tvm.IRModule:
    def body(g, x):
        return g.add(g.max(g.multiply(x, const(-1.0))), const(1.0))

    return dataflow({"x": tensor(8193)}, body)


def thin_convolution() -> tvm.IRModule:
    def body(g, x, weight, bias):
        return g.relu(g.add(g.conv2d(x, weight), bias))

    return dataflow({"x": tensor(2, 1, 5, 9), "weight": tensor(1, 1, 3, 1), "bias": tensor(1, 1, 1, 1)}, body)


def attention() -> tvm.IRModule:
    def body(g, q, k, v, mask):
        scores = g.multiply(g.matmul(q, g.permute_dims(k, [0, 2, 1])), const(0.35355339))
        return g.add(g.matmul(g.softmax(g.add(scores, mask), axis=-1), v), q)

    return dataflow({**{name: tensor(2, 6, 8) for name in "qkv"}, "mask": tensor(6, 6)}, body)


def _softmax(x: np.ndarray, axis: int) -> np.ndarray:
    powers = np.exp(x - x.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


def _mean_of_means(x: np.ndarray) -> list[np.ndarray]:
    means = (1 / np.sqrt(x)).mean(-1)
    return [means * np.tanh(np.log1p(np.exp(means))) / means.mean(-1)]


def _tiny_batch_norm(x: np.ndarray, scale: np.ndarray, shift: np.ndarray) -> list[np.ndarray]:
    centred = x - x.mean((0, 2), keepdims=True)
    return [(centred / np.sqrt(x.var((0, 2), keepdims=True) + 1e-3) * scale + shift).astype("float32")]


def _log_sum_exp(x: np.ndarray) -> list[np.ndarray]:
    wide = x.astype("float64")
    return [np.log(np.exp(wide).sum(1)).astype("float32")]


def _positions(x: np.ndarray) -> list[np.ndarray]:
    y = np.maximum(x, 0)
    return [np.argmax(y, axis=1, keepdims=True).astype("int64") + 100, np.argmin(y, axis=2).astype("int64")]


def _two_spreads(x: np.ndarray) -> list[np.ndarray]:
    centred = x - x.mean((0, 2), keepdims=True)
    return [
        (centred / (x.std((0, 2), keepdims=True) + 0.5)).astype("float32"),
        (x.var((0, 2)) * 2).astype("float32"),
    ]


def _thin_convolution(x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> list[np.ndarray]:
    windows = np.lib.stride_tricks.sliding_window_view(x, 3, axis=2)
    return [np.maximum(windows @ weight[0, 0, :, 0] + bias, 0)]


def _attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray) -> list[np.ndarray]:
    scores = np.einsum("bid,bjd->bij", q, k) * np.float32(0.35355339) + mask
    return [_softmax(scores, -1) @ v + q]


CASES = [
    Case(
        name="mean_of_means_with_a_tail",
        source="apache/tvm#20061",
        what="a reduction over the result of a reduction, both used by one elementwise tail",
        build=mean_of_means,
        inputs=lambda: [uniform(1, 5, 5, low=0.2, high=3.0)],
        expect=_mean_of_means,
        tolerance=SUMMED,
    ),
    Case(
        name="squared_error_to_one_number",
        source="apache/tvm#20061",
        what="a sum over everything, then a division that has no dimension left to loop over",
        build=squared_error,
        inputs=lambda: [uniform(28, 6, 33), uniform(29, 6, 33)],
        expect=lambda x, y: [np.asarray(((x - y).astype("float64") ** 2).mean(), "float32")],
        tolerance=SUMMED,
    ),
    Case(
        name="tiny_weighted_row_sums",
        source="apache/tvm#20118",
        what="product and row sum look like a matrix-vector product whose extents are below every tile",
        build=weighted_row_sums,
        inputs=lambda: [uniform(2, 3, 2), uniform(3, 2)],
        expect=lambda x, weight: [x @ weight],
    ),
    Case(
        name="batch_norm_over_one_element",
        source="apache/tvm#20036",
        what="statistics over two axes of extent one: every variance is zero",
        build=tiny_batch_norm,
        inputs=lambda: [uniform(5, 1, 2, 1), uniform(6, 1, 2, 1), uniform(7, 1, 2, 1)],
        expect=_tiny_batch_norm,
        tolerance=SUMMED,
    ),
    Case(
        name="log_of_a_sum_of_powers",
        source="apache/tvm#16923",
        what="the row maximum is read in two places, once with its dimension and once without",
        build=log_sum_exp,
        inputs=lambda: [uniform(13, 6, 33, low=-30, high=30)],
        expect=_log_sum_exp,
        tolerance=SUMMED,
    ),
    Case(
        name="softmax_down_the_columns_then_transposed",
        source="apache/tvm#11803",
        what="a softmax over the leading axis whose consumer reads it transposed",
        build=softmax_down_the_columns,
        inputs=lambda: [uniform(14, 17, 3)],
        expect=lambda x: [_softmax(x * np.float32(4), 0).T + np.float32(1)],
        tolerance=SUMMED,
    ),
    Case(
        name="first_of_equal_extremes",
        source="pytorch/pytorch#93630",
        what="among many equal values the first position wins, along a middle axis and along the last",
        build=positions_of_extremes,
        inputs=lambda: [np.round(uniform(15, 3, 6, 4, low=-3, high=1.2))],
        expect=_positions,
    ),
    Case(
        name="running_sum_between_elementwise",
        source="tlc-pack/relax#369",
        what="a scan is opaque: what stands before and after it may not be joined through it",
        build=running_sum,
        inputs=lambda: [uniform(16, 4, 9)],
        expect=lambda x: [np.abs(np.cumsum(x * 2, axis=1)) + x],
        tolerance=REORDERED,
    ),
    Case(
        name="spread_over_two_axes_with_and_without_keeping_them",
        source="variant of apache/tvm#20036",
        what="the same axes, negative and in another order, are reduced twice into different shapes",
        build=two_spreads,
        inputs=lambda: [uniform(18, 4, 3, 8)],
        expect=_two_spreads,
        tolerance=REORDERED,
    ),
    Case(
        name="maximum_of_negative_zeros",
        source="openxla/xla#5544",
        what="an odd number of -0.0 is padded with something that wins or loses the maximum",
        build=largest_negative_zero,
        inputs=lambda: [np.zeros(8193, "float32")],
        expect=lambda x: [np.asarray(1, "float32")],
        tolerance=CLOSE,
    ),
    Case(
        name="convolution_with_a_reduction_of_three",
        source="apache/tvm#20048",
        what="the reduction of a convolution is too short to be split; bias and relu follow it",
        build=thin_convolution,
        inputs=lambda: [uniform(20, 2, 1, 5, 9), uniform(21, 1, 1, 3, 1), uniform(22, 1, 1, 1, 1)],
        expect=_thin_convolution,
        tolerance=REORDERED,
    ),
    Case(
        name="attention_with_mask_and_residual",
        source="transformer block",
        what="two matrix products with scale, mask and softmax between them, and the query added at the end",
        build=attention,
        inputs=lambda: [
            *(uniform(seed, 2, 6, 8) for seed in (25, 26, 27)),
            np.triu(np.full((6, 6), -1e9, "float32"), 1),
        ],
        expect=_attention,
        tolerance=REORDERED,
    ),
]
