"""How narrow floats are rounded between two operators of one kernel."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import tvm
from tvm.script import tirx as T

from tests.tvm_surface.kernels import AVX2, compile_kernel

TOTAL = 4096


def product_then_sum(dtype: str) -> tvm.tirx.PrimFunc:
    """X * Y + Z, with the product held in a row of its own dtype."""

    @T.prim_func(private=True)
    def kernel(
        X: T.Buffer((TOTAL,), dtype),
        Y: T.Buffer((TOTAL,), dtype),
        Z: T.Buffer((TOTAL,), dtype),
        W: T.Buffer((TOTAL,), dtype),
    ):
        T.func_attr({"tirx.is_scheduled": True, "tirx.noalias": True})
        for i in range(TOTAL // 8):
            product = T.alloc_buffer((8,), dtype)
            for j in T.vectorized(8):
                product[j] = X[i * 8 + j] * Y[i * 8 + j]
            for j in T.vectorized(8):
                W[i * 8 + j] = product[j] + Z[i * 8 + j]

    return kernel


@T.prim_func(private=True)
def product_rounded_by_cast(
    X: T.Buffer((TOTAL,), "bfloat16"),
    Y: T.Buffer((TOTAL,), "bfloat16"),
    Z: T.Buffer((TOTAL,), "bfloat16"),
    W: T.Buffer((TOTAL,), "bfloat16"),
):
    T.func_attr({"tirx.is_scheduled": True, "tirx.noalias": True})
    for i in range(TOTAL):
        product = T.Cast("bfloat16", T.Cast("float32", X[i]) * T.Cast("float32", Y[i]))
        W[i] = T.Cast("bfloat16", T.Cast("float32", product) + T.Cast("float32", Z[i]))


def run(kernel: tvm.tirx.PrimFunc, inputs: list[np.ndarray]) -> np.ndarray:
    out = tvm.runtime.tensor(np.full(TOTAL, np.nan, inputs[0].dtype))
    compile_kernel(kernel, AVX2)["main"](*[tvm.runtime.tensor(x) for x in inputs], out)
    return out.numpy()


def test_a_float16_value_held_in_a_float16_row_is_rounded(rng):
    x, y, z = (rng.standard_normal(TOTAL).astype("float16") for _ in range(3))
    np.testing.assert_array_equal(run(product_then_sum("float16"), [x, y, z]), x * y + z)


@pytest.mark.parametrize("kernel", [product_then_sum("bfloat16"), product_rounded_by_cast], ids=["row", "cast"])
def test_a_bfloat16_value_inside_a_kernel_is_kept_in_float32_whatever_one_writes(kernel, rng):
    x, y, z = (rng.standard_normal(TOTAL).astype(ml_dtypes.bfloat16) for _ in range(3))
    got = run(kernel, [x, y, z])
    wide = (x.astype("float32") * y.astype("float32") + z.astype("float32")).astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(got, wide)
    assert (got != x * y + z).any()  # what separate kernels compute
