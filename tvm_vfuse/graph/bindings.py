"""What a Relax binding reads, defines and does."""

from __future__ import annotations

import contextlib
from typing import TypeAlias

import tvm
from tvm import relax
from tvm.ir import Var

Expr: TypeAlias = tvm.ir.Expr
CALL_TIR = "relax.call_tir"
# TVM marks these calls as pure, but they overwrite an argument.
IN_PLACE = ("relax.call_tir_inplace", "relax.call_inplace_packed")


def variables_in(expr: object) -> list[Var]:
    """All variables in an expression, shape symbols included, in order and without repeats."""
    found: dict[Var, None] = {}

    def visit(e: Expr) -> None:
        if isinstance(e, Var):
            found.setdefault(e)

    if isinstance(expr, tvm.ir.Expr):
        relax.analysis.post_order_visit(expr, visit)
    return list(found)


def used_vars(expr: object) -> list[Var]:
    """Variables in an expression that are no shape symbols, in order and without repeats."""
    return [v for v in variables_in(expr) if not isinstance(v.ty, tvm.ir.PrimType)]


def known_shape(ty: tvm.ir.Type) -> list[Expr] | None:
    """The extents of a tensor type; None for other types and for tensors of unknown rank."""
    if not isinstance(ty, relax.TensorType) or not isinstance(ty.shape, relax.ShapeExpr):
        return None
    return list(ty.shape.values)


def is_call_tir(value: Expr) -> bool:
    """True for ``R.call_tir``."""
    return isinstance(value, tvm.ir.Call) and getattr(value.op, "name", "") == CALL_TIR


def output_types(call: tvm.ir.Call) -> list[tvm.ir.Type]:
    """Types of the results of a ``call_tir``, one for each output buffer."""
    whole = call.ty_args[0]
    return list(whole.fields) if isinstance(whole, tvm.ir.TupleType) else [whole]


def scalars_of(call: tvm.ir.Call) -> list[Expr]:
    """Scalars that a ``call_tir`` passes besides its tensors: among its arguments, then as a shape."""
    among = [f for f in call.args[1].fields if tvm.ir.is_prim_expr(f)] if isinstance(call.args[1], tvm.ir.Tuple) else []
    return among + (list(call.args[2].values) if len(call.args) > 2 else [])


def symbols_defined(binding: relax.Binding) -> list[Var]:
    """Shape symbols that stand alone as an extent of what is bound, so that the binding can define them."""
    ty = binding.ty if isinstance(binding, relax.MatchCast) else binding.var.ty
    return list(relax.analysis.definable_tir_vars_in_type(ty))


def symbols_used(binding: relax.Binding) -> list[Var]:
    """Shape symbols in the binding's arguments and their types."""
    found: dict[Var, None] = {}

    def visit(e: Expr) -> None:
        if isinstance(e, Var) and isinstance(e.ty, tvm.ir.PrimType):
            found.setdefault(e)
        elif getattr(e, "ty", None) is not None and not isinstance(e, tvm.ir.GlobalVar):
            with contextlib.suppress(TypeError, RuntimeError):  # an operator's own type
                found.update(dict.fromkeys(relax.analysis.tir_vars_in_type(e.ty)))

    relax.analysis.post_order_visit(binding.value, visit)
    for t in getattr(binding.value, "ty_args", None) or ():
        found.update(dict.fromkeys(relax.analysis.tir_vars_in_type(t)))
    return list(found)


def has_side_effects(binding: relax.Binding) -> bool:
    """True for impure calls and those that overwrite an argument."""
    if isinstance(binding, relax.MatchCast):
        return False
    if getattr(getattr(binding.value, "op", None), "name", "") in IN_PLACE:
        return True
    body = relax.SeqExpr([relax.BindingBlock([binding])], binding.var)  # TVM's analysis wants a function
    return bool(relax.analysis.contains_impure_call(relax.Function([], body, binding.var.ty, is_pure=False)))


def describe(value: Expr) -> str:
    """What is bound, in a word or two: the operator or function called, or the kind of expression."""
    op = getattr(value, "op", None)
    name = getattr(op, "name_hint", None) or getattr(op, "name", None) or getattr(op, "global_symbol", None)
    if name in ("relax.call_pure_packed", "relax.call_dps_packed", *IN_PLACE):
        first = value.args[0]
        return f"{name.removeprefix('relax.')} {getattr(first, 'global_symbol', getattr(first, 'name_hint', first))}"
    return str(name) if name else type(value).__name__
