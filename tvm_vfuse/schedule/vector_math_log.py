"""log and log1p for float32 vectors: the exponent is taken off, a polynomial makes the rest.

The coefficients are a minimax fit (Remez) of our own, rounded to float32 one by one, each with a new fit of the others.
"""

from __future__ import annotations

from tvm import tirx
from tvm.ir import Expr

from tvm_vfuse.schedule.vector_math_bits import (
    FLT_MAX,
    FLT_MIN,
    ONE_BITS,
    Hold,
    bits_of,
    f32,
    float_of,
    i32,
    power_of_two,
    split_polynomial,
)
from tvm_vfuse.schedule.vector_math_exp import LN2_HIGH, LN2_LOW

SQRT_HALF_BITS = 0x3F3504F3
# (log(1 + f) - f + f**2 / 2) / f**3 on sqrt(1/2) <= 1 + f <= sqrt(2); error of the logarithm 2**-27.9, relative.
LOG_TAIL = (
    0.3333331346511841,
    -0.2500016987323761,
    0.20002225041389465,
    -0.16659215092658997,
    0.14209426939487457,
    -0.12552104890346527,
    0.12114246189594269,
    -0.10893253237009048,
    0.05277508124709129,
)


def _split(x: Expr, hold: Hold) -> tuple[Expr, Expr]:
    """Split a held ``x > 0`` into ``m * 2**(biased - 127)`` with ``m`` in [sqrt(1/2), sqrt(2)).

    Infinity and NaN count as FLT_MAX; a negative ``x`` gives numbers without meaning.
    """
    finite = tirx.Select(x < f32(FLT_MAX), x, f32(FLT_MAX))
    bits = hold(bits_of(finite) + i32(ONE_BITS - SQRT_HALF_BITS))
    return hold(bits >> i32(23)), float_of((bits & i32(0x7FFFFF)) + i32(SQRT_HALF_BITS))


def _log_of_parts(f: Expr, exponent: Expr, hold: Hold) -> Expr:
    """``log(1 + f) + exponent * log(2)``, the smallest terms added first; both arguments are held float32."""
    square = hold(f * f)
    low = split_polynomial(f, square, LOG_TAIL) * (f * square) + exponent * f32(LN2_LOW) - f32(0.5) * square
    return low + f + exponent * f32(LN2_HIGH)


def _with_edges(x: Expr, value: Expr) -> Expr:
    """``value``, but infinity for infinity, -infinity for 0, NaN for NaN and below 0."""
    edge = tirx.Select(x == f32(0.0), f32(float("-inf")), f32(float("nan")))
    return tirx.Select(x > f32(0.0), tirx.Select(x > f32(FLT_MAX), x, value), edge)


def log(x: Expr, hold: Hold) -> Expr:
    """Natural logarithm; a denormal argument is scaled by 2**23 first."""
    small = x < f32(FLT_MIN)
    biased, m = _split(hold(tirx.Select(small, x * f32(2.0**23), x)), hold)
    exponent = hold(tirx.Cast("float32", biased) - tirx.Select(small, f32(127.0 + 23.0), f32(127.0)))
    return _with_edges(x, _log_of_parts(hold(m - f32(1.0)), exponent, hold))


def log1p(x: Expr, hold: Hold) -> Expr:
    """``log(1 + x)``.

    What the sum ``u = 1 + x`` rounds off is ``x - (u - 1)``, exactly as long as it matters (``u`` up to 2**24).  It is
    scaled as the significand of ``u`` was and added to that.
    """
    u = hold(x + f32(1.0))
    biased, m = _split(u, hold)
    lost = x - (u - f32(1.0))
    scale = power_of_two(i32(254) - tirx.Select(biased < i32(254), biased, i32(254)))
    f = hold(lost * scale + (m - f32(1.0)))
    exponent = hold(tirx.Cast("float32", biased) - f32(127.0))
    value = _with_edges(u, _log_of_parts(f, exponent, hold))
    return tirx.Select(x == f32(0.0), x, value)
