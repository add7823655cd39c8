"""Emits the values of a group into a block of vector statements."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import tvm
import tvm_ffi
from tvm import tirx
from tvm.ir import Call, Range, TensorLoad, Var
from tvm.sym import Analyzer
from tvm.tirx import BufferLoad, For, ForKind, IfThenElse

from tvm_vfuse.graph.indices import const_int, free_vars, index, substitute
from tvm_vfuse.graph.nodes import Node
from tvm_vfuse.schedule.registers import Block, Registers, protect, substitute_stmt

Expr: TypeAlias = tvm.ir.Expr
Expand = Callable[[Call, Callable[[Expr], Expr], Callable[[Expr], Expr]], "Expr | None"]
FENCED = ("float32", "float64")
_INTEGER_DIVISION = (tirx.FloorDiv, tirx.FloorMod, tirx.Div, tirx.Mod)


@dataclass
class Context:
    """What the code of one kernel shares: buffers, registers, known bounds, math expansion."""

    buffers: Mapping[int, Var]
    analyzer: Analyzer
    lane_axis: Var
    expand: Expand | None
    contract: bool = False
    registers: Registers = field(default_factory=Registers)

    def bound(self, var: Var, extent: Expr | int) -> Var:
        """``var``, known from now on to lie in ``[0, extent)``."""
        self.analyzer.bind(var, Range(index(0), index(extent)))
        return var


@dataclass
class Cell:
    """One region of the iteration space: where each axis stands, and the values already held.

    ``values`` maps a node to (register, wide); ``parent`` holds those of the enclosing region.
    """

    where: dict[Var, Expr]
    values: dict[int, tuple[Var, bool]] = field(default_factory=dict)
    parent: Cell | None = None

    def find(self, node: Node) -> tuple[Var, bool] | None:
        """The register that holds the node's value here or in an enclosing region, and whether it is wide."""
        cell: Cell | None = self
        while cell is not None:
            if id(node) in cell.values:
                return cell.values[id(node)]
            cell = cell.parent
        return None

    def axes(self) -> dict[Var, Expr]:
        """Where each axis stands, those of the enclosing regions included."""
        out = {} if self.parent is None else self.parent.axes()
        return out | self.where

    def inside(self, where: dict[Var, Expr]) -> Cell:
        """A region within this one, in which the axes of ``where`` stand there."""
        return Cell(where, {}, self)


