"""What a case is: a small Relax module that some compiler once got wrong, its inputs, and the answer NumPy gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import tvm

Arrays = Sequence[np.ndarray]


@dataclass(frozen=True)
class Tolerance:
    """Largest difference allowed: ``atol + rtol * |expected|``."""

    rtol: float
    atol: float


EXACT = Tolerance(0.0, 0.0)
CLOSE = Tolerance(1e-5, 1e-6)
REORDERED = Tolerance(1e-4, 1e-5)
HALF = Tolerance(1e-3, 1e-3)
BFLOAT = Tolerance(2e-2, 2e-2)


@dataclass(frozen=True)
class Case:
    """One input and its answer.

    Parameters
    ----------
    name : str
        The claim in a few words; unique.
    source : str
        The public report that it is modelled on.
    what : str
        What a wrong fusion would do to it.
    build : callable
        Makes the Relax module anew.
    inputs : callable
        Makes the arguments; the same ones at every call.
    expect : callable
        From the arguments to the list of results, with NumPy alone.
    tolerance : Tolerance
        For float results; others must be equal.
    functions : tuple of str
        Functions of the module that are called one after the other on the same arguments; their results are joined.
    compare_zero_signs : bool
        -0.0 and 0.0 count as different.
    bitwise : bool
        Elementwise throughout: with the platform's math functions, fused results equal the unfused ones bit for bit.
    isolated : bool
        Has crashed a compiler: runs in a process of its own.
    unfused_plans_memory : bool
        False where TVM's own memory planning breaks the unfused module, which then is built without it.
    """

    name: str
    source: str
    what: str
    build: Callable[[], tvm.IRModule]
    inputs: Callable[[], Arrays]
    expect: Callable[..., Arrays]
    tolerance: Tolerance = CLOSE
    functions: tuple[str, ...] = ("main",)
    compare_zero_signs: bool = False
    bitwise: bool = False
    isolated: bool = False
    unfused_plans_memory: bool = True


def difference(case: Case, got: Arrays, expected: Arrays) -> str | None:
    """The first difference that the case does not allow, in words, or None."""
    if len(got) != len(expected):
        return f"{len(got)} results, expected {len(expected)}"
    for index, (left, right) in enumerate(zip(got, map(np.asarray, expected), strict=True)):
        if (left.dtype, left.shape) != (right.dtype, right.shape):
            return f"result {index} is {left.dtype}{left.shape}, expected {right.dtype}{right.shape}"
        same = _same(case, left, right)
        if not same.all():
            where = np.unravel_index(np.argmin(same), same.shape)
            wrong = same.size - int(same.sum())
            return (
                f"result {index}: {wrong} of {same.size} elements are wrong, the first at "
                f"{tuple(map(int, where))}: {left[where]!r}, expected {right[where]!r}"
            )
    return None


def _same(case: Case, got: np.ndarray, expected: np.ndarray) -> np.ndarray:
    if got.dtype.kind not in "fV":  # ml_dtypes' bfloat16 is of kind V
        return got == expected
    left, right = got.astype("float64"), expected.astype("float64")
    same = np.isclose(left, right, rtol=case.tolerance.rtol, atol=case.tolerance.atol, equal_nan=True)
    if case.compare_zero_signs:
        same &= (left != 0) | (right != 0) | (np.signbit(left) == np.signbit(right))
    return same
