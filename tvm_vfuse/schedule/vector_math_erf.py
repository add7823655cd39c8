"""The error function for float32 vectors: an odd polynomial near 0, a power of two of a polynomial beyond.

The coefficients are minimax fits (Remez) of our own, rounded to float32 one by one, each with a new fit of the others.
"""

from __future__ import annotations

from tvm import tirx
from tvm.ir import Expr

from tvm_vfuse.schedule.vector_math_bits import (
    Hold,
    at_most,
    f32,
    magnitude,
    polynomial,
    power_of_two,
    round_to_int,
    with_sign_of,
)

ERF_SPLIT = 0.85
# erf(x) / x - 1 in powers of x**2 on |x| <= 0.85; error of erf 2**-27.1, relative.
ERF_TAIL = (
    0.12837916612625122,
    -0.37612590193748474,
    0.11282864958047867,
    -0.026807287707924843,
    0.0050577037036418915,
    -0.0006348518654704094,
)
# log2(1 - erf(x)) on 0.85 <= x <= 4; error of erf 2**-28.8, absolute.
LOG2_ERFC = (
    -0.00016548573330510408,
    -1.6273822784423828,
    -0.9184220433235168,
    -0.15068671107292175,
    0.03243034705519676,
    -0.004482724238187075,
    0.00029218633426353335,
)
# (2**r - 1) / r on |r| <= 1/2; error of 2**r 2**-23.3, relative: enough for 1 - erf(x), which is at most 0.23 here.
SHORT_EXP2_TAIL = (
    0.6931470036506653,
    0.24022223055362701,
    0.055506493896245956,
    0.0096727404743433,
    0.0013304546009749174,
)


def erf(x: Expr, hold: Hold) -> Expr:
    """Error function; 1 from ``|x| = 4`` on; the sign comes last."""
    t = hold(magnitude(x))
    near = polynomial(hold(t * t), ERF_TAIL) * t + t
    power = hold(polynomial(hold(at_most(t, 4.0)), LOG2_ERFC))
    n, biased = round_to_int(power, 127, hold)
    r = hold(power - n)
    far = f32(1.0) - (polynomial(r, SHORT_EXP2_TAIL) * r + f32(1.0)) * power_of_two(biased)
    return with_sign_of(tirx.Select(t < f32(ERF_SPLIT), near, far), x)
