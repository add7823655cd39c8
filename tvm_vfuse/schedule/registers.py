"""Writes straight-line code over vector registers: small local buffers, one per value.

A value lives in a buffer of its own (``lanes`` elements, or one where it is the same for all lanes), which LLVM
turns into registers. No value of one operator stands inside another's expression, so nothing can be contracted or
simplified across original operators: that is what makes ``exact`` numerics exact.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

import tvm
import tvm_ffi
from tvm import tirx
from tvm.ir import Var
from tvm.tirx import AllocBuffer, BufferLoad, BufferStore, For, ForKind, IfThenElse, SeqStmt

from tvm_vfuse.graph.indices import INDEX, index

Expr: TypeAlias = tvm.ir.Expr
Stmt: TypeAlias = tirx.Stmt
_FOLDED = (tirx.Sub, tirx.Div, tirx.EQ, tirx.NE, tirx.LT, tirx.LE, tirx.GT, tirx.GE)


def sequence(statements: Sequence[Stmt]) -> Stmt:
    """The statements in a row, nested sequences flattened and empty ones dropped."""
    flat: list[Stmt] = []
    for s in statements:
        if isinstance(s, SeqStmt):
            flat.extend(s.seq)
        elif not (isinstance(s, tirx.Evaluate) and isinstance(s.value, tirx.IntImm)):
            flat.append(s)
    if not flat:
        return tirx.Evaluate(index(0))
    return SeqStmt(flat) if len(flat) > 1 else flat[0]


def _round_to_bfloat16(value: Expr) -> Expr:
    """A float32 rounded to the nearest bfloat16 (ties to even), still as float32; NaN stays NaN."""
    bits = tirx.reinterpret("uint32", value)
    word = lambda v: tirx.const(v, "uint32")  # noqa: E731
    nearest = (bits + word(0x7FFF) + ((bits >> word(16)) & word(1))) & word(0xFFFF0000)
    is_nan = (bits & word(0x7FFFFFFF)) > word(0x7F800000)
    return tirx.reinterpret("float32", tirx.Select(is_nan, bits | word(0x400000), nearest))


class Registers:
    """Names and allocates the register buffers of one kernel.

    Truth values lie in int8 registers: TVM's storage rewriting may join a bool buffer with an int8 one. bfloat16
    values lie in float32 registers and are rounded by hand: TVM computes them in float32 and drops the rounding.
    """

    def __init__(self) -> None:
        self.allocated: list[Var] = []
        self.names: dict[str, int] = {}
        self.held_as: dict[Var, str] = {}
        self.free: dict[tuple[int, str], list[Var]] = {}
        self.frames: list[list[tuple[tuple[int, str], Var]]] = []

    @contextlib.contextmanager
    def frame(self) -> Iterator[None]:
        """Registers made inside serve again afterwards: their values are dead at the end of the frame.

        TVM's time for a kernel grows with the square of the number of its buffers.
        """
        self.frames.append([])
        yield
        for key, buf in reversed(self.frames.pop()):
            self.free.setdefault(key, []).append(buf)

    def new(self, name: str, lanes: int, dtype: str) -> Var:
        """A register of ``lanes`` elements of ``dtype``; one of an ended frame where there is one."""
        key = (lanes, dtype)
        buf = self.free[key].pop() if self.free.get(key) else self._make(name, lanes, dtype)
        if self.frames:
            self.frames[-1].append((key, buf))
        return buf

    def _make(self, name: str, lanes: int, dtype: str) -> Var:
        count = self.names[name] = self.names.get(name, -1) + 1
        kept = {"bool": "int8", "bfloat16": "float32"}.get(dtype, dtype)
        buf = tirx.decl_buffer((lanes,), kept, f"{name}_{count}" if count else name, layout=None)
        if kept != dtype:
            self.held_as[buf] = dtype
        self.allocated.append(buf)
        return buf

    def write(self, buf: Var, value: Expr, place: Expr) -> Stmt:
        """A store into a register."""
        held = self.held_as.get(buf)
        if held == "bool":
            value = tirx.Cast("int8", value)
        elif held == "bfloat16":
            value = _round_to_bfloat16(tirx.Cast("float32", value))
        return BufferStore(buf, value, [place])

    def read(self, buf: Var, place: Expr) -> Expr:
        """A load from a register, in the value's own type."""
        load, held = BufferLoad(buf, [place]), self.held_as.get(buf)
        if held == "bool":
            return tirx.NE(load, tirx.const(0, "int8"))
        return tirx.Cast("bfloat16", load) if held == "bfloat16" else load

    def wrap(self, body: Stmt) -> Stmt:
        """``body`` behind the allocations of all registers made so far."""
        out = sequence([*(AllocBuffer(b) for b in self.allocated), body])
        self.allocated, self.free = [], {}
        return out


