"""Axes of extent one: nothing is folded twice for them, and no element is taken for two."""

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
