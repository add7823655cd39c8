"""Sizes in bytes of tensors whose shapes may be symbolic."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tvm
from tvm import tirx

Bindings = dict[Any, int]
"""Values of symbolic variables (the variables themselves are the keys)."""

Shape = tuple[int | None, ...]
"""Extents of a tensor; None is an extent that is known at run time only."""

_BINARY: dict[type, Callable[[int, int], Any]] = {
    tirx.Add: operator.add,
    tirx.Sub: operator.sub,
    tirx.Mul: operator.mul,
    tirx.FloorDiv: operator.floordiv,
    tirx.FloorMod: operator.mod,
    tirx.Div: lambda a, b: _truncated(a, b),
    tirx.Mod: lambda a, b: a - b * _truncated(a, b),
    tirx.Min: min,
    tirx.Max: max,
    tirx.LShift: operator.lshift,
    tirx.RShift: operator.rshift,
    tirx.EQ: operator.eq,
    tirx.NE: operator.ne,
    tirx.LT: operator.lt,
    tirx.LE: operator.le,
    tirx.GT: operator.gt,
    tirx.GE: operator.ge,
    tirx.And: lambda a, b: a and b,
    tirx.Or: lambda a, b: a or b,
}


def evaluate(expr: Any, bindings: Bindings) -> int | None:
    """Value of an integer expression under ``bindings``; None where a variable or an operator has no value."""
    if isinstance(expr, int | tirx.IntImm):
        return int(expr)
    if isinstance(expr, tirx.Var):
        return bindings.get(expr)
    if isinstance(expr, tirx.Cast):
        return evaluate(expr.value, bindings)
    apply = _BINARY.get(type(expr))
    if apply is not None:
        left, right = evaluate(expr.a, bindings), evaluate(expr.b, bindings)
        if left is None or right is None or (right == 0 and isinstance(expr, _DIVISIONS)):
            return None
        return int(apply(left, right))
    choice = _choice(expr)
    if choice is not None:
        condition, when_true, when_false = choice
        taken = evaluate(condition, bindings)
        return None if taken is None else evaluate(when_true if taken else when_false, bindings)
    return None


def _truncated(a: int, b: int) -> int:
    """Quotient rounded towards zero, as TIR's ``Div`` rounds."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


_DIVISIONS = (tirx.FloorDiv, tirx.FloorMod, tirx.Div, tirx.Mod)


def _choice(expr: Any) -> tuple[Any, Any, Any] | None:
    if isinstance(expr, tirx.Select):
        return expr.condition, expr.true_value, expr.false_value
    if isinstance(expr, tvm.ir.Call) and getattr(expr.op, "name", "") == "prim.if_then_else":
        return expr.args[0], expr.args[1], expr.args[2]
    return None


def evaluate_shape(dims: Iterable[Any], bindings: Bindings) -> Shape:
    """Extents of a shape under ``bindings``."""
    return tuple(evaluate(dim, bindings) for dim in dims)


def bind_shape(dims: Iterable[Any], shape: Sequence[int | None], bindings: Bindings) -> None:
    """Add to ``bindings`` what ``shape`` tells of the variables that stand alone in ``dims``; known values stay."""
    for dim, extent in zip(dims, shape, strict=False):
        if isinstance(dim, tirx.Var) and extent is not None:
            bindings.setdefault(dim, int(extent))


def element_bits(dtype: Any) -> int:
    """Bits of one element, all lanes together (a bool takes a byte)."""
    kind = dtype.dtype if isinstance(dtype, tvm.ir.PrimType) else dtype
    return int(kind.bits) * max(1, int(kind.lanes))


def num_bytes(shape: Sequence[int | None], bits: int) -> int | None:
    """Bytes of a dense tensor of ``bits``-bit elements, rounded up; None where an extent is unknown."""
    if any(extent is None for extent in shape):
        return None
    return (math.prod(max(0, int(extent)) for extent in shape if extent is not None) * bits + 7) // 8
