"""What may stand inside a vectorized loop."""

from __future__ import annotations

import numpy as np
from tvm.script import tirx as T

from tests.tvm_surface.kernels import run_kernel


def test_a_value_bound_to_a_variable_in_a_vectorized_loop_keeps_only_its_last_lane(rng):
    @T.prim_func(private=True)
    def kernel(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        T.func_attr({"tirx.is_scheduled": True, "tirx.noalias": True})
        for i in range(8):
            for j in T.vectorized(8):
                bound = T.exp(A[i * 8 + j])
                B[i * 8 + j] = bound * bound

    a = rng.standard_normal(64, dtype=np.float32)
    last_lanes = np.repeat(a[7::8], 8)
    np.testing.assert_allclose(run_kernel(kernel, a), np.exp(last_lanes) ** 2, rtol=1e-5)


def test_a_one_element_buffer_in_a_vectorized_loop_keeps_only_its_last_lane(rng):
    @T.prim_func(private=True)
    def kernel(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        T.func_attr({"tirx.is_scheduled": True, "tirx.noalias": True})
        for i in range(8):
            for j in T.vectorized(8):
                held = T.alloc_buffer((1,), "float32")
                held[0] = T.exp(A[i * 8 + j])
                B[i * 8 + j] = held[0] * held[0]

    a = rng.standard_normal(64, dtype=np.float32)
    last_lanes = np.repeat(a[7::8], 8)
    np.testing.assert_allclose(run_kernel(kernel, a), np.exp(last_lanes) ** 2, rtol=1e-5)


def test_a_row_buffer_filled_by_one_vectorized_loop_is_read_by_the_next(rng):
    @T.prim_func(private=True)
    def kernel(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        T.func_attr({"tirx.is_scheduled": True, "tirx.noalias": True})
        for i in range(8):
            held = T.alloc_buffer((8,), "float32")
            for j in T.vectorized(8):
                held[j] = T.exp(A[i * 8 + j])
            for j in T.vectorized(8):
                B[i * 8 + j] = held[j] * held[j]

    a = rng.standard_normal(64, dtype=np.float32)
    np.testing.assert_allclose(run_kernel(kernel, a), np.exp(a) ** 2, rtol=1e-5)
