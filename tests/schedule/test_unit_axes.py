"""Axes of extent one, and broadcast ones: nothing is folded twice for them, and no element is taken for two."""

from __future__ import annotations

import numpy as np
import pytest

from tests.pipeline.columns import fused_column, unfused_column
from tests.schedule.equivalence import assert_close, draw, graph


@pytest.mark.parametrize("shape", [(1, 16), (1, 1), (16, 1)], ids=str)
def test_a_reduction_over_one_element_beside_a_longer_one(shape):
    """Its result has one term, not as many as the longer reduction walks."""

    def body(g, x):
        rows = g.sum(x, axis=1)
        return [rows, g.sum(rows, axis=0, keepdims=True)]

    x = draw(np.random.default_rng(1), shape, "int32")
    mod = graph(body, shape, dtype="int32")
    assert_close(fused_column(mod).run([x]), unfused_column(mod).run([x]))
    assert int(fused_column(mod).run([x])[1][0]) == int(x.sum())


@pytest.mark.parametrize("shape", [(1, 9), (1, 1), (3, 1, 5)], ids=str)
def test_an_element_on_a_unit_axis_is_computed_once(shape):
    """Read with the axis and without it, it is the same element: one kernel, one exp."""

    def body(g, x):
        e = g.exp(x)
        return [g.sum(e, axis=-2), g.divide(e, g.sum(e, axis=-2, keepdims=True))]

    x = draw(np.random.default_rng(2), shape)
    column = fused_column(graph(body, shape))
    assert len(column.functions([x])) == 1
    e = np.exp(x.astype("float64"))
    assert_close(column.run([x]), [e.sum(-2), e / e.sum(-2, keepdims=True)], 1e-5)


@pytest.mark.parametrize("shape", [(4, 64), (5, 1), (1, 1), (16, 33)], ids=str)
def test_a_reduction_that_is_the_same_for_all_lanes(shape):
    """Beside column sums, the sum of a broadcast column: its readers are no vectors."""

    def body(g, x, column):
        same = g.sum(g.broadcast_to(column, shape), axis=0)
        return [g.sum(x, axis=0), g.relu(same), g.multiply(x, g.exp(same))]

    rng = np.random.default_rng(3)
    x, column = draw(rng, shape), draw(rng, (shape[0], 1)) / 4
    fused = fused_column(graph(body, shape, (shape[0], 1)))
    assert len(fused.functions([x, column])) == 1
    same = np.broadcast_to(column.astype("float64"), shape).sum(0)
    assert_close(fused.run([x, column]), [x.astype("float64").sum(0), np.maximum(same, 0), x * np.exp(same)], 1e-5)


@pytest.mark.parametrize("shape", [(1, 2), (1, 3), (2, 2), (1, 1), (1, 2, 1)], ids=str)
def test_rows_shorter_than_any_vector(shape):
    """A lane axis of one point: what lies along it is read without a lane."""

    def body(g, x):
        return [g.softmax(x, axis=1)]

    x = draw(np.random.default_rng(3), shape)
    e = np.exp(x.astype("float64") - x.max(1, keepdims=True))
    assert_close(fused_column(graph(body, shape)).run([x]), [e / e.sum(1, keepdims=True)], 1e-5)


def test_a_value_that_is_the_same_in_all_lanes_needs_none():
    """The softmax of a broadcast column does not change along the lanes."""

    def body(g, x, y):
        return [g.multiply(g.softmax(g.broadcast_to(x, (9, 33)), axis=0), y)]

    rng = np.random.default_rng(4)
    x, y = draw(rng, (9, 1)), draw(rng, (9, 33))
    e = np.exp(x.astype("float64") - x.max(0, keepdims=True))
    assert_close(fused_column(graph(body, (9, 1), (9, 33))).run([x, y]), [e / e.sum(0, keepdims=True) * y], 1e-5)


def test_a_row_value_fills_a_bfloat16_row():
    """One value stored along the lanes of a narrow output."""

    def body(g, x):
        return [g.broadcast_to(g.negative(x), (7, 5))]

    x = draw(np.random.default_rng(5), (7, 1), "bfloat16")
    (out,) = fused_column(graph(body, (7, 1), dtype="bfloat16")).run([x])
    assert np.array_equal(out.astype("float32"), np.broadcast_to(-x.astype("float32"), (7, 5)))
