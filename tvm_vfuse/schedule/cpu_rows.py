"""Row loops: vectors run along the row, which is the lane axis of a reduction or of an elementwise group.

::

    for row in parallel(rows):            # the space axes
        for level in levels:              # a reduction's result is usable one level later
            row values, row stores
            for k in reduce axes:         # vectors of lanes along the innermost one
                values, full stores, accumulators[lanes] += element
            accumulators -> scalars       # a fixed tree
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import tvm
from tvm import tirx
from tvm.tirx import IfThenElse

from tvm_vfuse.graph.indices import const_int, index
from tvm_vfuse.schedule.cpu_loops import LoopWriter, Part, split
from tvm_vfuse.schedule.levels import Held, Levels
from tvm_vfuse.schedule.registers import Block, sequence
from tvm_vfuse.schedule.tile import TileConfig
from tvm_vfuse.schedule.values import Cell

Expr: TypeAlias = tvm.ir.Expr
Stmt: TypeAlias = tirx.Stmt


@dataclass(frozen=True)
class Chunk:
    """One of ``count`` stretches into which a long row is cut, so that there are tasks enough for the threads."""

    number: Expr
    count: Expr


def build_rows(levels: Levels, writer: LoopWriter, tile: TileConfig) -> Stmt:
    """The whole kernel as loops over rows."""
    rows = levels.loops.rows
    chunks = _chunks(levels, tile)
    extents = [*(a.extent for a in rows), *([] if chunks is None else [chunks])]

    def body(at: list[Expr]) -> Stmt:
        cell = Cell(dict(zip((a.var for a in rows), at, strict=False)))
        return _Row(levels, writer, tile, None if chunks is None else Chunk(at[-1], chunks)).build(cell)

    return writer.tasks(extents or [index(1)], body)


def _chunks(levels: Levels, tile: TileConfig) -> Expr | None:
    """Number of stretches of a row; None where a row is one task."""
    if not tile.chunk or levels.evaluation.reductions:
        return None
    points = tile.lanes * tile.chunk
    count = levels.context.analyzer.simplify((levels.loops.lane.extent + (points - 1)) // points)
    return None if const_int(count) == 1 else count


class _Row:
    """The code of one row, or of one chunk of it."""

    def __init__(self, levels: Levels, writer: LoopWriter, tile: TileConfig, chunk: Chunk | None) -> None:
        self.levels, self.writer, self.tile, self.chunk = levels, writer, tile, chunk
        self.registers, self.lane = levels.context.registers, levels.loops.lane

    def build(self, cell: Cell) -> Stmt:
        levels = self.levels
        levels.allocate_scratch(1)
        lanes = self.tile.lanes if self.lane.size is None else min(self.tile.lanes, self.lane.size)
        out: list[Stmt] = []
        for level in range(levels.count):
            block = Block(self.registers, 1)
            levels.row_values(level, block, cell)
            out.append(block.finish())
            work = levels.work(level)
            if not work:
                continue
            held = {id(r): levels.accumulators.start(r, lanes, out) for r in work.reductions}
            out.append(self._walk(level, cell, held))
            for r in work.reductions:
                levels.settle(r, levels.accumulators.fold(r, held[id(r)], lanes, out), False, cell)
        return sequence(out)

    def _walk(self, level: int, cell: Cell, held: Held) -> Stmt:
        """The loops of one level over the reduce axes, the lane axis innermost."""
        inner = self.levels.loops.inner
        return self.writer.nest(inner, (), lambda at: self._lane_loops(level, cell.inside(at), held))

    def _lane_loops(self, level: int, cell: Cell, held: Held) -> Stmt:
        out = []
        for part in split(self.lane, self.tile.lanes, self.writer.analyzer):
            if self.chunk is None:
                out.append(self._lane_loop(level, cell, part, index(0), part.count, held))
            elif part.width == self.tile.lanes and const_int(part.count) != 1:
                first = self.chunk.number * self.tile.chunk
                count = tirx.min(index(self.tile.chunk), part.count - first)
                out.append(self._lane_loop(level, cell, part, first, count, held))
            else:  # what is left of the row goes with its last chunk
                rest = self._lane_loop(level, cell, part, index(0), part.count, held)
                out.append(IfThenElse(tirx.EQ(self.chunk.number, self.chunk.count - 1), rest, None))
        return sequence(out)

    def _lane_loop(self, level: int, cell: Cell, part: Part, first: Expr, count: Expr, held: Held) -> Stmt:
        """``count`` blocks of ``part``, from block ``first``."""

        def body(number: Expr) -> Stmt:
            block = Block(self.registers, part.width)
            lane = self.levels.context.bound(block.lane, part.width)
            start = part.start(number if const_int(first) == 0 else first + number)
            with self.registers.frame():
                self.levels.inner_values(level, block, cell.inside({self.lane.var: start + lane}), held)
                return block.finish()

        return self.writer.blocks(count, body, part.count)
