"""Index arithmetic: constants, 64-bit promotion, substitution, mixed-radix splits."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import tvm
import tvm_ffi
from tvm import tirx
from tvm.ir import Call, TensorLoad, Var
from tvm.sym import Analyzer
from tvm.tirx import IntImm

Expr: TypeAlias = tvm.ir.Expr
INDEX = "int64"
IF_THEN_ELSE = "prim.if_then_else"
LARGEST_EXTENT = 2**31 - 1  # of a shape symbol

_BINARY: dict[type, Callable[[Expr, Expr], Expr]] = {
    tirx.Add: operator.add,
    tirx.Sub: operator.sub,
    tirx.Mul: operator.mul,
    tirx.FloorDiv: operator.floordiv,
    tirx.FloorMod: operator.mod,
    tirx.Div: tirx.truncdiv,
    tirx.Mod: tirx.truncmod,
    tirx.Min: tirx.min,
    tirx.Max: tirx.max,
    tirx.LT: operator.lt,
    tirx.LE: operator.le,
    tirx.GT: operator.gt,
    tirx.GE: operator.ge,
    tirx.EQ: tirx.EQ,
    tirx.NE: tirx.NE,
    tirx.And: tirx.And,
    tirx.Or: tirx.Or,
}


def index(value: int | Expr) -> Expr:
    """``value`` as a 64-bit index expression."""
    return IntImm(INDEX, int(value)) if isinstance(value, int) else value


def const_int(expr: int | Expr) -> int | None:
    """The integer a constant stands for, or None."""
    if isinstance(expr, int):
        return expr
    return int(expr.value) if isinstance(expr, IntImm) else None


def promote(expr: Expr, env: Mapping[Var, Expr] | None = None) -> Expr:
    """``expr`` with all of its integer index arithmetic done in 64 bits and ``env`` substituted."""
    env = env or {}
    if isinstance(expr, IntImm):
        return IntImm(INDEX, expr.value) if str(expr.ty) != "bool" else expr
    if isinstance(expr, Var):
        found = env.get(expr, expr)
        return found if str(found.ty) == INDEX else tirx.Cast(INDEX, found)
    if type(expr) in _BINARY:
        return _BINARY[type(expr)](promote(expr.a, env), promote(expr.b, env))
    if isinstance(expr, tirx.Not):
        return tirx.Not(promote(expr.a, env))
    if isinstance(expr, tirx.Select):
        return tirx.Select(*(promote(e, env) for e in (expr.condition, expr.true_value, expr.false_value)))
    if isinstance(expr, tirx.Cast) and str(expr.value.ty).startswith("int"):
        return promote(expr.value, env)
    if str(expr.ty) == "bool" or isinstance(expr, TensorLoad):
        return substitute(expr, env) if str(expr.ty) in (INDEX, "bool") else tirx.Cast(INDEX, substitute(expr, env))
    if isinstance(expr, Call) and getattr(expr.op, "name", "") == IF_THEN_ELSE:
        return tirx.if_then_else(*(promote(e, env) for e in expr.args))
    done = substitute(expr, env)
    return done if str(done.ty) == INDEX else tirx.Cast(INDEX, done)


def substitute(expr: Expr, env: Mapping[Var, Expr]) -> Expr:
    """``expr`` with variables replaced; narrower variables get a cast, so that types stay right."""
    if not env:
        return expr

    def on_var(var: Var) -> Expr:
        found = env.get(var)
        if found is None:
            return var
        return found if str(found.ty) == str(var.ty) else tirx.Cast(str(var.ty), found)

    return tvm_ffi.structural_map(expr, [(Var, on_var)], order="post")


def contains(expr: Expr, variables: set[Var]) -> bool:
    """True if any of ``variables`` stands in ``expr``."""
    return bool(variables) and bool(free_vars(expr) & variables)


def has_load(expr: Expr) -> bool:
    """True if ``expr`` reads a tensor: an index that does is known at run time only."""
    hit: list[TensorLoad] = []
    tvm_ffi.structural_walk(expr, [(TensorLoad, hit.append)], order="post")
    return bool(hit)


@functools.lru_cache(maxsize=1 << 16)
def free_vars(expr: Expr) -> frozenset[Var]:
    """Variables in ``expr``; never iterate over the result where order matters."""
    found: set[Var] = set()
    tvm_ffi.structural_walk(expr, [(Var, found.add)], order="post")
    return frozenset(found)


def structural_key(expr: Expr) -> object:
    """A hashable key: equal for structurally equal expressions over the same variables."""
    value = const_int(expr)
    if value is not None:
        return value
    if isinstance(expr, Var):
        return (expr.name, hash(expr))
    return tvm_ffi.StructuralKey(expr)


def product(extents: Sequence[Expr]) -> Expr:
    """Number of points of a box with these extents, as a 64-bit expression (1 for no extents)."""
    out = index(1)
    for e in extents:
        out = out * e
    return out


def flatten(indices: Sequence[Expr], shape: Sequence[Expr]) -> Expr:
    """Row-major flat position of ``indices`` in ``shape``."""
    out = index(0)
    for i, s in zip(indices, shape, strict=True):
        out = out * s + i
    return out


def unravel(flat: Expr, extents: Sequence[Expr], analyzer: Analyzer) -> list[Expr]:
    """The inverse of :func:`flatten`, simplified."""
    out: list[Expr] = []
    rest = flat
    for position in range(len(extents) - 1, -1, -1):
        extent = extents[position]
        out.append(analyzer.simplify(rest % extent if position else rest))
        rest = analyzer.simplify(rest // extent)
    return out[::-1]


def equal(a: Expr, b: Expr, analyzer: Analyzer) -> bool:
    """True if the analyzer proves ``a == b``."""
    if a.same_as(b):
        return True
    return const_int(analyzer.simplify(a - b)) == 0


def new_analyzer(symbols: Sequence[Var] = ()) -> Analyzer:
    """An analyzer that knows the shape symbols to be positive."""
    analyzer = Analyzer()
    for s in symbols:
        analyzer.bind(s, tvm.ir.Range(IntImm(str(s.ty), 1), IntImm(str(s.ty), LARGEST_EXTENT)))
    return analyzer
