"""How far outputs are from a reference, relative to magnitude."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tvm_vfuse.compare.float64 import is_float

# Largest error that is rounding and not a fault, by the coarsest float dtype in the module: wide for float64 and
# float32, where long sums are reordered; about 20 units in the last place for the narrow ones.
_TOLERANCE = {"float64": 1e-11, "float32": 2e-4, "float16": 2e-2, "bfloat16": 1.5e-1}
_NARROWEST = 5e-1


def tolerance(dtypes: Sequence[str]) -> float:
    """Largest error to accept where these dtypes are computed in: the coarsest float decides; 0 without floats."""
    return max((_TOLERANCE.get(name, _NARROWEST) for name in dtypes if "float" in name), default=0.0)


def max_error(outputs: Sequence[Any], reference: Sequence[Any]) -> float:
    """Largest error over all outputs.

    Parameters
    ----------
    outputs, reference : sequence of array
        In the same order.

    Returns
    -------
    float
        The largest :func:`output_error`; infinite where number or shapes of the outputs differ.
    """
    if len(outputs) != len(reference):
        return float("inf")
    return max((output_error(out, ref) for out, ref in zip(outputs, reference)), default=0.0)


def output_error(output: Any, reference: Any) -> float:
    """Error of one output.

    For floats, max |o - r| / (|r| + rms(r)), with rms over the finite elements of the reference; elements equal as they
    stand (infinities of one sign, NaN and NaN) count as 0, other non-finite pairs as infinite. A finite reference that
    overflows in the output's dtype stands for that dtype's infinity. Integers and bools are exact: 0 or infinite.
    """
    out, ref = np.asarray(output), np.asarray(reference)
    if out.shape != ref.shape:
        return float("inf")
    if not is_float(out.dtype):
        return 0.0 if np.array_equal(out, ref) else float("inf")
    got = out.astype(np.float64).ravel()
    want = _saturated(ref.astype(np.float64).ravel(), out.dtype)
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    comparable = np.isfinite(got) & np.isfinite(want)
    if not np.all(same | comparable):
        return float("inf")
    rms = _rms(want[np.isfinite(want)])
    got, want = got[~same], want[~same]
    scale = np.abs(want) + rms
    with np.errstate(divide="ignore"):
        return float(np.max(np.abs(got - want) / scale)) if got.size else 0.0


def _rms(values: np.ndarray[Any, Any]) -> float:
    """Root mean square, scaled so that squares can't overflow; 0 for none."""
    largest = float(np.max(np.abs(values), initial=0.0))
    return largest * float(np.sqrt(np.mean(np.square(values / largest)))) if largest > 0 else 0.0


def _saturated(reference: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """The reference with what overflows in ``dtype`` made infinite."""
    with np.errstate(over="ignore"):
        narrow = reference.astype(dtype).astype(np.float64)
    return np.where(np.isinf(narrow), narrow, reference)
