"""Elementwise kernels that read an operand across its rows: small tiles are staged line by line.

A vector along the output's rows would touch one cache line for each lane, and use 4 of its 64 bytes. Instead, for
each tile of 16 x 8 points::

    for j in lanes:  tile[j, 0:16] = operand[..., j, row : row + 16]     # whole lines
    for i in rows:   value[lanes] = tile[lanes, i]; ...                  # from the nearest cache
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import tvm
from tvm import tirx
from tvm.ir import Var
from tvm.tirx import BufferLoad, For, ForKind

from tvm_vfuse.graph.axes import Axis
from tvm_vfuse.graph.cost import element_cost
from tvm_vfuse.graph.indices import INDEX, index
from tvm_vfuse.graph.nodes import Evaluation, Node
from tvm_vfuse.graph.sizes import dtype_bytes
from tvm_vfuse.schedule.cpu_choice import Loops
from tvm_vfuse.schedule.cpu_loops import LoopWriter, Part, split
from tvm_vfuse.schedule.levels import Levels
from tvm_vfuse.schedule.registers import Block, sequence
from tvm_vfuse.schedule.strides import Access, accesses
from tvm_vfuse.schedule.values import Cell

Expr: TypeAlias = tvm.ir.Expr
TILE_ROWS = 16  # one cache line of 32-bit elements
STACK_BYTES = 1024  # allocations of this size and more go to the heap (kMaxStackAlloca in TVM's runtime)
SHORTEST = 8  # rows and lanes below this are not worth a tile


@dataclass(frozen=True)
class Transposed:
    """Loads that lie along ``axis`` in memory while the vectors lie along the lane axis."""

    axis: Axis
    nodes: tuple[Node, ...]


def find_transposed(evaluation: Evaluation, loops: Loops) -> Transposed | None:
    """The loads worth staging, if any."""
    if evaluation.reductions or not loops.rows or (loops.lane.size or SHORTEST) < SHORTEST:
        return None
    axes = evaluation.placement.axes
    loads = [n for n in evaluation.nodes if n.kind == "load"]
    found = accesses(evaluation)
    lane = [a.var for a in axes].index(loops.lane.var)
    strided = [(n, a) for n, a in zip(loads, found, strict=False) if a.stride(lane) not in (0, 1, -1, None)]
    for axis in reversed(loops.rows):
        number = [a.var for a in axes].index(axis.var)
        nodes = tuple(n for n, a in strided if a.stride(number) == 1 and not n.guards and not _indirect(a))
        if nodes and (axis.size or SHORTEST) >= SHORTEST and not _hoists_work(evaluation, loops):
            return Transposed(axis, nodes)
    return None


def _indirect(access: Access) -> bool:
    return access.strides is None or any(s is None for s in access.strides)


def _hoists_work(evaluation: Evaluation, loops: Loops) -> bool:
    """True if some expensive value is the same along a row: a tile would compute it again for each of its parts."""
    return any(
        n.stage is not None and loops.lane.var not in n.axes and element_cost(n.stage).expensive
        for n in evaluation.nodes
    )


def tile_lanes(transposed: Transposed) -> int:
    """Lanes of a tile: the largest power of two whose tile stays on the stack (less than 1024 B, TVM's limit)."""
    widest = max(dtype_bytes(n.dtype) for n in transposed.nodes)
    lanes = 4
    while 2 * lanes * TILE_ROWS * widest < STACK_BYTES:
        lanes *= 2
    return lanes


def build_tiles(levels: Levels, writer: LoopWriter, transposed: Transposed) -> tirx.Stmt:
    """The whole kernel, tile by tile."""
    loops, analyzer = levels.loops, writer.analyzer
    others = [a for a in loops.rows if a is not transposed.axis]
    out = []
    for rows in split(transposed.axis, TILE_ROWS, analyzer):

        def body(at: list[Expr], rows: Part = rows) -> tirx.Stmt:
            cell = Cell(dict(zip((a.var for a in others), at, strict=False)))
            row = rows.start(at[-1])

            def tiles(lanes: Part) -> tirx.Stmt:
                def tile(number: Expr) -> tirx.Stmt:
                    return _Tile(levels, transposed, cell, row, rows.width, lanes.start(number), lanes.width).build()

                return writer.blocks(lanes.count, tile)

            return sequence([tiles(p) for p in split(loops.lane, tile_lanes(transposed), analyzer)])

        out.append(writer.tasks([*(a.extent for a in others), rows.count], body))
    return sequence(out)


@dataclass(frozen=True)
class _Tile:
    """One tile: ``rows`` x ``lanes`` points from (``row``, ``lane``) on."""

    levels: Levels
    what: Transposed
    cell: Cell
    row: Expr
    rows: int
    lane: Expr
    lanes: int

    def build(self) -> tirx.Stmt:
        registers = self.levels.context.registers
        size = self.lanes * self.rows
        staged = [(n, registers.new(f"{n.var.name}_tile", size, n.dtype)) for n in self.what.nodes]
        return sequence([*(self._stage(n, buf) for n, buf in staged), self._compute(staged)])

    def _stage(self, node: Node, tile: Var) -> tirx.Stmt:
        """Copies one operand's tile, each of its lines as one vector."""
        context = self.levels.context
        block = Block(context.registers, self.rows)
        context.bound(block.lane, self.rows)
        j = context.bound(Var("j", INDEX), self.lanes)
        here = self._at(self.row + block.lane, self.lane + j)
        value = BufferLoad(
            context.buffers[node.tensor.key], self.levels.emitter.place(node.index, node.deps, block, here)
        )
        block.vector(context.registers.write(tile, value, j * self.rows + block.lane))
        return For(j, index(0), index(self.lanes), ForKind.SERIAL, block.finish())

    def _compute(self, staged: list[tuple[Node, Var]]) -> tirx.Stmt:
        """Works the tile off row by row, a vector of lanes at a time."""
        context = self.levels.context
        block = Block(context.registers, self.lanes)
        context.bound(block.lane, self.lanes)
        i = context.bound(Var("i", INDEX), self.rows)
        here = self._at(self.row + i, self.lane + block.lane)
        for n, tile in staged:
            buf = context.registers.new(n.var.name, self.lanes, n.dtype)
            block.store(buf, context.registers.read(tile, block.lane * self.rows + i), True)
            here.values[id(n)] = (buf, True)
        self.levels.point_values(block, here)
        return For(i, index(0), index(self.rows), ForKind.SERIAL, block.finish())

    def _at(self, row: Expr, lane: Expr) -> Cell:
        return self.cell.inside({self.what.axis.var: row, self.levels.loops.lane.var: lane})


__all__ = ["Transposed", "build_tiles", "find_transposed"]
