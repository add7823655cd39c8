"""Kernels as stages: what is read, and that what can't be read stays a kernel of its own that is still right."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import tirx

from tests.graph import kernels, refused_kernels
from tests.graph.regions import region_of, with_kernel
from tests.pipeline.columns import fused_column
from tests.schedule.equivalence import assert_close, assert_one_kernel, draw
from tvm_vfuse.graph.extract import read_kernel


@pytest.mark.parametrize("name", kernels.ACCEPTED)
def test_a_kernel_is_read_as_stages(name):
    func, stages, reductions = kernels.ACCEPTED[name]
    kernel = read_kernel(func)
    assert [s.name for s in kernel.stages] == stages
    assert sum(bool(s.reduce) for s in kernel.stages) == reductions
    assert [t.name for t in kernel.inputs] == ["a"]
    assert [t.name for t in kernel.outputs] == [p.name for p in func.params[1:]]


def test_a_stage_knows_its_axes_reads_and_fold():
    (stage,) = read_kernel(kernels.row_sum).stages
    assert [v.name for v, _ in stage.spatial] == ["vi"]
    assert [v.name for v, _ in stage.reduce] == ["vj"]
    assert [t.name for t in stage.reads.values()] == ["a"]
    assert float(stage.init.value) == 0.0
    assert stage.fold([tirx.Var("acc", "float32")], [tirx.Var("e", "float32")])[0].a.name == "acc"


NUMPY = {
    "doubled": ((8,), lambda a: 2 * a, (8,)),
    "tiled": ((8,), lambda a: 2 * a, (8,)),
    "fused_loop": ((4, 8), lambda a: -a, (4, 8)),
    "reordered": ((4, 8), lambda a: -a, (4, 8)),
    "row_sum": ((8, 8), lambda a: a.sum(1), (8,)),
    "two_stages": ((8, 8), lambda a: a - a.max(1, keepdims=True), (8, 8)),
}


@pytest.mark.parametrize("name", NUMPY)
def test_a_kernel_that_is_read_fuses_and_is_right(name, rng):
    """Scheduled by hand or not: one kernel with the addition behind it."""
    shape, reference, out = NUMPY[name]
    column = fused_column(with_kernel(kernels.ACCEPTED[name][0], shape, out=out))
    inputs = [draw(rng, shape)]
    assert_one_kernel(column, inputs, None)
    assert_close(column.run(inputs), [2 * reference(inputs[0])])


# What can be run: each is deterministic and writes what is read of it.
RUNNABLE = {
    "predicate": ((7,), lambda a: -a),
    "no bijection": ((8,), lambda a: np.where(np.arange(8) < 4, -a, np.nan)),
    "while": ((8,), lambda a: a * 2.0 ** np.ceil(np.log2(np.maximum(1 / a, 1)))),
    "branch around a block": ((8,), lambda a: np.where(np.arange(8) < 4, a, np.nan)),
    "buffer of its own": ((8,), lambda a: -a),
    "mirrored store": ((8,), lambda a: a[::-1]),
    "opaque axis": ((8,), lambda a: a),
    "no known reduction": ((8, 8), lambda a: (a * 2.0 ** np.arange(7, -1, -1)).sum(1)),
}


@pytest.mark.parametrize("name", RUNNABLE)
def test_a_kernel_that_can_not_be_read_stays_alone_and_is_right(name, rng):
    shape, reference = RUNNABLE[name]
    case = refused_kernels.REFUSED[name]
    mod = with_kernel(case.make(), shape, out=shape[:1])
    operators = region_of(mod).graph.operators
    assert operators[0].kind == "opaque"
    assert case.words in operators[0].why
    column = fused_column(mod)
    inputs = [np.abs(draw(rng, shape)) + np.float32(0.1)]
    assert column.kernels(inputs)[0] == "kernel"
    assert len(column.kernels(inputs)) == 2
    assert column.result.refused[0]["reason"] == "opaque"
    assert case.words in column.result.refused[0]["detail"]
    (got,) = column.run(inputs)
    expected = 2 * reference(inputs[0].astype("float64"))
    written = ~np.isnan(expected)
    assert_close([got[written]], [expected[written]])
