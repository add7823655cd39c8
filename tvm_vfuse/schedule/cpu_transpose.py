"""Elementwise kernels that read an operand across its rows: small tiles are staged line by line.

A vector along the output's rows would touch one cache line for each lane, and use 4 of its 64 bytes. Instead, for
each tile of 16 x 8 points::

    for j in lanes:  tile[j, 0:16] = operand[..., j, row : row + 16]     # whole lines
    for i in rows:   value[lanes] = tile[lanes, i]; ...                  # from the nearest cache
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import tvm
from tvm import tirx
from tvm.ir import Var
from tvm.tirx import BufferLoad, For, ForKind

from tvm_vfuse.graph.axes import Axis
from tvm_vfuse.graph.cost import element_cost
from tvm_vfuse.graph.indices import INDEX, const_int, index
from tvm_vfuse.graph.nodes import Evaluation, Node
from tvm_vfuse.schedule.registers import Block, sequence
from tvm_vfuse.schedule.strides import Access, accesses
from tvm_vfuse.schedule.values import Cell

if TYPE_CHECKING:
    from tvm_vfuse.schedule.cpu_choice import Loops
    from tvm_vfuse.schedule.cpu_kernel import CpuKernel, Part

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
    strided = [
        (n, a)
        for n, a in zip(loads, found, strict=False)
        if a.strides is not None and a.stride(lane) not in (0, 1, None)
    ]
    for axis in reversed(loops.rows):
        number = [a.var for a in axes].index(axis.var)
        nodes = tuple(n for n, a in strided if a.stride(number) == 1 and not n.guards and not _indirect(a))
        if nodes and (axis.size or SHORTEST) >= SHORTEST and not _hoists_work(evaluation, loops):
            return Transposed(axis, nodes)
    return None


def _indirect(access: Access) -> bool:
    return access.strides is None or any(const_int(s) == -1 for s in access.strides)


def _hoists_work(evaluation: Evaluation, loops: Loops) -> bool:
    """True if some expensive value is the same along a row: a tile would compute it again for each of its parts."""
    return any(
        n.stage is not None and loops.lane.var not in n.axes and element_cost(n.stage).expensive
        for n in evaluation.nodes
    )


def tile_lanes(transposed: Transposed) -> int:
    """Lanes of a tile: the largest power of two whose tile stays on the stack (less than 1024 B, TVM's limit)."""
    widest = max(tvm.DataType(n.dtype).bits // 8 or 1 for n in transposed.nodes)
    lanes = 4
    while 2 * lanes * TILE_ROWS * widest < STACK_BYTES:
        lanes *= 2
    return lanes


def build_tiles(kernel: CpuKernel, transposed: Transposed) -> tirx.Stmt:
    """The whole kernel, tile by tile."""
    from tvm_vfuse.schedule.cpu_kernel import split

    rows = [a for a in kernel.loops.rows if a is not transposed.axis]
    out = []
    for part in split(transposed.axis, TILE_ROWS, kernel.analyzer):

        def body(at: list[Expr], part: Part = part) -> tirx.Stmt:
            cell = Cell(dict(zip((a.var for a in rows), at, strict=False)))
            lanes = split(kernel.loops.lane, tile_lanes(transposed), kernel.analyzer)
            return sequence([_lane_blocks(kernel, transposed, cell, part, at[-1], p) for p in lanes])

        out.append(kernel.task_loop([*(a.extent for a in rows), part.count], body))
    return sequence(out)


def _lane_blocks(kernel: CpuKernel, what: Transposed, cell: Cell, rows: Part, row_at: Expr, lanes: Part) -> tirx.Stmt:
    var = kernel.context.bound(Var("lane_block", INDEX), lanes.count)
    at = index(0) if const_int(lanes.count) == 1 else var
    first_row, first_lane = rows.start(row_at), lanes.start(at)
    tiles = {
        id(n): kernel.context.registers.new(f"{n.var.name}_tile", lanes.width * rows.width, n.dtype) for n in what.nodes
    }
    body = [
        _stage(kernel, what, n, tiles[id(n)], cell, (first_row, rows.width), (first_lane, lanes.width))
        for n in what.nodes
    ]
    body.append(_compute(kernel, what, tiles, cell, (first_row, rows.width), (first_lane, lanes.width)))
    inside = sequence(body)
    return inside if const_int(lanes.count) == 1 else For(var, index(0), lanes.count, ForKind.SERIAL, inside)


def _stage(
    kernel: CpuKernel,
    what: Transposed,
    node: Node,
    tile: Var,
    cell: Cell,
    rows: tuple[Expr, int],
    lanes: tuple[Expr, int],
) -> tirx.Stmt:
    """Copies one operand's tile, each of its lines as one vector."""
    registers = kernel.context.registers
    block = Block(registers, rows[1])
    kernel.context.bound(block.lane, rows[1])
    j = kernel.context.bound(Var("j", INDEX), lanes[1])
    here = cell.inside({what.axis.var: rows[0] + block.lane, kernel.loops.lane.var: lanes[0] + j})
    source = kernel.context.buffers[node.tensor.key]
    value = BufferLoad(source, kernel.emitter.place(node.index, node.deps, block, here))
    block.vector(registers.write(tile, value, j * rows[1] + block.lane))
    return For(j, index(0), index(lanes[1]), ForKind.SERIAL, block.finish())


def _compute(
    kernel: CpuKernel,
    what: Transposed,
    tiles: dict[int, Var],
    cell: Cell,
    rows: tuple[Expr, int],
    lanes: tuple[Expr, int],
) -> tirx.Stmt:
    registers = kernel.context.registers
    block = Block(registers, lanes[1])
    kernel.context.bound(block.lane, lanes[1])
    i = kernel.context.bound(Var("i", INDEX), rows[1])
    here = cell.inside({what.axis.var: rows[0] + i, kernel.loops.lane.var: lanes[0] + block.lane})
    for n in what.nodes:
        buf = registers.new(n.var.name, lanes[1], n.dtype)
        block.store(buf, registers.read(tiles[id(n)], block.lane * rows[1] + i), True)
        here.values[id(n)] = (buf, True)
    kernel.point_values(block, here)
    return For(i, index(0), index(rows[1]), ForKind.SERIAL, block.finish())


__all__ = ["Transposed", "build_tiles", "find_transposed"]
