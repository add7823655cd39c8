"""Memory that a kernel allocates for itself: intermediates that fusion did not bring into registers."""

from __future__ import annotations

import functools
from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, tirx

from tvm_vfuse.compare.shapes import Bindings, element_bits, evaluate_shape, num_bytes

HEAP_FROM_BYTES = 1024
"""A constant allocation of this size or more goes to the heap; TVM's lowering leaves only smaller ones on the stack."""


def in_kernel_bytes(function: tirx.PrimFunc | None, bindings: Bindings) -> int | None:
    """Bytes of the buffers that a kernel allocates in memory (not on the stack), each once.

    Parameters
    ----------
    function : PrimFunc or None
        The kernel; an external one (None) counts as 0.
    bindings : dict
        Values of its symbolic variables.

    Returns
    -------
    int or None
        None where a size is known at run time only. Blocks are lowered first, so that a buffer counts at the size the
        schedule leaves it; an allocation inside a loop counts once.
    """
    if function is None:
        return 0
    total = 0
    for buffer in _allocations(function):
        size = num_bytes(evaluate_shape(buffer.ty.shape, bindings), element_bits(buffer.ty.dtype))
        if size is None:
            return None
        fixed = all(isinstance(extent, tirx.IntImm) for extent in buffer.ty.shape)
        if not fixed or size >= HEAP_FROM_BYTES:
            total += size
    return total


def _allocations(function: tirx.PrimFunc) -> list[Any]:
    """Buffers that the lowered function allocates outside its parameters."""
    found: list[Any] = []

    def of_statement(stmt: tirx.AllocBuffer) -> None:
        found.append(stmt.buffer)

    def of_block(block: s_tir.SBlock) -> None:
        found.extend(block.alloc_buffers)

    tvm_ffi.structural_walk(_compacted(function).body, [(tirx.AllocBuffer, of_statement), (s_tir.SBlock, of_block)])
    return found


def _compacted(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """The function with each block buffer at its place and at its least size; symbolic variables stay the same."""
    if not _has_blocks(function):
        return function
    lowered = _compaction()(tvm.IRModule({"kernel": function.with_attr("global_symbol", "kernel")}))
    return lowered["kernel"]


def _has_blocks(function: tirx.PrimFunc) -> bool:
    seen: list[Any] = []
    tvm_ffi.structural_walk(function.body, (s_tir.SBlock, seen.append))
    return bool(seen)


@functools.cache
def _compaction() -> Any:
    passes = s_tir.transform
    return tvm.transform.Sequential(
        [
            passes.CanonicalizeLoop(),
            passes.LowerInitBlock(),
            passes.PlanAndUpdateBufferAllocationLocation(),
            passes.ConvertBlocksToOpaque(),
            passes.CompactBufferAllocation(),
        ]
    )
