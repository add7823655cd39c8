"""The tile changes the shape of a kernel and never its results: what a tuner may try is right."""

from __future__ import annotations

import numpy as np
import pytest
from tvm.ir import Var

from tests.pipeline.columns import allocations, fused_column
from tests.schedule.equivalence import assert_close, draws, graph, wide
from tests.schedule.test_anchors import np_conv
from tests.schedule.test_reductions import np_softmax
from tvm_vfuse.schedule import cpu
from tvm_vfuse.schedule.tile import TileConfig

N = Var("n", "int64")
SHAPED = {
    # body, shapes in the module, shapes of the inputs, NumPy's
    "elementwise": (
        lambda g, x, y: g.relu(g.add(g.multiply(x, y), y)),
        [(9, 77), (77,)],
        [(9, 77), (77,)],
        lambda x, y: np.maximum(x * y + y, 0),
    ),
    "one long row": (lambda g, x: g.exp(g.negative(x)), [(1023,)], [(1023,)], lambda x: np.exp(-x)),
    "transposed": (lambda g, x: g.tanh(g.permute_dims(x)), [(33, 70)], [(33, 70)], lambda x: np.tanh(x.T)),
    "concatenated": (
        lambda g, x, y: g.relu(g.concat([g.exp(x), y], axis=1)),
        [(7, 9), (7, 31)],
        [(7, 9), (7, 31)],
        lambda x, y: np.maximum(np.concatenate([np.exp(x), y], 1), 0),
    ),
    "rows": (lambda g, x: g.softmax(g.add(x, x), axis=1), [(9, 77)], [(9, 77)], lambda x: np_softmax(2 * x)),
    "columns": (lambda g, x: g.softmax(x, axis=0), [(33, 9)], [(33, 9)], lambda x: np_softmax(x, 0)),
    "product": (
        lambda g, x, w: g.relu(g.matmul(x, w)),
        [(7, 33), (33, 9)],
        [(7, 33), (33, 9)],
        lambda x, w: np.maximum(x @ w, 0),
    ),
    "convolution": (
        lambda g, x, w: g.relu(g.conv2d(x, w, padding=1)),
        [(1, 3, 9, 11), (5, 3, 3, 3)],
        [(1, 3, 9, 11), (5, 3, 3, 3)],
        lambda x, w: np.maximum(np_conv(x, w, padding=1), 0),
    ),
    "symbolic rows": (lambda g, x: g.softmax(x, axis=1), [(N, 33)], [(7, 33)], np_softmax),
    "symbolic columns": (lambda g, x: g.sum(g.exp(x), axis=1), [(5, N)], [(5, 31)], lambda x: np.exp(x).sum(1)),
}  # fmt: skip

TILES = [
    TileConfig(1),
    TileConfig(3, unroll=2, parallel=False),
    TileConfig(8, unroll=5, chunk=1),
    TileConfig(16, unroll=1, chunk=2, serial_below=10**9),
    TileConfig(64, unroll=3, chunk=64),
]


@pytest.mark.parametrize("tile", TILES, ids=lambda t: f"{t.lanes}x{t.unroll}c{t.chunk}")
@pytest.mark.parametrize("name", SHAPED)
def test_any_tile_gives_the_right_result(name, tile, rng, monkeypatch):
    body, shapes, sizes, reference = SHAPED[name]
    monkeypatch.setattr(cpu, "default_tile", lambda *_: tile)
    column = fused_column(graph(body, *shapes))
    inputs = draws(rng, *sizes)
    assert len(column.kernels(inputs)) == 1
    assert_close(column.run(inputs), [reference(*wide(inputs))], 2e-5)


@pytest.mark.parametrize("lanes", [8, 16, 32])
def test_registers_have_the_lanes_of_the_tile(lanes, monkeypatch):
    monkeypatch.setattr(cpu, "default_tile", lambda *_: TileConfig(lanes))
    column = fused_column(graph(lambda g, x, y: g.tanh(g.multiply(x, y)), (4, 512), (4, 512)))
    (kernel,) = column.functions([np.zeros((4, 512), "float32")] * 2)
    assert max(allocations(kernel).values()) == 4 * lanes
