"""Vector forms of the transcendental functions: a TIR call becomes arithmetic that LLVM keeps in vector registers.

A call of ``expf`` in a vectorized loop is made lane by lane.  The forms here use only additions, products, quotients,
selects, bit casts, shifts and casts between float widths.  Every result is within 2 ULP for every float32
argument: denormals, signed zeros, infinities and NaN included, with and without fused multiply-add.

Largest error in ULP over every float32 of the ranges where the functions change (the rest is sampled), with and without
fused multiply-add: exp 1.01 and 0.99, exp2 0.92 and 1.19, sigmoid 1.65 and 1.86, tanh 1.33 and 1.33, erf 1.56 and 1.70,
log 0.85 and 0.84, log1p 1.41 and 1.41, sin 1.54 and 1.54, cos 1.53 and 1.54.

They rely on the rounding of single operations: a target with LLVM's ``reassoc`` flag breaks them.
"""

from __future__ import annotations

from collections.abc import Callable

from tvm import ir, tirx
from tvm.ir import Expr

from tvm_vfuse.schedule import vector_math_erf, vector_math_exp, vector_math_log, vector_math_trig
from tvm_vfuse.schedule.vector_math_bits import Hold

Fence = Callable[[Expr], Expr]
Form = Callable[[Expr, Hold], Expr]

_FORMS: dict[str, Form] = {
    "tirx.exp": vector_math_exp.exp,
    "tirx.exp2": vector_math_exp.exp2,
    "tirx.sigmoid": vector_math_exp.sigmoid,
    "tirx.tanh": vector_math_exp.tanh,
    "tirx.erf": vector_math_erf.erf,
    "tirx.log": vector_math_log.log,
    "tirx.log1p": vector_math_log.log1p,
    "tirx.sin": vector_math_trig.sin,
    "tirx.cos": vector_math_trig.cos,
}
_POW = "tirx.pow"
_POWERS: dict[float, Form] = {2.0: lambda x, _hold: x * x, 3.0: lambda x, _hold: x * x * x}

EXPANDABLE: frozenset[str] = frozenset({*_FORMS, _POW})
"""Names of the operators that `expand` may have a form for (``tirx.pow`` only with the constant exponents 2 and 3)."""

# Operations of one evaluation: a quotient counts 5, an operation on float64 counts 2, a bit cast 0, any other 1.
_FORM_COST = {
    "tirx.exp": 29.0,
    "tirx.exp2": 25.0,
    "tirx.sigmoid": 35.0,
    "tirx.tanh": 48.0,
    "tirx.erf": 48.0,
    "tirx.log": 46.0,
    "tirx.log1p": 52.0,
    "tirx.sin": 113.0,
    "tirx.cos": 112.0,
    _POW: 2.0,
}
_INSTRUCTION_COST = {"tirx.sqrt": 5.0, "tirx.rsqrt": 10.0} | dict.fromkeys(
    (f"tirx.{n}" for n in ("fabs", "floor", "ceil", "trunc", "nearbyint", "copysign", "fma", "reinterpret")), 1.0
)
LIBM_COST = 600.0
"""Cost of the platform's function for one element: 10 to 30 times the vector forms' (glibc on Zen 3, AVX2)."""


def cost(op_name: str) -> float:
    """Rough cost of one evaluation, in vector operations for each element (an addition is 1).

    Parameters
    ----------
    op_name : str
        Name of a TIR operator, for example ``"tirx.exp"``.

    Returns
    -------
    float
        `LIBM_COST` for an operator that is neither expandable nor an instruction.
    """
    return _FORM_COST.get(op_name) or _INSTRUCTION_COST.get(op_name, LIBM_COST)


def expand(call: ir.Call, hold: Hold, fence: Fence | None = None) -> Expr | None:
    """Vector form of a call of a transcendental function.

    Rewrite
    -------
    ``T.exp(A[i])`` -> an expression over ``A[i]`` and registers that ``hold`` fills.

    Parameters
    ----------
    call : tvm.ir.Call
        Call of a scalar float32, float16 or bfloat16 function.  The narrow types are computed in float32 and rounded
        once.  An argument that is neither a load nor a variable is held first.
    hold : Expr -> Expr
        Stores an expression (float32, float64 or int32) in a register of its own and returns the register's load.
        Called, in order of use, for every value that is needed more than once.
    fence : Expr -> Expr, optional
        Keeps a product from contracting with an addition of the caller's.  Applied to the result where that is a
        product, so that the result does not depend on what is done with it.

    Returns
    -------
    Expr or None
        The result, of the call's dtype; None where there is no form and the call should stay as it is.
    """
    if not isinstance(call.op, ir.Op):
        return None
    dtype, form = str(call.ty), _form_of(call)
    if form is None or dtype not in ("float32", "float16", "bfloat16"):
        return None
    x = call.args[0]
    if dtype != "float32":
        return tirx.Cast(dtype, form(hold(tirx.Cast("float32", x)), hold))
    result = form(x if isinstance(x, (ir.TensorLoad, ir.Var)) else hold(x), hold)
    return fence(result) if fence is not None and isinstance(result, tirx.Mul) else result


def _form_of(call: ir.Call) -> Form | None:
    """What builds the call's vector form."""
    if call.op.name != _POW:
        return _FORMS.get(call.op.name)
    exponent = call.args[1]
    return _POWERS.get(float(exponent.value)) if isinstance(exponent, tirx.FloatImm) else None
