"""Float32 building blocks of the vector math functions: constants, bit casts, limits, polynomials, powers of two.

Three rules hold throughout:

- A NaN survives, because limits are ``Select(x > c, c, x)``: the comparison is false for NaN.  ``T.min`` and ``T.max``
  would drop it.
- No float is ever cast to an integer (the cast of a NaN is poison).  An integer is read from the bits of
  ``v + 1.5 * 2**23`` instead.
- Additions of integers stay in range, since TVM marks them as never overflowing.

A *held* expression is the load of a register: cheap to repeat.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tvm import tirx
from tvm.ir import Expr

Hold = Callable[[Expr], Expr]

SIGN = -(2**31)
MAGNITUDE = 2**31 - 1
ONE_BITS = 127 << 23
FLT_MAX = (2.0 - 2.0**-23) * 2.0**127
FLT_MIN = 2.0**-126
ROUNDER = 1.5 * 2.0**23


def f32(value: float) -> Expr:
    """Float32 constant."""
    return tirx.const(value, "float32")


def i32(value: int) -> Expr:
    """Int32 constant."""
    return tirx.const(value, "int32")


def bits_of(value: Expr) -> Expr:
    """Bits of a float32 value, as int32."""
    return tirx.reinterpret("int32", value)


def float_of(bits: Expr) -> Expr:
    """Float32 value with the given int32 bits."""
    return tirx.reinterpret("float32", bits)


def at_most(value: Expr, limit: float) -> Expr:
    """A held ``value``, limited from above; NaN stays NaN."""
    return tirx.Select(value > f32(limit), f32(limit), value)


def at_least(value: Expr, limit: float) -> Expr:
    """A held ``value``, limited from below; NaN stays NaN."""
    return tirx.Select(value < f32(limit), f32(limit), value)


def polynomial(x: Expr, coefficients: Sequence[float]) -> Expr:
    """Horner's form in a held ``x``; coefficients from the constant term upwards."""
    value = f32(coefficients[-1])
    for c in reversed(coefficients[:-1]):
        value = value * x + f32(c)
    return value


def split_polynomial(x: Expr, square: Expr, coefficients: Sequence[float]) -> Expr:
    """The same in two chains, of the even and the odd powers: half the latency; ``square`` is ``x * x``, held."""
    return polynomial(square, coefficients[1::2]) * x + polynomial(square, coefficients[0::2])


def magnitude(x: Expr) -> Expr:
    """``|x|``, also of -0 and NaN."""
    return float_of(bits_of(x) & i32(MAGNITUDE))


def with_sign_of(value: Expr, x: Expr) -> Expr:
    """``value``, whose sign bit is clear, with the sign bit of ``x``."""
    return float_of(bits_of(value) | (bits_of(x) & i32(SIGN)))


def round_to_int(value: Expr, bias: int, hold: Hold) -> tuple[Expr, Expr]:
    """Nearest integer ``n`` of ``value``, as a float and in the low bits of an integer.

    Adding ``1.5 * 2**23 + bias`` leaves no fraction bits in a float32: the sum is rounded to an integer, and its low
    mantissa bits are ``n + bias``.  Subtracting the same number is exact.

    Parameters
    ----------
    value : Expr
        Float32 with ``|value| < 2**21``, or NaN (both results then have no meaning, but are not poison).  A product
        here joins the addition where the target fuses them.
    bias : int
        Added to the integer result, which saves an addition later; non-negative.
    hold : Hold
        Stores a value that is used more than once.

    Returns
    -------
    n : Expr
        Held float32.
    biased : Expr
        Held int32 whose low nine bits are those of ``n + bias``.
    """
    shifted = hold(value + f32(ROUNDER + bias))
    return hold(shifted - f32(ROUNDER + bias)), hold(bits_of(shifted))


def power_of_two(biased: Expr) -> Expr:
    """``2**(e - 127)`` where ``e``, in [1, 254], is the low nine bits of ``biased``; 0 where ``e`` is 0."""
    return float_of(biased << i32(23))
