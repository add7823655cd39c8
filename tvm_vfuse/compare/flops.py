"""Arithmetic operations of a kernel, counted in its TIR.

One operation is one addition, subtraction, multiplication, division, minimum, maximum, bit operation or call of a math
function, of floats or of integers that come from data, for each iteration of the loops around it and each vector lane.
Indices, loop bounds, comparisons, selections and conversions cost nothing. Both sides of a conditional expression
count; of a conditional statement the dearer side does.
"""

from __future__ import annotations

from typing import Any

import tvm
from tvm import s_tir, tirx

from tvm_vfuse.compare.shapes import Bindings, evaluate

_ARITHMETIC = (
    tirx.Add,
    tirx.Sub,
    tirx.Mul,
    tirx.Div,
    tirx.Mod,
    tirx.FloorDiv,
    tirx.FloorMod,
    tirx.Min,
    tirx.Max,
    tirx.LShift,
    tirx.RShift,
    tirx.BitwiseAnd,
    tirx.BitwiseOr,
    tirx.BitwiseXor,
)
_LOGIC = (tirx.EQ, tirx.NE, tirx.LT, tirx.LE, tirx.GT, tirx.GE, tirx.And, tirx.Or)
# Calls that compute nothing.
_FREE_CALLS = frozenset(
    (
        "prim.if_then_else",
        "prim.likely",
        "tirx.likely",
        "prim.reinterpret",
        "tirx.reinterpret",
        "prim.large_uint_imm",
        "tirx.large_uint_imm",
        "tirx.address_of",
        "tirx.assume",
        "tirx.ret",
        "tirx.tvm_access_ptr",
        "tirx.tvm_call_cpacked",
        "tirx.tvm_call_packed",
        "tirx.tvm_stack_make_array",
        "tirx.tvm_stack_make_shape",
        "tirx.undef",
    )
)


def kernel_flop(function: tirx.PrimFunc | None, bindings: Bindings) -> int | None:
    """Arithmetic operations of one run of a kernel.

    Parameters
    ----------
    function : PrimFunc or None
        The kernel; what an external one (None) computes is unknown and counts as 0.
    bindings : dict
        Values of its symbolic variables.

    Returns
    -------
    int or None
        None where a loop's extent is known at run time only. An extent that depends on an outer loop counts at its
        largest; a ``while`` loop counts once.
    """
    return 0 if function is None else _Counter(bindings).statement(function.body)


class _Counter:
    def __init__(self, bindings: Bindings) -> None:
        self.bindings = dict(bindings)
        self._memo: dict[int, tuple[int, bool]] = {}
        self._alive: list[Any] = []

    # ------------------------------------------------------------------------------------------------ statements
    def statement(self, stmt: Any) -> int | None:
        """Operations of one execution of a statement."""
        if isinstance(stmt, tirx.SeqStmt):
            return _add(*(self.statement(part) for part in stmt.seq))
        if isinstance(stmt, tirx.For):
            return self._loop(stmt)
        if isinstance(stmt, s_tir.SBlockRealize):
            return self.statement(stmt.block.body)
        if isinstance(stmt, tirx.IfThenElse):
            sides = [self.statement(side) for side in (stmt.then_case, stmt.else_case) if side is not None]
            known = [side for side in sides if side is not None]
            return max(known) if len(known) == len(sides) else None
        if isinstance(stmt, tirx.While | tirx.AttrStmt | s_tir.SBlock):
            return self.statement(stmt.body)
        if isinstance(stmt, tirx.BufferStore | tirx.Bind | tirx.Evaluate):
            return self.expression(stmt.value)[0]
        return 0

    def _loop(self, loop: tirx.For) -> int | None:
        first, extent = evaluate(loop.min, self.bindings), evaluate(loop.extent, self.bindings)
        step = 1 if loop.step is None else evaluate(loop.step, self.bindings)
        if extent is None or step is None:
            return None
        if first is not None:
            self.bindings[loop.loop_var] = first + max(0, extent - 1)
        body = self.statement(loop.body)
        return None if body is None else body * -(-extent // step)

    # ----------------------------------------------------------------------------------------------- expressions
    def expression(self, expr: Any) -> tuple[int, bool]:
        """Operations of an expression, and whether its value comes from data (a buffer or a float)."""
        key = expr.__chandle__() if isinstance(expr, tvm.ir.Expr) else id(expr)
        if key not in self._memo:
            self._alive.append(expr)
            self._memo[key] = self._count(expr)
        return self._memo[key]

    def _count(self, expr: Any) -> tuple[int, bool]:
        is_float = _is_float(expr)
        if isinstance(expr, tvm.ir.TensorLoad):
            return 0, True
        if isinstance(expr, _ARITHMETIC):
            return self._combine([expr.a, expr.b], is_float, _lanes(expr))
        if isinstance(expr, _LOGIC):
            return self._combine([expr.a, expr.b], is_float, 0)
        if isinstance(expr, tirx.Cast | tirx.Broadcast):
            return self._combine([expr.value], is_float, 0)
        if isinstance(expr, tirx.Not):
            return self._combine([expr.a], is_float, 0)
        if isinstance(expr, tirx.Select):
            return self._combine([expr.condition, expr.true_value, expr.false_value], is_float, 0)
        if isinstance(expr, tirx.Let):
            return self._combine([expr.value, expr.body], is_float, 0)
        if isinstance(expr, tirx.Shuffle):
            return self._combine(list(expr.vectors), is_float, 0)
        if isinstance(expr, tvm.ir.Call):
            cost = 0 if getattr(expr.op, "name", "") in _FREE_CALLS else _lanes(expr)
            return self._combine([arg for arg in expr.args if isinstance(arg, tvm.ir.Expr)], is_float, cost)
        return 0, is_float

    def _combine(self, parts: list[Any], is_float: bool, cost: int) -> tuple[int, bool]:
        counts = [self.expression(part) for part in parts]
        from_data = is_float or any(data for _, data in counts)
        return sum(count for count, _ in counts) + (cost if from_data else 0), from_data


def _is_float(expr: Any) -> bool:
    ty = getattr(expr, "ty", None)
    return isinstance(ty, tvm.ir.PrimType) and "float" in str(ty.dtype)


def _lanes(expr: Any) -> int:
    return max(1, int(expr.ty.dtype.lanes)) if isinstance(expr.ty, tvm.ir.PrimType) else 1


def _add(*counts: int | None) -> int | None:
    total = 0
    for count in counts:
        if count is None:
            return None
        total += count
    return total
