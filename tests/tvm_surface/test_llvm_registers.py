"""Where the LLVM backend keeps the small buffers inside a kernel of plain loops."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm.script import tirx as T

from tests.tvm_surface.kernels import llvm_ir, run_kernel

HEAP = "TVMBackendAllocWorkspace"
TOTAL = 4096


def staged(num_elements: int, scope: str = "global") -> tvm.tirx.PrimFunc:
    """B = 2 A + 1 in chunks, each staged in a buffer of ``num_elements`` float32 that lives inside the loop."""

    @T.prim_func(private=True)
    def kernel(A: T.Buffer((TOTAL,), "float32"), B: T.Buffer((TOTAL,), "float32")):
        T.func_attr({"tirx.is_scheduled": True, "tirx.noalias": True})
        for i in range(TOTAL // num_elements):
            held = T.alloc_buffer((num_elements,), "float32", scope=scope)
            for j in T.vectorized(num_elements):
                held[j] = A[i * num_elements + j] * T.float32(2)
            for j in T.vectorized(num_elements):
                B[i * num_elements + j] = held[j] + T.float32(1)

    return kernel


@pytest.mark.parametrize("num_elements", [8, 64, 128])
def test_a_buffer_below_1024_bytes_needs_no_heap_and_no_stack_array(num_elements):
    ir = llvm_ir(staged(num_elements))
    assert HEAP not in ir
    assert "alloca [" + str(num_elements) not in ir


@pytest.mark.parametrize("num_elements", [256, 512])
def test_a_buffer_of_1024_bytes_or_more_goes_to_the_heap(num_elements):
    assert HEAP in llvm_ir(staged(num_elements))


def test_scope_local_goes_to_the_heap_whatever_its_size():
    assert HEAP in llvm_ir(staged(8, scope="local"))


@pytest.mark.parametrize("num_elements", [8, 256])
def test_staging_through_either_place_gives_the_same_values(num_elements, rng):
    a = rng.standard_normal(TOTAL, dtype=np.float32)
    np.testing.assert_array_equal(run_kernel(staged(num_elements), a), a * 2 + 1)


def test_a_vectorized_loop_of_plain_statements_becomes_vector_instructions():
    assert "<8 x float>" in llvm_ir(staged(8))
