"""Loops of a CPU kernel: tasks for the threads, blocks of an axis, nests of reduce axes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import tvm
from tvm import tirx
from tvm.ir import Var
from tvm.tirx import For, ForKind, IfThenElse

from tvm_vfuse.graph.axes import Axis, Placement
from tvm_vfuse.graph.indices import INDEX, const_int, index, product, unravel
from tvm_vfuse.schedule.registers import sequence
from tvm_vfuse.schedule.tile import TileConfig
from tvm_vfuse.schedule.values import Context

Expr: TypeAlias = tvm.ir.Expr
Stmt: TypeAlias = tirx.Stmt


@dataclass(frozen=True)
class Part:
    """A piece of an axis: ``count`` blocks of ``width`` points, block i starting at ``start(i)``."""

    count: Expr
    width: int
    start: Callable[[Expr], Expr]


WHOLE = Part(index(1), 1, lambda _: index(0))  # of an axis that is not there


def split(axis: Axis, step: int, analyzer: tvm.sym.Analyzer) -> list[Part]:
    """Blocks of ``step`` points, then what is left (point by point where the extent is symbolic)."""
    whole = analyzer.simplify(axis.extent // step)
    rest = analyzer.simplify(axis.extent % step)
    parts = [Part(whole, step, lambda i: i * step)] if const_int(whole) != 0 else []
    left = const_int(rest)
    if left is None:
        parts.append(Part(rest, 1, lambda i: whole * step + i))
    elif left:
        parts.append(Part(index(1), left, lambda _: whole * step))
    return parts


def peel(part: Part) -> list[Part]:
    """The first and the last block apart from those between, so that what is known of the edges is known when built."""
    count = const_int(part.count)
    if count is None or count == 1:
        return [part]
    start = part.start
    first = Part(index(1), part.width, lambda _: start(index(0)))
    last = Part(index(1), part.width, lambda _: start(index(count - 1)))
    middle = [Part(index(count - 2), part.width, lambda i: start(i + 1))] if count > 2 else []
    return [first, *middle, last]


class LoopWriter:
    """Writes the loops around the code of one kernel."""

    def __init__(self, context: Context, tile: TileConfig, placement: Placement) -> None:
        self.context, self.tile, self.analyzer = context, tile, context.analyzer
        self.points = self.analyzer.simplify(product([a.extent for a in placement.axes]))

    def tasks(self, extents: Sequence[Expr], body: Callable[[list[Expr]], Stmt]) -> Stmt:
        """One parallel loop over the product of ``extents``; a serial one where the work is too small for threads.

        ``body`` gets the place along each of ``extents``; registers that it allocates belong to one task. Where the
        work depends on symbolic extents both loops are written, and the kernel chooses when it runs.
        """
        total = self.analyzer.simplify(product(extents))
        if not self.tile.parallel or const_int(total) == 1:
            return self._task_loop(total, extents, body, ForKind.SERIAL)
        parallel = self._task_loop(total, extents, body, ForKind.PARALLEL)
        if const_int(self.points) is not None:
            return parallel
        small = self.points < index(self.tile.serial_below)
        return IfThenElse(small, self._task_loop(total, extents, body, ForKind.SERIAL), parallel)

    def _task_loop(
        self, total: Expr, extents: Sequence[Expr], body: Callable[[list[Expr]], Stmt], kind: ForKind
    ) -> Stmt:
        task = self.context.bound(Var("task", INDEX), total)
        inside = self.context.registers.wrap(body(unravel(task, extents, self.analyzer)))
        return For(task, index(0), total, kind, inside)

    def blocks(self, count: Expr, body: Callable[[Expr], Stmt], most: Expr | None = None) -> Stmt:
        """A serial loop over ``count`` blocks of the lane axis, no loop for one.

        Parameters
        ----------
        most : upper bound of ``count`` that index arithmetic may rely on; by default ``count``
        """
        if const_int(count) == 1:
            return body(index(0))
        var = self.context.bound(Var("lane_block", INDEX), count if most is None else most)
        return For(var, index(0), count, ForKind.SERIAL, body(var))

    def nest(self, axes: Sequence[Axis], unrolled: Collection[Var], body: Callable[[dict[Var, Expr]], Stmt]) -> Stmt:
        """Loops over ``axes``; the ``unrolled`` ones are written out point by point.

        ``body`` gets where each axis stands.
        """
        loops = {a.var: Var(a.var.name, INDEX) for a in axes if a.size != 1 and a.var not in unrolled}
        at: dict[Var, Expr] = {a.var: index(0) for a in axes if a.size == 1}
        for a in axes:
            if a.var in loops:
                at[a.var] = self.context.bound(loops[a.var], a.extent)
        written = [a for a in axes if a.size != 1 and a.var in unrolled]
        points = itertools.product(*(range(a.size or 1) for a in written))
        stmt = sequence([body(at | {a.var: index(i) for a, i in zip(written, point, strict=True)}) for point in points])
        for a in reversed(axes):
            if a.var in loops:
                stmt = For(loops[a.var], index(0), a.extent, ForKind.SERIAL, stmt)
        return stmt
