"""Strides of boundary accesses, and the loops that are joined because every access walks them as one."""

from __future__ import annotations

import pytest
from tvm.ir import Var

from tests.graph.regions import evaluation_of
from tests.schedule.equivalence import graph
from tvm_vfuse.schedule.strides import accesses, collapse


def strides_of(evaluation):
    return [[a.stride(n) for n in range(len(a.strides))] for a in accesses(evaluation)]


def test_loads_come_before_stores():
    evaluation = evaluation_of(graph(lambda g, x, y: g.add(x, y), (8, 4), (4,)))
    assert strides_of(evaluation) == [[4, 1], [0, 1], [4, 1]]


def test_a_transposed_read_strides_along_the_inner_axis():
    evaluation = evaluation_of(graph(lambda g, x, y: g.add(x, g.permute_dims(y, [1, 0])), (8, 4), (4, 8)))
    assert strides_of(evaluation) == [[4, 1], [1, 8], [4, 1]]


def test_gathered_reads_are_affine_only_along_the_axes_that_do_not_choose():
    mod = graph(lambda g, x, i: g.negative(g.take(x, i, axis=0, mode="fast")), (9, 4), (3,), dtype=["float32", "int64"])
    places, rows, result = strides_of(evaluation_of(mod))
    assert places == [1, 0]
    assert rows == [None, 1]
    assert result == [4, 1]


COLLAPSED = {
    # body, shapes, extents of the loops after joining
    "four axes": (lambda g, x, y: g.add(x, y), [(2, 3, 4, 5), (2, 3, 4, 5)], [120]),
    "bias of the last axis": (lambda g, x, b: g.add(x, b), [(2, 3, 4, 5), (5,)], [24, 5]),
    "bias of the channels": (lambda g, x, b: g.add(x, b), [(2, 3, 4, 5), (3, 1, 1)], [2, 3, 20]),
    "one element": (lambda g, x, b: g.add(x, b), [(2, 3, 4, 5), (1,)], [120]),
    "swapped outer axes": (lambda g, x: g.permute_dims(x, [1, 0, 2, 3]), [(2, 3, 4, 5)], [3, 2, 20]),
    "transpose": (lambda g, x: g.permute_dims(x, [1, 0]), [(8, 4)], [4, 8]),
    "slice": (lambda g, x: g.strided_slice(x, [1], [0], [3]), [(8, 4)], [8, 3]),
    "slice of rows": (lambda g, x: g.strided_slice(x, [0], [2], [6]), [(8, 4, 3)], [48]),
    "rows": (lambda g, x: g.sum(x, axis=[2, 3]), [(2, 3, 4, 5)], [6, 20]),
    "batch statistics": (lambda g, x: g.sum(x, axis=[0, 2, 3]), [(2, 3, 4, 5)], [3, 2, 20]),
}


@pytest.mark.parametrize("name", COLLAPSED)
def test_axes_join_where_every_access_walks_them_as_one(name):
    body, shapes, expected = COLLAPSED[name]
    evaluation = evaluation_of(graph(body, *shapes))
    collapse(evaluation)
    where = evaluation.placement
    assert [a.size for a in (*where.space, *where.reduce)] == expected
    assert sorted(a.var.name for a in where.order) == sorted(a.var.name for a in where.axes)


def test_symbolic_axes_join():
    n = Var("n", "int64")
    evaluation = evaluation_of(graph(lambda g, x, y: g.add(x, y), (n, 8, 4), (n, 8, 4)))
    collapse(evaluation)
    (axis,) = evaluation.placement.axes
    assert axis.size is None
    assert "n" in str(axis.extent)


def test_an_axis_in_a_value_or_a_guard_keeps_its_loop():
    padded = evaluation_of(graph(lambda g, x: g.pad(x, [0, 0, 1, 1]), (8, 4)))
    collapse(padded)
    assert [a.size for a in padded.placement.space] == [8, 6]
    counted = evaluation_of(graph(lambda g, x: g.tril(x), (8, 8)))
    collapse(counted)
    assert [a.size for a in counted.placement.space] == [8, 8]


def test_what_was_joined_reads_and_writes_the_same_places():
    evaluation = evaluation_of(graph(lambda g, x, b: g.add(x, b), (2, 3, 4, 5), (3, 1, 1)))
    collapse(evaluation)
    assert strides_of(evaluation) == [[60, 20, 1], [0, 1, 0], [60, 20, 1]]
