"""What a kernel computes at each level: values of the row, values inside its loops, stores, parked values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import tvm
from tvm import tirx
from tvm.ir import Var
from tvm.tirx import BufferLoad, BufferStore

from tvm_vfuse.graph.indices import free_vars, index
from tvm_vfuse.graph.nodes import Evaluation, Node, Store
from tvm_vfuse.schedule.accumulators import Accumulators
from tvm_vfuse.schedule.cpu_choice import Loops
from tvm_vfuse.schedule.parking import Parking, park
from tvm_vfuse.schedule.registers import Block
from tvm_vfuse.schedule.values import Cell, Context, Emitter

Expr: TypeAlias = tvm.ir.Expr
Held: TypeAlias = dict[int, list[Var]]  # reduction node's identity -> its accumulators


@dataclass(frozen=True)
class Work:
    """What happens inside the loops of one level."""

    reductions: list[Node]
    stores: list[Store]
    parked: list[Node]

    def __bool__(self) -> bool:
        return bool(self.reductions or self.stores or self.parked)


class Levels:
    """The code of one kernel's levels; the loops around it are the templates' business."""

    def __init__(self, evaluation: Evaluation, loops: Loops, context: Context) -> None:
        self.evaluation, self.loops, self.context = evaluation, loops, context
        self.emitter = Emitter(context)
        self.accumulators = Accumulators(context.registers, self.emitter)
        self.parking: Parking = park(evaluation, loops.inner_vars)
        self.scratch: dict[int, Var] = {}

    @property
    def count(self) -> int:
        """Number of levels."""
        return self.evaluation.levels

    def point_values(self, block: Block, cell: Cell) -> None:
        """All values and stores of an elementwise group at one place."""
        for n in self.evaluation.nodes:
            self.emitter.emit(n, block, cell)
        for s in self.evaluation.stores:
            self._store(s, block, cell)

    def row_values(self, level: int, block: Block, cell: Cell) -> None:
        """Values of the row that are known at ``level``, and the row outputs among them."""
        for n in self.evaluation.nodes:
            if n.kind != "reduce" and not self._is_inner(n) and n.level == level and all(cell.find(d) for d in n.deps):
                self.emitter.emit(n, block, cell)
        for s in self.evaluation.stores:
            ready = s.node.level + (s.node.kind == "reduce")
            if not self._is_full(s) and ready == level:
                self._store(s, block, cell)

    def work(self, level: int) -> Work:
        """What the loops of ``level`` are for; nothing where none are needed."""
        return Work(
            [r for r in self.evaluation.reductions if r.level == level],
            [s for s in self.evaluation.stores if self._is_full(s) and s.node.level == level],
            self.parking.at(level),
        )

    def inner_values(self, level: int, block: Block, cell: Cell, held: Held) -> None:
        """The work of ``level`` at one place inside its loops, and the values it needs."""
        work = self.work(level)
        wanted = [d for r in work.reductions for d in r.deps] + [s.node for s in work.stores] + work.parked
        for n in self._cone(wanted, level):
            if self.parking.is_stored(n, level):
                self._read_back(n, block, cell)
            else:
                self.emitter.emit(n, block, cell)
        for r in work.reductions:
            self.accumulators.add(r, held[id(r)], block, cell)
        for s in work.stores:
            self._store(s, block, cell)
        for n in work.parked:
            self._park(n, block, cell)

    def settle(self, reduction: Node, results: list[Var], wide: bool, cell: Cell) -> None:
        """Make the results of a reduction known in ``cell``, and the parts of a joint one."""
        cell.values[id(reduction)] = (results[0], wide)
        for n in self.evaluation.nodes:
            if n.kind == "part" and n.deps[0] is reduction and n.stage is not None and n.stage.joint is not None:
                number = [t.key for t in n.stage.joint.outputs].index(n.tensor.key)
                cell.values[id(n)] = (results[number], wide)

    def allocate_scratch(self, width: int) -> None:
        """A row in memory for each parked value that found no place in an output; ``width`` lanes in column loops."""
        for n in self.evaluation.nodes:
            if id(n) in self.parking.scratch:
                lanes = self.loops.lane.extent if self.loops.lane_in_reduce else index(width)
                shape = [*(a.extent for a in self.loops.inner), lanes]
                self.scratch[id(n)] = tirx.decl_buffer(shape, n.dtype, f"{n.var.name}_row", layout=None)
                self.context.registers.allocated.append(self.scratch[id(n)])

    # ------------------------------------------------------------------ nodes and stores
    def _is_inner(self, node: Node) -> bool:
        """True if the value changes inside the row's loops."""
        return node.kind != "reduce" and bool(node.axes & self.loops.inner_vars)

    def _is_full(self, store: Store) -> bool:
        return any(free_vars(i) & self.loops.inner_vars for i in store.indices)

    def _cone(self, wanted: Sequence[Node], level: int) -> Iterator[Node]:
        """The inner nodes needed for ``wanted`` at ``level``, in order; stops at what was stored before."""
        need: set[int] = set()
        stack = list(wanted)
        while stack:
            n = stack.pop()
            if id(n) in need or not self._is_inner(n):
                continue
            need.add(id(n))
            if not self.parking.is_stored(n, level):
                stack.extend(n.deps)
        return (n for n in self.evaluation.nodes if id(n) in need)

    def _store(self, store: Store, block: Block, cell: Cell) -> None:
        found = cell.find(store.node)
        assert found is not None
        target = self.context.buffers[store.tensor.key]
        idx = self.emitter.place(store.indices, (), block, cell)
        wide = found[1] or any(block.lane in free_vars(i) for i in idx)
        value = block.read(*found)
        if wide and not found[1] and store.tensor.dtype == "bfloat16":  # TVM can't broadcast one into a vector store
            value = block.hold(f"{store.node.var.name}_wide", value, True)
        stmt = BufferStore(target, value, idx)
        if wide:
            block.vector(stmt)
        else:
            block.scalar(stmt)

    # ------------------------------------------------------------------ parked values
    def _slot(self, node: Node, block: Block, cell: Cell) -> tuple[Var, list[Expr]]:
        """Where a value that is used at a later level lies meanwhile."""
        store = self.parking.slots.get(id(node))
        if store is not None:
            return self.context.buffers[store.tensor.key], self.emitter.place(store.indices, (), block, cell)
        axes, lane = cell.axes(), self.loops.lane
        idx = [self.emitter.simplify(axes[a.var]) for a in self.loops.inner]
        return self.scratch[id(node)], [
            *idx,
            self.emitter.simplify(axes[lane.var]) if self.loops.lane_in_reduce else block.lane,
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
