"""Column loops: each lane is a row of its own, and several rows of the tile axis are handled together.

For column sums, convolutions and products: the lane axis is a space axis, so nothing is folded over the lanes::

    for rows, tile blocks in parallel:
        for lane blocks:
            for level in levels:
                row values, row stores
                for k in reduce axes: accumulators[tile][lanes] += element
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

import tvm
from tvm import tirx
from tvm.ir import Var

from tvm_vfuse.graph.indices import INDEX, const_int, product
from tvm_vfuse.graph.sizes import assumed_points
from tvm_vfuse.schedule.cpu_choice import window_axes
from tvm_vfuse.schedule.cpu_loops import WHOLE, LoopWriter, Part, peel, split
from tvm_vfuse.schedule.levels import Held, Levels
from tvm_vfuse.schedule.registers import Block, sequence
from tvm_vfuse.schedule.tile import TileConfig
from tvm_vfuse.schedule.values import Cell

Expr: TypeAlias = tvm.ir.Expr
Stmt: TypeAlias = tirx.Stmt
FEW_TASKS = 16  # rows below which lane blocks become tasks of their own


@dataclass(frozen=True)
class _Spot:
    """The points that one block of code handles: ``width`` lanes of each of ``cells``, which lie along the tile axis.

    ``common`` is what all of them share.
    """

    lane: Var
    width: int
    common: Cell
    cells: list[Cell]


class Columns:
    """Builds a kernel of column loops."""

    def __init__(self, levels: Levels, writer: LoopWriter, tile: TileConfig) -> None:
        self.levels, self.writer, self.tile = levels, writer, tile
        self.loops, self.registers = levels.loops, levels.context.registers
        self.unrolled = window_axes(levels.evaluation, levels.loops)

    def build(self) -> Stmt:
        """The whole kernel."""
        analyzer = self.writer.analyzer
        tiles = split(self.loops.tile, self.tile.unroll, analyzer) if self.loops.tile else [WHOLE]
        lanes = split(self.loops.lane, self.tile.lanes, analyzer)
        if self.unrolled:
            lanes = [piece for part in lanes for piece in peel(part)]
        if self._lane_outside():
            return sequence([self._lane_tasks(tiles, part) for part in lanes])
        out: list[Stmt] = []
        for t in tiles:
            if self._needs_lane_tasks(t):
                out.extend(self._tasks(t, [part], True) for part in lanes)
            else:
                out.append(self._tasks(t, lanes, False))
        return sequence(out)

    def _lane_tasks(self, tiles: list[Part], part: Part) -> Stmt:
        """Lane blocks outside, tile blocks inside: the lane operand is read once, the tile operand again for each."""

        def body(at: list[Expr]) -> Stmt:
            cell = Cell(dict(zip((a.var for a in self.loops.rows), at, strict=False)))

            def blocks(tile: Part) -> Stmt:
                return self.writer.blocks(tile.count, lambda i: self._column(cell, tile, i, part, at[-1]))

            return sequence([blocks(t) for t in tiles])

        return self.writer.tasks([*(a.extent for a in self.loops.rows), part.count], body)

    def _lane_outside(self) -> bool:
        """True if walking the tile axis inside the lane axis moves fewer bytes through the caches.

        The operand that depends on the inner axis is read again for each block of the outer one.
        """
        tile, where = self.loops.tile, self.levels.evaluation.placement
        if tile is None:
            return False
        rows = {a.var for a in self.loops.rows}
        volume = {True: 0.0, False: 0.0}
        for n in self.levels.evaluation.nodes:
            if n.kind == "load" and n.axes & where.reduce_vars:
                elements = assumed_points(n.tensor.shape)
                shared = math.prod(a.assumed for a in where.axes if a.var in n.axes & rows)
                volume[tile.var in n.axes] += elements / shared
        lane_blocks, tile_blocks = self.loops.lane.assumed / self.tile.lanes, tile.assumed / self.tile.unroll
        enough = math.prod(a.assumed for a in self.loops.rows) * lane_blocks >= min(FEW_TASKS / 2, tile_blocks)
        return enough and lane_blocks * volume[True] < tile_blocks * volume[False]

    def _needs_lane_tasks(self, tile: Part) -> bool:
        """True if the rows alone are too few for the threads."""
        rows = const_int(self.writer.analyzer.simplify(product([*(a.extent for a in self.loops.rows), tile.count])))
        return rows is not None and rows < FEW_TASKS and not self.unrolled

    def _tasks(self, tile: Part, lanes: list[Part], lane_tasks: bool) -> Stmt:
        """One task for each row and block of ``tile``, and with ``lane_tasks`` for each block of the one lane part."""
        rows = [a.extent for a in self.loops.rows]
        outside = self._tile_outside()
        extents = [tile.count, *rows] if outside else [*rows, tile.count]
        if lane_tasks:
            extents.append(lanes[0].count)

        def body(at: list[Expr]) -> Stmt:
            lane_at = at.pop() if lane_tasks else None
            tile_at = at.pop(0 if outside else -1)
            cell = Cell(dict(zip((a.var for a in self.loops.rows), at, strict=False)))
            if lane_at is not None:
                return self._column(cell, tile, tile_at, lanes[0], lane_at)

            def blocks(part: Part) -> Stmt:
                return self.writer.blocks(part.count, lambda i: self._column(cell, tile, tile_at, part, i))

            return sequence([blocks(p) for p in lanes])

        return self.writer.tasks(extents, body)

    def _tile_outside(self) -> bool:
        """True if the operand that depends on the tile axis is the larger one (it then is walked once)."""
        tile, where = self.loops.tile, self.levels.evaluation.placement
        if tile is None or not self.loops.rows:
            return False
        volume = {True: 0, False: 0}
        for n in self.levels.evaluation.nodes:
            if n.kind == "load" and n.axes & where.reduce_vars:
                volume[tile.var in n.axes] += math.prod(a.assumed for a in where.axes if a.var in n.axes)
        return volume[True] > volume[False]

    def _column(self, cell: Cell, tile: Part, tile_at: Expr, part: Part, lane_at: Expr) -> Stmt:
        """All levels for ``tile.width`` x ``part.width`` rows."""
        with self.registers.frame():
            return self._levels(cell, tile, tile_at, part, lane_at)

    def _levels(self, cell: Cell, tile: Part, tile_at: Expr, part: Part, lane_at: Expr) -> Stmt:
        levels = self.levels
        lane = levels.context.bound(Var("v", INDEX), part.width)
        common = cell.inside({self.loops.lane.var: part.start(lane_at) + lane})
        along = self.loops.tile
        spot = _Spot(lane, part.width, common, [
            common.inside({along.var: tile.start(tile_at) + u} if along else {}) for u in range(tile.width)
        ])  # fmt: skip
        levels.allocate_scratch(part.width)
        out: list[Stmt] = []
        for level in range(levels.count):
            block = Block(self.registers, spot.width, lane)
            for c in spot.cells:
                levels.row_values(level, block, c)
            out.append(block.finish())
            work = levels.work(level)
            if not work:
                continue
            held = [{id(r): levels.accumulators.start(r, spot.width, out) for r in work.reductions} for _ in spot.cells]
            out.append(self._walk(level, spot, held))
            for c, mine in zip(spot.cells, held, strict=True):
                for r in work.reductions:
                    # Where all lanes hold the same, readers are no vectors and take the first.
                    levels.settle(r, mine[id(r)], levels.emitter.is_wide(r), c)
        return sequence(out)

    def _walk(self, level: int, spot: _Spot, held: list[Held]) -> Stmt:
        """The loops of one level; those of a guarded window are written out, so that its guards are known."""

        def body(at: dict[Var, Expr]) -> Stmt:
            with self.registers.frame():
                return self._point(level, at, spot, held)

        return self.writer.nest(self.loops.inner, self.unrolled, body)

    def _point(self, level: int, at: dict[Var, Expr], spot: _Spot, held: list[Held]) -> Stmt:
        block = Block(self.registers, spot.width, spot.lane)
        shared = Cell(at, {}, spot.common)
        tile = self.loops.tile.var if self.loops.tile else None
        for number, c in enumerate(spot.cells):
            inner = Cell(dict(c.where) | at, dict(shared.values), Cell(c.where, c.values, spot.common))
            self.levels.inner_values(level, block, inner, held[number])
            if number == 0:  # what does not change along the tile axis is computed once
                for n in self.levels.evaluation.nodes:
                    if id(n) in inner.values and (tile is None or tile not in n.axes):
                        shared.values.setdefault(id(n), inner.values[id(n)])
        return block.finish()