class Emitter:
    """Emits nodes of a group into blocks."""

    def __init__(self, context: Context) -> None:
        self.context = context

    # ------------------------------------------------------------------ expressions
    def resolve(self, expr: Expr, node_deps: tuple[Node, ...], block: Block, cell: Cell) -> Expr:
        """``expr`` with axes and placeholders replaced by what ``cell`` holds."""
        env: dict[Var, Expr] = dict(cell.axes())
        for d in node_deps:
            found = cell.find(d)
            assert found is not None, f"{d.var.name} is used before it is computed"
            env[d.var] = block.read(*found)
        return substitute(expr, env)

    def elements(self, node: Node, block: Block, cell: Cell) -> list[Expr]:
        """The values of a compute or reduce node as expressions over registers (several for a joint reduction)."""
        wide = self.is_wide(node)
        out = []
        for expr in node.exprs:
            value = self.resolve(expr, node.deps, block, cell)
            value = self.expand_math(value, block, wide, node.var.name)
            out.append(protect(value, lambda e: block.hold(f"{node.var.name}_b", e, wide)))
        return out

    def is_wide(self, node: Node) -> bool:
        """True if lanes of one block may hold different values."""
        if node.kind == "reduce":
            return any(self.context.lane_axis in d.axes for d in node.deps) or self.context.lane_axis in node.axes
        return self.context.lane_axis in node.axes

    def expand_math(self, value: Expr, block: Block, wide: bool, name: str) -> Expr:
        """``value`` with calls of exp, tanh and their kin as arithmetic that stays in vector registers."""
        expand = self.context.expand
        if expand is None:
            return value

        def keep(e: Expr) -> Expr:
            return block.hold(f"{name}_m", e, wide)

        def visit(call: Call) -> Expr:
            if not getattr(call.op, "name", "").startswith("tirx."):
                return call
            args = [a if _is_simple(a) else keep(a) for a in call.args]
            done = expand(Call(call.op, args, call.attrs, call.ty_args, None, call.ty), keep, self.fence)
            return call if done is None else done

        return tvm_ffi.structural_map(value, [(Call, visit)], order="post")

    # ------------------------------------------------------------------ nodes
    def emit(self, node: Node, block: Block, cell: Cell) -> None:
        """Computes ``node`` into a register of its own, unless the cell has it."""
        if cell.find(node) is not None:
            return
        wide = self.is_wide(node)
        buf = self.context.registers.new(node.var.name, block.lanes if wide else 1, node.dtype)
        guards = [self.simplify(substitute(g, self._env(node, block, cell))) for g in node.guards]
        uniform = [g for g in guards if const_int(g) != 1 and block.lane not in free_vars(g)]
        mixed = [g for g in guards if block.lane in free_vars(g)]
        make = self._load if node.kind == "load" else self._compute
        if uniform:
            block.conditional(_all(uniform), lambda inner: make(node, buf, wide, mixed, inner, cell))
        else:
            make(node, buf, wide, mixed, block, cell)
        cell.values[id(node)] = (buf, wide)

    def _env(self, node: Node, block: Block, cell: Cell) -> dict[Var, Expr]:
        env = dict(cell.axes())
        for d in node.deps:
            found = cell.find(d)
            if found is not None:
                env[d.var] = block.read(*found)
        return env

    def simplify(self, expr: Expr) -> Expr:
        """``expr`` simplified by what is known of the loops around it."""
        return self.context.analyzer.simplify(expr)

    def place(self, idx: tuple[Expr, ...], deps: tuple[Node, ...], block: Block, cell: Cell) -> list[Expr]:
        """Indices at ``cell``; ``deps`` are the values that indices themselves are read from."""
        return [self.simplify(self.resolve(i, deps, block, cell)) for i in idx]

    def _load(self, node: Node, buf: Var, wide: bool, guards: list[Expr], block: Block, cell: Cell) -> None:
        """Loads an input; lanes that a guard excludes get 0."""
        source = self.context.buffers[node.tensor.key]
        value: Expr = BufferLoad(source, self.place(node.index, node.deps, block, cell))
        if not guards:
            block.store(buf, value, wide)
            return
        inside = self._lanes_inside(guards, block)
        if inside is not None:
            self._partial_load(node, buf, value, inside, block)
            return
        checked = tirx.if_then_else(_all(guards), value, tirx.const(0, node.dtype))
        if block.lanes == 1:
            block.store(buf, checked, wide)
            return
        # The guards are affine, so lanes between two good ones are good: test the ends, then load as a vector.
        ends = _all(
            [self.simplify(substitute(g, {block.lane: index(e)})) for g in guards for e in (0, block.lanes - 1)]
        )
        block.flush()
        fast = For(
            block.lane, index(0), index(block.lanes), ForKind.VECTORIZED, block.registers.write(buf, value, block.lane)
        )
        other = Var("v", block.lane.ty)
        slow = For(
            other, index(0), index(block.lanes), ForKind.SERIAL,
            substitute_stmt(block.registers.write(buf, checked, block.lane), {block.lane: other}),
        )  # fmt: skip
        block.done.append(IfThenElse(ends, fast, slow))

    def _lanes_inside(self, guards: list[Expr], block: Block) -> tuple[int, int] | None:
        """First and last (exclusive) lane that the guards admit, if that is known now."""
        admitted = []
        for v in range(block.lanes):
            values = [const_int(self.simplify(substitute(g, {block.lane: index(v)}))) for g in guards]
            if any(x is None for x in values):
                return None
            if all(values):
                admitted.append(v)
        if not admitted:
            return 0, 0
        whole = admitted[-1] - admitted[0] + 1 == len(admitted)
        return (admitted[0], admitted[-1] + 1) if whole else None

    def _partial_load(self, node: Node, buf: Var, value: Expr, inside: tuple[int, int], block: Block) -> None:
        """A vector load of the admitted lanes only, the others filled with 0."""
        first, last = inside
        if last - first < block.lanes:
            block.vector(block.registers.write(buf, tirx.const(0, node.dtype), block.lane))
        if last == first:
            return
        block.flush()
        part = Var("v", block.lane.ty)
        stmt = substitute_stmt(block.registers.write(buf, value, block.lane), {block.lane: part + first})
        block.done.append(For(part, index(0), index(last - first), ForKind.VECTORIZED, stmt))

    def _compute(self, node: Node, buf: Var, wide: bool, guards: list[Expr], block: Block, cell: Cell) -> None:
        value = self.elements(node, block, cell)[0]
        if guards and _has_integer_division(value):
            value = tirx.if_then_else(_all(guards), value, tirx.const(0, node.dtype))
        block.store(buf, self.rounded(value, node.dtype), wide)

    def rounded(self, value: Expr, dtype: str) -> Expr:
        """Keeps a product from being contracted with a later operator's sum (LLVM contracts across statements)."""
        return self.fence(value) if isinstance(value, tirx.Mul) and dtype in FENCED else value

    def fence(self, value: Expr) -> Expr:
        """``value``, which LLVM must round before it is used (not under ``fast`` numerics)."""
        dtype = str(value.ty)
        if self.context.contract or dtype not in FENCED:
            return value
        return tirx.call_llvm_pure_intrin(dtype, "llvm.arithmetic.fence", value)


def _is_simple(expr: Expr) -> bool:
    return isinstance(expr, (TensorLoad, Var, tirx.IntImm, tirx.FloatImm))


def _all(conditions: list[Expr]) -> Expr:
    unique: list[Expr] = []
    for c in conditions:
        if const_int(c) != 1 and not any(tvm_ffi.structural_equal(c, u) for u in unique):
            unique.append(c)
    if not unique:
        return tirx.const(True, "bool")
    out = unique[0]
    for c in unique[1:]:
        out = tirx.And(out, c)
    return out


def _has_integer_division(expr: Expr) -> bool:
    hit: list[int] = []

    def visit(node: Expr) -> None:
        if "int" in str(node.ty):
            hit.append(1)

    tvm_ffi.structural_walk(expr, [(kind, visit) for kind in _INTEGER_DIVISION], order="post")
    return bool(hit)
