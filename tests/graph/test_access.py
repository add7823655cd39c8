"""Access relations between an output element and what it reads, by index maps alone."""

from __future__ import annotations

import pytest

from tests.graph.regions import region_of
from tests.schedule.equivalence import graph
from tvm_vfuse.graph.access import relation_of
from tvm_vfuse.graph.stages import loads_of

RELATIONS = {
    "pointwise": (lambda g, x: g.exp(x), [(8, 4)], {"pointwise"}),
    "broadcast": (lambda g, x, y: g.add(x, y), [(8, 4), (4,)], {"pointwise", "broadcast"}),
    "broadcast of one row": (lambda g, x, y: g.add(x, y), [(8, 4), (1, 4)], {"pointwise", "broadcast"}),
    "permutation": (lambda g, x: g.permute_dims(x, [1, 0]), [(8, 4)], {"permutation"}),
    "reduction": (lambda g, x: g.sum(x, axis=1), [(8, 4)], {"reduction"}),
    "product": (lambda g, x, w: g.matmul(x, w), [(8, 4), (4, 3)], {"reduction"}),
    "window": (lambda g, x: g.max_pool2d(x, pool_size=3, strides=1), [(1, 1, 8, 8)], {"window"}),
    "slice": (lambda g, x: g.strided_slice(x, [0], [1], [7], [2]), [(8, 4)], {"affine"}),
    "reshape": (lambda g, x: g.reshape(x, (4, 8)), [(8, 4)], {"affine"}),
    "flip": (lambda g, x: g.flip(x, axis=0), [(8, 4)], {"affine"}),
    "scalar": (lambda g, x: g.negative(x), [()], {"pointwise"}),
}


@pytest.mark.parametrize("name", RELATIONS)
def test_relations(name):
    body, shapes, expected = RELATIONS[name]
    region = region_of(graph(body, *shapes))
    (kernel,) = region.kernels.values()
    assert {relation_of(s, load) for s in kernel.stages for load in loads_of(s)} == expected


def test_gather_reads_at_a_place_that_is_read_itself():
    region = region_of(
        graph(lambda g, x, i: g.take(x, i, axis=0, mode="fast"), (8, 4), (3,), dtype=["float32", "int64"])
    )
    (kernel,) = region.kernels.values()
    relations = [relation_of(s, load) for s in kernel.stages for load in loads_of(s)]
    assert "gather" in relations


@pytest.mark.parametrize(
    ("body", "shapes", "aligned"),
    [
        (lambda g, x, y: g.add(x, y), [(8, 4), (8, 4)], ["x0", "x1"]),
        (lambda g, x, y: g.add(x, y), [(8, 4), (4,)], ["x0"]),
        (lambda g, x, y: g.add(x, y), [(8, 1), (1, 4)], []),
    ],
)
def test_aligned_inputs_are_read_at_the_outputs_own_place(body, shapes, aligned):
    g = region_of(graph(body, *shapes)).graph
    (op,) = g.operators
    assert [g.values[v].name for v in op.aligned] == aligned
    assert op.pointwise == bool(aligned)
