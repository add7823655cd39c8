"""Builds the CPU kernel of an evaluated group: loops, levels, accumulators, stores.

Two loop shapes share the code. With the lane axis among the reduce axes (or in an elementwise group) vectors run
along the row::

    for row in parallel(rows):            # the space axes
        for level in levels:              # a reduction's result is usable one level later
            row values, row stores
            for k in reduce axes:         # vectors of lanes along the innermost one
                values, full stores, accumulators[lanes] += element
            accumulators -> scalars       # a fixed tree

With the lane axis among the space axes (column sums, convolutions, products) each lane is a row of its own, several
rows of the tile axis are handled together and nothing is folded::

    for rows, tile blocks in parallel:
        for lane blocks:
            for level in levels:
                row values, row stores
                for k in reduce axes: accumulators[tile][lanes] += element
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import tvm
from tvm import tirx
from tvm.ir import Var
from tvm.tirx import BufferLoad, BufferStore, For, ForKind, IfThenElse

from tvm_vfuse.graph.axes import Axis
from tvm_vfuse.graph.indices import INDEX, const_int, free_vars, index, product, unravel
from tvm_vfuse.graph.nodes import Evaluation, Node, Store
from tvm_vfuse.schedule.cpu_choice import Loops, window_axes
from tvm_vfuse.schedule.cpu_transpose import build_tiles, find_transposed
from tvm_vfuse.schedule.parking import Parking, park
from tvm_vfuse.schedule.registers import Block, sequence
from tvm_vfuse.schedule.tile import TileConfig
from tvm_vfuse.schedule.values import Cell, Context, Emitter

Expr: TypeAlias = tvm.ir.Expr
Stmt: TypeAlias = tirx.Stmt


@dataclass(frozen=True)
class Part:
    """A piece of an axis: ``count`` blocks of ``width`` points, block i starting at ``start(i)``."""

    count: Expr
    width: int
    start: Callable[[Expr], Expr]


def split(axis: Axis, step: int, analyzer: tvm.sym.Analyzer) -> list[Part]:
    """Blocks of ``step`` points, then what is left (point by point where the extent is symbolic)."""
    whole = analyzer.simplify(axis.extent // step)
    rest = analyzer.simplify(axis.extent % step)
    parts = [Part(whole, step, lambda i: i * step)] if const_int(whole) != 0 else []
    left = const_int(rest)
    if left is None:
        parts.append(Part(rest, 1, lambda i: whole * step + i))
    elif left:
        parts.append(Part(index(1), left, lambda i: whole * step))
    return parts


def peel(part: Part) -> list[Part]:
    """The first and the last block apart from those between, so that what is known of the edges is known when built."""
    count = const_int(part.count)
    if count is None or count == 1:
        return [part]
    start = part.start
    ends = [
        Part(index(1), part.width, lambda i: start(index(0))),
        Part(index(1), part.width, lambda i: start(index(count - 1))),
    ]
    middle = [Part(index(count - 2), part.width, lambda i: start(i + 1))] if count > 2 else []
    return [ends[0], *middle, ends[1]]


class CpuKernel:
    """The body of one kernel; :meth:`build` returns it."""

    def __init__(self, evaluation: Evaluation, loops: Loops, tile: TileConfig, context: Context) -> None:
        self.ev, self.loops, self.tile, self.context = evaluation, loops, tile, context
        self.emitter = Emitter(context)
        self.analyzer = context.analyzer
        self.inner = {a.var for a in loops.inner} | ({loops.lane.var} if loops.lane_in_reduce else set())
        self.parking: Parking = park(evaluation, self.inner)
        self.scratch: dict[int, Var] = {}
        self.unrolled: set[Var] = set() if loops.lane_in_reduce else window_axes(evaluation, loops)
        self.peeled = bool(self.unrolled)

    def is_inner(self, node: Node) -> bool:
        """True if the value changes inside the row's loops."""
        return node.kind != "reduce" and bool(node.axes & self.inner)

    def build(self) -> Stmt:
        transposed = find_transposed(self.ev, self.loops)
        if transposed is not None:
            return build_tiles(self, transposed)
        return self._rows() if self.loops.lane_in_reduce else self._columns()

    def point_values(self, block: Block, cell: Cell) -> None:
        """All values and stores of an elementwise group at one place."""
        for n in self.ev.nodes:
            self.emitter.emit(n, block, cell)
        for s in self.ev.stores:
            self._store(s, block, cell)

    # ------------------------------------------------------------------ outer loops
    def task_loop(self, extents: Sequence[Expr], body: Callable[[list[Expr]], Stmt]) -> Stmt:
        """One parallel loop over the product of ``extents``; a serial one where the work is too small for threads."""
        total = self.analyzer.simplify(product(extents))
        if not self.tile.parallel or const_int(total) == 1:
            return self._one_loop(total, extents, body, ForKind.SERIAL)
        parallel = self._one_loop(total, extents, body, ForKind.PARALLEL)
        points = self.analyzer.simplify(product([a.extent for a in self.ev.placement.axes]))
        if const_int(points) is not None:
            return parallel
        small = points < index(self.tile.serial_below)
        return IfThenElse(small, self._one_loop(total, extents, body, ForKind.SERIAL), parallel)

    def _one_loop(
        self, total: Expr, extents: Sequence[Expr], body: Callable[[list[Expr]], Stmt], kind: ForKind
    ) -> Stmt:
        task = self.context.bound(Var("task", INDEX), total)
        inside = self.context.registers.wrap(body(unravel(task, extents, self.analyzer)))
        return For(task, index(0), total, kind, inside)

    def _rows(self) -> Stmt:
        rows = self.loops.rows
        chunks = self._chunks()
        extents = [a.extent for a in rows] + ([chunks] if chunks is not None else [])

        def body(at: list[Expr]) -> Stmt:
            cell = Cell(dict(zip((a.var for a in rows), at, strict=False)))
            return self._row(cell, at[-1] if chunks is not None else None, chunks)

        return self.task_loop(extents or [index(1)], body)

    def _chunks(self) -> Expr | None:
        if not self.tile.chunk or self.ev.reductions:
            return None
        points = self.tile.lanes * self.tile.chunk
        count = self.analyzer.simplify((self.loops.lane.extent + (points - 1)) // points)
        return None if const_int(count) == 1 else count

    def _row(self, cell: Cell, chunk: Expr | None, chunks: Expr | None) -> Stmt:
        for key in self.parking.scratch:
            self.scratch[key] = self._new_scratch(key, [self.loops.lane, *self.loops.inner], 1)
        out: list[Stmt] = []
        for level in range(self.ev.levels):
            block = Block(self.context.registers, 1)
            self._row_values(level, block, cell)
            out.append(block.finish())
            reductions, stores = self._inner_work(level)
            if reductions or stores or self.parking.at(level):
                accumulators = {id(r): self._accumulator(r, out) for r in reductions}
                out.append(
                    self._inner_loops(level, cell, lambda c: self._lane_loops(level, c, accumulators, chunk, chunks))
                )
                for r in reductions:
                    self._settle(r, self._fold(r, accumulators[id(r)], out), False, cell)
        return sequence(out)

    def _columns(self) -> Stmt:
        loops = self.loops
        tiles = (
            split(loops.tile, self.tile.unroll, self.analyzer)
            if loops.tile
            else [Part(index(1), 1, lambda i: index(0))]
        )
        lanes = split(loops.lane, self.tile.lanes, self.analyzer)
        if self.peeled:
            lanes = [piece for part in lanes for piece in peel(part)]
        out = []
        for t in tiles:
            tasks, groups = self._lane_tasks(lanes, t)
            for part in groups:
                extents = [*(a.extent for a in loops.rows), t.count, *([part.count] if tasks else [])]
                if self._tile_outside():
                    extents = [t.count, *extents[: len(loops.rows)], *extents[len(loops.rows) + 1 :]]

                def body(at: list[Expr], part: Part = part, t: Part = t, tasks: bool = tasks) -> Stmt:
                    lane_at = at.pop() if tasks else None
                    at = [*at[1:], at[0]] if self._tile_outside() else at
                    cell = Cell(dict(zip((a.var for a in loops.rows), at, strict=False)))
                    if lane_at is not None:
                        return self._column_block(cell, t, at[-1], part, lane_at)
                    return sequence([self._lane_blocks(cell, t, at[-1], p) for p in lanes])

                out.append(self.task_loop(extents, body))
        return sequence(out)

    def _lane_tasks(self, lanes: list[Part], tile: Part) -> tuple[bool, list[Part]]:
        """Lane blocks become tasks of their own where the rows alone are too few for the threads."""
        rows = const_int(self.analyzer.simplify(product([*(a.extent for a in self.loops.rows), tile.count])))
        if rows is None or rows >= 16 or self.peeled:
            return False, lanes[:1]
        return True, lanes

    def _tile_outside(self) -> bool:
        """True if the operand that depends on the tile axis is the larger one (it then is walked once)."""
        loops = self.loops
        if loops.tile is None or not loops.rows:
            return False
        volume = {True: 0, False: 0}
        for n in self.ev.nodes:
            if n.kind == "load" and n.axes & {a.var for a in self.ev.placement.reduce}:
                points = 1
                for a in self.ev.placement.axes:
                    points *= (a.size or 1024) if a.var in n.axes else 1
                volume[loops.tile.var in n.axes] += points
        return volume[True] > volume[False]

    def _lane_blocks(self, cell: Cell, tile: Part, tile_at: Expr, part: Part) -> Stmt:
        if const_int(part.count) == 1:
            return self._column_block(cell, tile, tile_at, part, index(0))
        var = self.context.bound(Var("lane_block", INDEX), part.count)
        return For(var, index(0), part.count, ForKind.SERIAL, self._column_block(cell, tile, tile_at, part, var))

    def _column_block(self, cell: Cell, tile: Part, tile_at: Expr, part: Part, lane_at: Expr) -> Stmt:
        """All levels for ``tile.width`` x ``part.width`` rows."""
        width = part.width
        blocks = [Block(self.context.registers, width)]
        lane = self.context.bound(blocks[0].lane, width)
        self.lane_var = lane
        common = cell.inside({self.loops.lane.var: part.start(lane_at) + lane})
        cells = [
            common.inside({self.loops.tile.var: tile.start(tile_at) + u} if self.loops.tile else {})
            for u in range(tile.width)
        ]
        for key in self.parking.scratch:
            self.scratch[key] = self._new_scratch(key, list(self.loops.inner), width)
        out: list[Stmt] = []
        for level in range(self.ev.levels):
            block = self._block(width)
            for c in cells:
                self._row_values(level, block, c)
            out.append(block.finish())
            reductions, stores = self._inner_work(level)
            if not (reductions or stores or self.parking.at(level)):
                continue
            accumulators = [{id(r): self._accumulator(r, out, width) for r in reductions} for _ in cells]

            def body(at: dict[Var, Expr], acc: list = accumulators, level: int = level) -> Stmt:
                return self._column_body(level, at, common, cells, acc, width)

            out.append(self._nest(list(self.loops.inner), body))
            for c, acc in zip(cells, accumulators, strict=True):
                for r in reductions:
                    self._settle(r, acc[id(r)], True, c)
        return sequence(out)

    def _block(self, width: int) -> Block:
        block = Block(self.context.registers, width)
        block.lane = self.lane_var
        return block

    def _column_body(
        self,
        level: int,
        at: dict[Var, Expr],
        common: Cell,
        cells: list[Cell],
        acc: list[dict[int, list[Var]]],
        width: int,
    ) -> Stmt:
        block = self._block(width)
        shared = Cell(at, {}, common)
        tile = self.loops.tile.var if self.loops.tile else None
        for number, c in enumerate(cells):
            inner = Cell(dict(c.where) | at, dict(shared.values), Cell(c.where, c.values, common))
            self._inner_values(level, block, inner, acc[number])
            if number == 0:  # what does not change along the tile axis is computed once
                for n in self.ev.nodes:
                    if id(n) in inner.values and (tile is None or tile not in n.axes):
                        shared.values.setdefault(id(n), inner.values[id(n)])
        return block.finish()

    # ------------------------------------------------------------------ inner loops
    def _nest(self, axes: list[Axis], body: Callable[[dict[Var, Expr]], Stmt]) -> Stmt:
        """Loops over ``axes``; those of a guarded window are written out, so that its guards are known."""
        loops = {a.var: Var(a.var.name, INDEX) for a in axes if a.size != 1 and a.var not in self.unrolled}
        at: dict[Var, Expr] = {a.var: index(0) for a in axes if a.size == 1}
        for a in axes:
            if a.var in loops:
                at[a.var] = self.context.bound(loops[a.var], a.extent)
        written = [a for a in axes if a.size != 1 and a.var in self.unrolled]
        points = itertools.product(*(range(a.size or 1) for a in written))
        stmt = sequence([body(at | {a.var: index(i) for a, i in zip(written, point, strict=True)}) for point in points])
        for a in reversed(axes):
            if a.var in loops:
                stmt = For(loops[a.var], index(0), a.extent, ForKind.SERIAL, stmt)
        return stmt

    def _inner_loops(self, level: int, cell: Cell, body: Callable[[Cell], Stmt]) -> Stmt:
        return self._nest(list(self.loops.inner), lambda at: body(cell.inside(at)))

    def _lane_loops(
        self, level: int, cell: Cell, accumulators: dict[int, list[Var]], chunk: Expr | None, chunks: Expr | None
    ) -> Stmt:
        out = []
        for part in split(self.loops.lane, self.tile.lanes, self.analyzer):
            first, count = index(0), part.count
            main = part.width == self.tile.lanes and const_int(part.count) != 1
            if chunk is not None and main:
                first = chunk * self.tile.chunk
                count = tirx.min(index(self.tile.chunk), part.count - first)
            stmt = self._lane_loop(level, cell, part, first, count, accumulators)
            if chunk is not None and not main:
                assert chunks is not None
                stmt = IfThenElse(tirx.EQ(chunk, chunks - 1), stmt, None)
            out.append(stmt)
        return sequence(out)

    def _lane_loop(
        self, level: int, cell: Cell, part: Part, first: Expr, count: Expr, acc: dict[int, list[Var]]
    ) -> Stmt:
        block = Block(self.context.registers, part.width)
        lane = self.context.bound(block.lane, part.width)
        once = const_int(count) == 1
        var = Var("lane_block", INDEX)
        if not once:
            self.context.bound(var, part.count)
        start = part.start(index(0) if once else first + var if const_int(first) != 0 else var)
        inner = cell.inside({self.loops.lane.var: start + lane})
        self._inner_values(level, block, inner, acc)
        stmt = block.finish()
        return stmt if once else For(var, index(0), count, ForKind.SERIAL, stmt)

    # ------------------------------------------------------------------ values of one point
    def _inner_work(self, level: int) -> tuple[list[Node], list[Store]]:
        reductions = [r for r in self.ev.reductions if r.level == level]
        return reductions, [s for s in self.ev.stores if self._is_full(s) and s.node.level == level]

    def _is_full(self, store: Store) -> bool:
        return any(free_vars(i) & self.inner for i in store.indices)

    def _row_values(self, level: int, block: Block, cell: Cell) -> None:
        """Values of the row that are known at ``level``, and the row outputs among them."""
        for n in self.ev.nodes:
            if n.kind != "reduce" and not self.is_inner(n) and n.level == level and all(cell.find(d) for d in n.deps):
                self.emitter.emit(n, block, cell)
        for s in self.ev.stores:
            ready = s.node.level + (s.node.kind == "reduce")
            if not self._is_full(s) and ready == level:
                self._store(s, block, cell)

    def _inner_values(self, level: int, block: Block, cell: Cell, acc: dict[int, list[Var]]) -> None:
        reductions, stores = self._inner_work(level)
        parked = self.parking.at(level)
        wanted = [d for r in reductions for d in r.deps] + [s.node for s in stores] + parked
        for n in self._cone(wanted, level):
            if self.parking.is_stored(n, level):
                self._read_back(n, block, cell)
            else:
                self.emitter.emit(n, block, cell)
        for r in reductions:
            self._accumulate(r, acc[id(r)], block, cell)
        for s in stores:
            self._store(s, block, cell)
        for n in parked:
            self._park(n, block, cell)

    def _cone(self, wanted: Sequence[Node], level: int) -> Iterator[Node]:
        """The inner nodes needed for ``wanted`` at ``level``, in order; stops at what was stored before."""
        need: set[int] = set()
        stack = list(wanted)
        while stack:
            n = stack.pop()
            if id(n) in need or not self.is_inner(n):
                continue
            need.add(id(n))
            if not self.parking.is_stored(n, level):
                stack.extend(n.deps)
        return (n for n in self.ev.nodes if id(n) in need)

    def _store(self, store: Store, block: Block, cell: Cell) -> None:
        found = cell.find(store.node)
        assert found is not None
        target = self.context.buffers[store.tensor.key]
        idx = self.emitter.place(store.indices, (), block, cell)
        stmt = BufferStore(target, block.read(*found), idx)
        if found[1] or any(block.lane in free_vars(i) for i in idx):
            block.vector(stmt)
        else:
            block.scalar(stmt)

    # ------------------------------------------------------------------ parked values
    def _slot(self, node: Node, block: Block, cell: Cell) -> tuple[Var, list[Expr]]:
        """Where a value that is used at a later level lies meanwhile."""
        store = self.parking.slots.get(id(node))
        if store is not None:
            return self.context.buffers[store.tensor.key], self.emitter.place(store.indices, (), block, cell)
        axes = cell.axes()
        keep = [a for a in (*self.loops.inner, self.loops.lane)]
        return self.scratch[id(node)], [
            block.lane if not self.loops.lane_in_reduce and a is self.loops.lane else self.emitter.simplify(axes[a.var])
            for a in keep
        ]

    def _park(self, node: Node, block: Block, cell: Cell) -> None:
        buf, idx = self._slot(node, block, cell)
        found = cell.find(node)
        assert found is not None
        block.vector(BufferStore(buf, block.read(*found), idx))

    def _read_back(self, node: Node, block: Block, cell: Cell) -> None:
        if cell.find(node) is not None:
            return
        buf, idx = self._slot(node, block, cell)
        kept = self.context.registers.new(f"{node.var.name}_kept", block.lanes, node.dtype)
        block.store(kept, BufferLoad(buf, idx), True)
        cell.values[id(node)] = (kept, True)

    def _new_scratch(self, key: int, axes: list[Axis], width: int) -> Var:
        node = next(n for n in self.ev.nodes if id(n) == key)
        shape = [
            *(a.extent for a in self.loops.inner),
            self.loops.lane.extent if self.loops.lane_in_reduce else index(width),
        ]
        buf = tirx.decl_buffer(shape, node.dtype, f"{node.var.name}_row", layout=None)
        self.context.registers.allocated.append(buf)
        return buf

    # ------------------------------------------------------------------ reductions
    def _settle(self, red: Node, results: list[Var], wide: bool, cell: Cell) -> None:
        """Makes the results of a reduction known, and the parts of a joint one."""
        cell.values[id(red)] = (results[0], wide)
        for n in self.ev.nodes:
            if n.kind == "part" and n.deps[0] is red and n.stage is not None and n.stage.joint is not None:
                number = [t.key for t in n.stage.joint.outputs].index(n.tensor.key)
                cell.values[id(n)] = (results[number], wide)

    def _accumulator(self, red: Node, out: list[Stmt], width: int | None = None) -> list[Var]:
        lanes = width or self._row_lanes()
        block = Block(self.context.registers, lanes)
        assert red.stage is not None
        bufs = []
        for init in red.stage.inits:
            bufs.append(self.context.registers.new(f"{red.var.name}_acc", lanes, str(init.ty)))
            block.store(bufs[-1], init, True)
        out.append(block.finish())
        return bufs

    def _row_lanes(self) -> int:
        extent = self.loops.lane.size
        return self.tile.lanes if extent is None else min(self.tile.lanes, extent)

    def _accumulate(self, red: Node, acc: list[Var], block: Block, cell: Cell) -> None:
        assert red.stage is not None
        elements = self.emitter.elements(red, block, cell)
        if len(acc) > 1:
            elements = [block.hold(f"{red.var.name}_e", e, True) for e in elements]
        self._combine(red, acc, [block.read(b, True) for b in acc], elements, block)

    def _combine(self, red: Node, acc: list[Var], mine: list[Expr], other: list[Expr], block: Block) -> None:
        assert red.stage is not None
        new = red.stage.fold(mine, other)
        if len(acc) > 1:  # each needs the others' old values
            new = [block.hold(f"{red.var.name}_n", e, True) for e in new]
        for b, e in zip(acc, new, strict=True):
            block.store(b, e, True)

    def _fold(self, red: Node, acc: list[Var], out: list[Stmt]) -> list[Var]:
        """The lanes' partial results into one, always in the same order."""
        registers = self.context.registers
        left = self._row_lanes()
        while left > 1:
            half = left // 2
            block = Block(registers, half)
            other = [registers.read(b, block.lane + (left - half)) for b in acc]
            self._combine(red, acc, [block.read(b, True) for b in acc], other, block)
            out.append(block.finish())
            left -= half
        results = []
        for b in acc:
            value = registers.read(b, index(0))
            results.append(registers.new(red.var.name, 1, str(value.ty)))
            out.append(registers.write(results[-1], value, index(0)))
        return results
