"""exp, exp2, sigmoid and tanh for float32 vectors: a power of two is taken off, a short polynomial makes the rest.

The coefficients are minimax fits (Remez) of our own, rounded to float32 one by one, each with a new fit of the others.
"""

from __future__ import annotations

from tvm import tirx
from tvm.ir import Expr

from tvm_vfuse.schedule.vector_math_bits import (
    SIGN,
    Hold,
    at_least,
    at_most,
    bits_of,
    f32,
    float_of,
    i32,
    magnitude,
    polynomial,
    power_of_two,
    round_to_int,
    with_sign_of,
)

LOG2_E = 1.4426950408889634
# ln 2 in two parts: the first has nine significant bits, so n * LN2_HIGH is exact for |n| < 2**15.
LN2_HIGH = 0.693359375
LN2_LOW = -2.12194440054690583e-4
# (e**r - 1 - r) / r**2 on |r| <= ln(2) / 2; error of e**r 2**-28.2, relative.
EXP_TAIL = (0.4999999403953552, 0.16666513681411743, 0.041668061167001724, 0.008369550108909607, 0.0013843812048435211)
# (2**r - 1) / r on |r| <= 1/2; error of 2**r 2**-26.3, relative.
EXP2_TAIL = (
    0.6931471824645996,
    0.24022594094276428,
    0.055503662675619125,
    0.009625445120036602,
    0.0013387928484007716,
    0.00013332559319678694,
)
# (tanh(x) / x - 1) / x**2 in powers of x**2 on |x| <= 0.625; error of tanh 2**-27.7, relative.
TANH_TAIL = (
    -0.3333328068256378,
    0.13331405818462372,
    -0.05373651534318924,
    0.02062816731631756,
    -0.0056922961957752705,
)
TANH_SPLIT = 0.625


def reduced_exp(x: Expr, bias: int, hold: Hold) -> tuple[Expr, Expr]:
    """Split ``e**x`` into ``m * 2**n`` with ``m`` in [0.70, 1.42].

    Parameters
    ----------
    x : Expr
        Held float32 with ``|x| < 2**13``, or NaN.
    bias : int
        Added to ``n`` in the integer result.
    hold : Hold
        Stores a value that is used more than once.

    Returns
    -------
    m : Expr
        Float32, within 1 ULP; NaN for NaN.
    biased : Expr
        Held int32 whose low nine bits are those of ``n + bias``.
    """
    n, biased = round_to_int(x * f32(LOG2_E), bias, hold)
    r = hold(x - n * f32(LN2_HIGH) - n * f32(LN2_LOW))
    return polynomial(r, EXP_TAIL) * (r * r) + r + f32(1.0), biased


def scale_by_power(m: Expr, biased: Expr, hold: Hold) -> Expr:
    """``m * 2**n`` for ``n`` in [-252, 254], given the bits of ``n + 254``.

    Two factors of about half the exponent each: neither overflows where the result does not, and only the last product
    rounds (where the result is below 2**-126).
    """
    half = hold(biased >> i32(1))
    return m * power_of_two(half) * power_of_two(biased - half)


def exp(x: Expr, hold: Hold) -> Expr:
    """``e**x``; beyond the limits it is infinity and 0."""
    x = hold(at_least(hold(at_most(x, 89.0)), -104.0))
    m, biased = reduced_exp(x, 254, hold)
    return scale_by_power(m, biased, hold)


def exp2(x: Expr, hold: Hold) -> Expr:
    """``2**x``; beyond the limits it is infinity and 0."""
    x = hold(at_least(hold(at_most(x, 129.0)), -151.0))
    n, biased = round_to_int(x, 254, hold)
    r = hold(x - n)
    return scale_by_power(polynomial(r, EXP2_TAIL) * r + f32(1.0), biased, hold)


def sigmoid(x: Expr, hold: Hold) -> Expr:
    """``1 / (1 + e**-x)``.

    With ``E = e**-|x|`` and ``q = E / (1 + E)`` it is ``1 - q`` for positive and ``E - E * q`` for negative ``x``.
    Nothing overflows, the result falls through the denormals to 0 where it should, and the errors of the sum and the
    quotient count for half or less.
    """
    x_negated = hold(float_of(bits_of(x) | i32(SIGN)))
    m, biased = reduced_exp(hold(at_least(x_negated, -104.0)), 127 + 64, hold)
    e = hold(m * power_of_two(biased) * f32(2.0**-64))
    numerator = hold(tirx.Select(x < f32(0.0), e, f32(1.0)))
    return numerator - numerator * (e / (e + f32(1.0)))


def tanh(x: Expr, hold: Hold) -> Expr:
    """Hyperbolic tangent: an odd polynomial up to 0.625, ``1 - 2 / (e**(2|x|) + 1)`` beyond; the sign comes last."""
    t = hold(magnitude(x))
    square = hold(t * t)
    near = polynomial(square, TANH_TAIL) * square * t + t
    m, biased = reduced_exp(hold(at_most(hold(t * f32(2.0)), 20.0)), 127, hold)
    far = f32(1.0) - f32(2.0) / (m * power_of_two(biased) + f32(1.0))
    return with_sign_of(tirx.Select(t < f32(TANH_SPLIT), near, far), x)
