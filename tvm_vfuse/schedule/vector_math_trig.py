"""sin and cos for float32 vectors, with a reduction of the argument in float64 that holds for every float32.

``x / (2 pi)`` is needed modulo 1 with about 60 bits after the point, for ``x`` up to ``2**128``.  ``1 / (2 pi)`` is
cut into pieces of 29 bits: a float32 times a piece is exact in float64, its nearest integer is dropped at once,
and what is left of all pieces is added up.  This is Payne and Hanek's reduction with every piece always computed, since
the usual table look-up by exponent does not vectorise.  Rounding is by addition, as ``floor`` is a library call where
the target has no instruction for it.

The polynomials' coefficients are minimax fits (Remez) of our own.
"""

from __future__ import annotations

import math

from tvm import tirx
from tvm.ir import Expr

from tvm_vfuse.schedule.vector_math_bits import (
    ROUNDER,
    SIGN,
    Hold,
    bits_of,
    f32,
    float_of,
    i32,
    magnitude,
    polynomial,
)

# Their sum is 1 / (2 pi): bits 3 to 31 after the point, 32 to 60 and so on, the last one rounded to float64.
TURN_PIECES = (
    float.fromhex("0x1.45f306dp-3"),
    float.fromhex("0x1.9391054p-32"),
    float.fromhex("0x1.4fe13abp-61"),
    float.fromhex("0x1.d1f534dp-90"),
    float.fromhex("0x1.b81b6c5p-119"),
    float.fromhex("0x1.5993c439041fep-150"),
)
# (sin(a) / a - 1) / a**2 in powers of a**2 on |a| <= pi / 4; error of sin 2**-27.9, relative.
SIN_TAIL = (-0.16666655242443085, 0.008332189172506332, -0.0001951828453456983)
# (cos(a) - 1 + a**2 / 2) / a**4 in powers of a**2 on |a| <= pi / 4; error of cos 2**-33.1, absolute.
COS_TAIL = (0.04166664555668831, -0.00138873013202101, 2.4430670237052254e-05)
# From here on every float64 is an integer.
WHOLE = 2.0**52


def _f64(value: float) -> Expr:
    return tirx.const(value, "float64")


def _nearest(value: Expr, rounder: float, hold: Hold) -> Expr:
    """Nearest integer of a float64, where the sum with ``rounder`` is in [2**52, 2**53]."""
    return hold(value + _f64(rounder)) - _f64(rounder)


def _fraction(turns: Expr, largest: float, hold: Hold) -> Expr:
    """A held float64 in [0, ``largest``] less its nearest integer."""
    whole = _nearest(turns, WHOLE, hold)
    return turns - (whole if largest < WHOLE else tirx.Select(turns < _f64(WHOLE), whole, turns))


def _quadrant(t: Expr, hold: Hold) -> tuple[Expr, Expr]:
    """Split ``t`` into ``quadrant * pi / 2 + angle``.

    Parameters
    ----------
    t : Expr
        Float32, not negative.
    hold : Hold
        Stores a value that is used more than once.

    Returns
    -------
    quadrant : Expr
        Int32 of which the lowest two bits count.
    angle : Expr
        Held float32 in [-pi / 4, pi / 4]; NaN where ``t`` is infinite or NaN.
    """
    wide = hold(tirx.Cast("float64", t))
    parts = [hold(_fraction(hold(wide * _f64(piece)), piece * 2.0**128, hold)) for piece in TURN_PIECES[:-1]]
    parts.append(hold(wide * _f64(TURN_PIECES[-1])))
    nearest = hold(_nearest(sum(parts[1:], parts[0]) * _f64(4.0), 1.5 * WHOLE, hold))
    # Near a multiple of a quarter turn the parts cancel; with the quarters taken off first those sums are exact.
    rest = sum(parts[1:], parts[0] - nearest * _f64(0.25))
    angle = hold(tirx.Cast("float32", rest * _f64(2.0 * math.pi)))
    return bits_of(tirx.Cast("float32", nearest) + f32(ROUNDER)), angle


def _sine_of_quadrant(quadrant: Expr, angle: Expr, hold: Hold) -> Expr:
    """Bits of the sine of ``quadrant * pi / 2 + angle``; both arguments are held."""
    square = hold(angle * angle)
    sine = polynomial(square, SIN_TAIL) * square * angle + angle
    cosine = polynomial(square, COS_TAIL) * (square * square) - f32(0.5) * square + f32(1.0)
    value = tirx.Select((quadrant & i32(1)) == i32(0), sine, cosine)
    return bits_of(value) ^ ((quadrant & i32(2)) << i32(30))


def sin(x: Expr, hold: Hold) -> Expr:
    """Sine; NaN for infinity."""
    quadrant, angle = _quadrant(magnitude(x), hold)
    return float_of(_sine_of_quadrant(hold(quadrant), angle, hold) ^ (bits_of(x) & i32(SIGN)))


def cos(x: Expr, hold: Hold) -> Expr:
    """Cosine, as the sine of a quarter turn more; NaN for infinity."""
    quadrant, angle = _quadrant(magnitude(x), hold)
    return float_of(_sine_of_quadrant(hold(quadrant + i32(1)), angle, hold))
