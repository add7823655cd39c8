"""What TVM's simplifier and LLVM backend do to floating point: the reason for our own guards in exact numerics."""

from __future__ import annotations

import numpy as np
import pytest
from tvm.script import tirx as T

from tests.tvm_surface.kernels import AVX2, compile_kernel, llvm_ir, run_kernel

SPECIAL = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0, -2.5, 3.0], "float32")


@T.prim_func(private=True)
def multiply_add(
    A: T.Buffer((64,), "float32"),
    B: T.Buffer((64,), "float32"),
    C: T.Buffer((64,), "float32"),
    D: T.Buffer((64,), "float32"),
):
    T.func_attr({"tirx.is_scheduled": True, "tirx.noalias": True})
    for i in range(64):
        D[i] = A[i] * B[i] + C[i]


@T.prim_func(private=True)
def fenced_multiply_add(
    A: T.Buffer((64,), "float32"),
    B: T.Buffer((64,), "float32"),
    C: T.Buffer((64,), "float32"),
    D: T.Buffer((64,), "float32"),
):
    T.func_attr({"tirx.is_scheduled": True, "tirx.noalias": True})
    for i in range(8):
        for j in T.vectorized(8):
            D[i * 8 + j] = (
                T.call_llvm_pure_intrin("float32", "llvm.arithmetic.fence", A[i * 8 + j] * B[i * 8 + j]) + C[i * 8 + j]
            )


def test_a_product_and_a_sum_are_always_allowed_to_contract():
    assert "llvm.fmuladd" in llvm_ir(multiply_add)
    assert "vfmadd" in compile_kernel(multiply_add, AVX2).mod.inspect_source("s")


def test_an_arithmetic_fence_stops_contraction_and_a_vectorized_loop_around_it_stays_vectorized():
    assert "llvm.fmuladd" not in llvm_ir(fenced_multiply_add)
    assembly = compile_kernel(fenced_multiply_add, AVX2).mod.inspect_source("s")
    assert "vfmadd" not in assembly
    assert "vmulps" in assembly
    assert "vaddps" in assembly


def test_a_fenced_multiply_add_rounds_twice_as_separate_kernels_do(rng):
    a, b, c = (rng.standard_normal(64, dtype=np.float32) for _ in range(3))
    np.testing.assert_array_equal(run_kernel(fenced_multiply_add, a, b, c), a * b + c)


def test_x_minus_x_folds_to_zero_even_for_nan():
    @T.prim_func(private=True)
    def kernel(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        T.func_attr({"tirx.is_scheduled": True, "tirx.noalias": True})
        for i in range(8):
            B[i] = A[i] - A[i]

    assert run_kernel(kernel, SPECIAL).tolist() == [0.0] * 8


def test_x_times_zero_folds_to_zero_even_for_nan_and_infinity():
    @T.prim_func(private=True)
    def kernel(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        T.func_attr({"tirx.is_scheduled": True, "tirx.noalias": True})
        for i in range(8):
            B[i] = A[i] * T.float32(0)

    assert run_kernel(kernel, SPECIAL).tolist() == [0.0] * 8


def test_a_select_on_x_equal_x_folds_to_true_even_for_nan():
    @T.prim_func(private=True)
    def kernel(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        T.func_attr({"tirx.is_scheduled": True, "tirx.noalias": True})
        for i in range(8):
            B[i] = T.Select(A[i] == A[i], T.float32(1), T.float32(2))

    assert run_kernel(kernel, SPECIAL).tolist() == [1.0] * 8


def test_isnan_is_kept():
    @T.prim_func(private=True)
    def kernel(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        T.func_attr({"tirx.is_scheduled": True, "tirx.noalias": True})
        for i in range(8):
            B[i] = T.Select(T.isnan(A[i]), T.float32(1), T.float32(2))

    assert run_kernel(kernel, SPECIAL).tolist() == [1.0] + [2.0] * 7


@pytest.mark.parametrize("zero_first", [False, True])
def test_maximum_keeps_nan_only_as_its_second_operand(zero_first):
    @T.prim_func(private=True)
    def kernel(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        T.func_attr({"tirx.is_scheduled": True, "tirx.noalias": True})
        for i in range(8):
            B[i] = T.max(T.float32(0), A[i]) if zero_first else T.max(A[i], T.float32(0))

    assert np.isnan(run_kernel(kernel, SPECIAL)[0]) == zero_first
