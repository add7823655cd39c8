"""A block is read only if its loops visit each point of its domain once."""

from __future__ import annotations

import pytest
from tvm.script import tirx as T

from tvm_vfuse.errors import Reject
from tvm_vfuse.graph.blocks import read_kernel


def row_sums(walked: int, unit: int):
    """Sums along rows of 10, of which the loop walks ``walked``; a second axis of ``unit`` points stays at 0."""

    @T.prim_func(private=True, s_tir=True)
    def kernel(A: T.Buffer((4, 10), "float32"), B: T.Buffer((4,), "float32")):
        for i, k in T.grid(4, walked):
            with T.sblock("sum"):
                vi = T.axis.spatial(4, i)
                vu = T.axis.spatial(unit, T.int64(0))
                vk = T.axis.reduce(10, k)
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] = B[vi] + (A[vi, vk] + T.Cast("float32", vu))

    return kernel


def test_loops_that_walk_the_whole_domain_are_read():
    (stage,) = read_kernel(row_sums(10, 1)).stages
    assert len(stage.spatial) == 2
    assert len(stage.reduce) == 1


@pytest.mark.parametrize("walked, unit", [(5, 1), (10, 2)], ids=["half of the reduction", "one of two points"])
def test_loops_that_walk_a_part_of_it_are_opaque(walked, unit):
    with pytest.raises(Reject) as refused:
        read_kernel(row_sums(walked, unit))
    assert "bijection" in refused.value.detail