class Block:
    """A run of statements over ``lanes`` lanes; neighbours share one vector loop."""

    def __init__(self, registers: Registers, lanes: int, lane: Var | None = None) -> None:
        self.registers, self.lanes = registers, lanes
        self.lane = Var("v", INDEX) if lane is None else lane
        self.done: list[Stmt] = []
        self.open: list[Stmt] = []

    # ------------------------------------------------------------------ statements
    def scalar(self, stmt: Stmt) -> None:
        """A statement that is the same for all lanes; it ends the vector loop before it, and reads lane 0."""
        self.flush()
        self.done.append(substitute_stmt(stmt, {self.lane: index(0)}))

    def vector(self, stmt: Stmt) -> None:
        """A statement for every lane, written in terms of ``self.lane``."""
        if self.lanes == 1:
            self.done.append(substitute_stmt(stmt, {self.lane: index(0)}))
        else:
            self.open.append(stmt)

    def flush(self) -> None:
        """Closes the open vector loop; what comes next stands after it."""
        if self.open:
            body = sequence(self.open)
            self.done.append(For(self.lane, index(0), index(self.lanes), ForKind.VECTORIZED, body))
            self.open = []

    def finish(self) -> Stmt:
        """All statements so far as one."""
        self.flush()
        return sequence(self.done)

    # ------------------------------------------------------------------ values
    def store(self, buf: Var, value: Expr, wide: bool) -> None:
        """Writes a register, one element a lane if ``wide``, else its only element."""
        if wide:
            self.vector(self.registers.write(buf, value, self.lane))
        else:
            self.scalar(self.registers.write(buf, value, index(0)))

    def hold(self, name: str, value: Expr, wide: bool) -> Expr:
        """Keeps ``value`` in a register of its own; returns the register's load."""
        buf = self.registers.new(name, self.lanes if wide else 1, str(value.ty))
        self.store(buf, value, wide)
        return self.read(buf, wide)

    def read(self, buf: Var, wide: bool) -> Expr:
        """The lane's element of a ``wide`` register, else its only element."""
        return self.registers.read(buf, self.lane if wide and self.lanes > 1 else index(0))

    def conditional(self, condition: Expr, build: Callable[[Block], None]) -> None:
        """Statements of ``build`` under a condition that is the same for all lanes; neighbours share the branch."""
        self.flush()
        inner = Block(self.registers, self.lanes, self.lane)
        build(inner)
        body = inner.finish()
        last = self.done[-1] if self.done else None
        if (
            isinstance(last, IfThenElse)
            and last.else_case is None
            and tvm_ffi.structural_equal(last.condition, condition)
        ):
            self.done.pop()
            body = sequence([last.then_case, body])
        self.done.append(IfThenElse(condition, body, None))


def substitute_stmt(stmt: Stmt, env: Mapping[Var, Expr]) -> Stmt:
    """``stmt`` with variables replaced by expressions of their own type."""
    return tvm_ffi.structural_map(stmt, [(Var, lambda v: env.get(v, v))], order="post")


def protect(value: Expr, hold: Callable[[Expr], Expr]) -> Expr:
    """Keeps TVM from folding ``x - x``, ``x == x`` and the like, which are wrong for NaN and infinity.

    The second operand moves to a register of its own, which the simplifier can't tell from another value.
    """

    def visit(node: Expr) -> Expr:
        if str(node.a.ty).startswith(("float", "bfloat")) and tvm_ffi.structural_equal(node.a, node.b):
            return type(node)(node.a, hold(node.b))
        return node

    return tvm_ffi.structural_map(value, [(kind, visit) for kind in _FOLDED], order="post")
