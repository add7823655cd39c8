"""Checks one group: one kernel of the expected template, nothing in memory, equal to NumPy and to the unfused build."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tvm

from tests.cases.modules import dataflow, tensor
from tests.pipeline.columns import LIBM, Column, allocations, fused_column, unfused_column
from tvm_vfuse.compare.error import output_error
from tvm_vfuse.options import FusionOptions
from tvm_vfuse.schedule.cpu import TEMPLATE
from tvm_vfuse.workloads.tensors import numpy_dtype

Arrays = Sequence[np.ndarray]
Reference = Callable[..., Any]
MOST_STACK_BYTES = 1024  # TVM keeps only smaller buffers on the stack; the others go to the heap

# Largest error, relative to magnitude: a few roundings of the dtype.
TOLERANCE = {"float64": 1e-12, "float32": 1e-5, "float16": 4e-3, "bfloat16": 3e-2}
TRUTH = 0.0


def graph(body: Callable[..., Any], *shapes: Sequence[Any], dtype: str | Sequence[str] = "float32") -> tvm.IRModule:
    """``body(g, *params)`` over parameters of these shapes, all of one dtype or each of its own."""
    dtypes = [dtype] * len(shapes) if isinstance(dtype, str) else dtype
    return dataflow({f"x{i}": tensor(*s, dtype=d) for i, (s, d) in enumerate(zip(shapes, dtypes, strict=True))}, body)


def draw(rng: np.random.Generator, shape: Sequence[int], dtype: str = "float32") -> np.ndarray:
    """Random elements: floats in ±2, integers in ±50 (or 0 to 50), truth values."""
    target = numpy_dtype(dtype)
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype("bool")
    if target.kind in "iu":
        return rng.integers(0 if target.kind == "u" else -50, 50, shape).astype(target)
    return np.asarray(rng.uniform(-2, 2, shape)).astype(target)


def draws(rng: np.random.Generator, *shapes: Sequence[int], dtype: str | Sequence[str] = "float32") -> list[np.ndarray]:
    dtypes = [dtype] * len(shapes) if isinstance(dtype, str) else dtype
    return [draw(rng, s, d) for s, d in zip(shapes, dtypes, strict=True)]


def wide(arrays: Arrays) -> list[np.ndarray]:
    """Floats as float64, the rest as it is."""
    return [a.astype("float64") if a.dtype.kind in "fV" else a for a in arrays]


def listed(value: Any) -> list[np.ndarray]:
    return [np.asarray(v) for v in value] if isinstance(value, (list, tuple)) else [np.asarray(value)]


# ---------------------------------------------------------------------------------------------------------------- facts
def assert_one_kernel(column: Column, inputs: Arrays, template: str | None) -> None:
    """One launch, of our making, with its intermediates in registers and each boundary tensor moved once."""
    functions = column.functions(inputs)
    assert len(functions) == 1, column.kernels(inputs)
    assert functions[0].attrs["tirx.is_scheduled"]
    if template is not None:
        assert functions[0].attrs[TEMPLATE] == template
    assert_small_buffers(column, inputs)
    boundary, ideal, held = column.traffic(inputs)
    assert (boundary, held) == (ideal, 0)


def assert_small_buffers(column: Column, inputs: Arrays) -> None:
    for function in column.functions(inputs):
        if "tirx.is_scheduled" in function.attrs:
            large = {k: v for k, v in allocations(function).items() if v is None or v >= MOST_STACK_BYTES}
            assert large == {}


# -------------------------------------------------------------------------------------------------------------- results
def assert_close(got: Arrays, expected: Arrays, tolerance: float | None = None) -> None:
    assert len(got) == len(expected)
    for number, (a, b) in enumerate(zip(got, expected, strict=True)):
        assert a.shape == b.shape
        limit = TOLERANCE.get(str(a.dtype), TRUTH) if tolerance is None else tolerance
        error = output_error(a, b)
        assert error <= limit, f"output {number}: error {error:.3g} exceeds {limit:.3g}"


def assert_same_bits(got: Arrays, expected: Arrays) -> None:
    """Equal bit for bit; any NaN equals any other."""
    assert len(got) == len(expected)
    for number, (a, b) in enumerate(zip(got, expected, strict=True)):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        bits = f"u{a.dtype.itemsize}"
        same = np.ascontiguousarray(a).view(bits) == np.ascontiguousarray(b).view(bits)
        if a.dtype.kind in "fV":
            same |= np.isnan(a.astype("float64")) & np.isnan(b.astype("float64"))
        wrong = np.flatnonzero(~same.ravel())
        assert wrong.size == 0, f"output {number}: {a.ravel()[wrong[:3]]} for {b.ravel()[wrong[:3]]} at {wrong[:3]}"


def check(
    mod: tvm.IRModule,
    inputs: Arrays,
    reference: Reference,
    template: str | None,
    *,
    bitwise: bool = False,
    tolerance: float | None = None,
    options: FusionOptions | None = None,
) -> Column:
    """One kernel; its results against ``reference`` (from float64 arrays) and against the unfused build.

    Parameters
    ----------
    bitwise : bool
        With the platform's math on both sides, fused equals unfused bit for bit.
    """
    column = fused_column(mod, options)
    assert_one_kernel(column, inputs, template)
    got = column.run(inputs)
    with np.errstate(all="ignore"):
        expected = listed(reference(*wide(inputs)))
    assert_close(got, expected, tolerance)
    plain = unfused_column(mod).run(inputs)
    assert_close(got, plain, tolerance)
    if bitwise:
        assert_same_bits(fused_column(mod, LIBM).run(inputs), plain)
    return column


def check_sizes(mod: tvm.IRModule, all_inputs: Sequence[Arrays], reference: Reference, template: str | None) -> None:
    """One symbolic module on inputs of many sizes."""
    column, plain = fused_column(mod), unfused_column(mod)
    for inputs in all_inputs:
        assert_one_kernel(column, inputs, template)
        got = column.run(inputs)
        assert_close(got, listed(reference(*wide(inputs))))
        assert_close(got, plain.run(inputs))
