"""Accumulators of reductions: one vector register (or several) for each, folded over the lanes at the end."""

from __future__ import annotations

from typing import TypeAlias

import tvm
from tvm import tirx
from tvm.ir import Var

from tvm_vfuse.graph.indices import index
from tvm_vfuse.graph.nodes import Node
from tvm_vfuse.graph.stages import Stage
from tvm_vfuse.schedule.registers import Block, Registers
from tvm_vfuse.schedule.values import Cell, Emitter

Expr: TypeAlias = tvm.ir.Expr
Stmt: TypeAlias = tirx.Stmt


class Accumulators:
    """Starts, feeds and folds the accumulators of one kernel; a joint reduction has several for one node."""

    def __init__(self, registers: Registers, emitter: Emitter) -> None:
        self.registers, self.emitter = registers, emitter

    def start(self, reduction: Node, lanes: int, out: list[Stmt]) -> list[Var]:
        """New registers of ``lanes`` elements, holding the reduction's first values."""
        block = Block(self.registers, lanes)
        made = []
        for init in _stage(reduction).inits:
            made.append(self.registers.new(f"{reduction.var.name}_acc", lanes, str(init.ty)))
            block.store(made[-1], init, True)
        out.append(block.finish())
        return made

    def add(self, reduction: Node, held: list[Var], block: Block, cell: Cell) -> None:
        """Fold the elements at ``cell``, lane by lane."""
        elements = self.emitter.elements(reduction, block, cell)
        if len(held) > 1:
            elements = [block.hold(f"{reduction.var.name}_e", e, True) for e in elements]
        self._combine(reduction, held, elements, block)

    def fold(self, reduction: Node, held: list[Var], lanes: int, out: list[Stmt]) -> list[Var]:
        """The lanes' partial results as one, always in the same order; registers of one element."""
        left = lanes
        while left > 1:
            half = left // 2
            block = Block(self.registers, half)
            upper = [self.registers.read(b, block.lane + (left - half)) for b in held]
            self._combine(reduction, held, upper, block)
            out.append(block.finish())
            left -= half
        results = []
        for b in held:
            value = self.registers.read(b, index(0))
            results.append(self.registers.new(reduction.var.name, 1, str(value.ty)))
            out.append(self.registers.write(results[-1], value, index(0)))
        return results

    def _combine(self, reduction: Node, held: list[Var], other: list[Expr], block: Block) -> None:
        new = _stage(reduction).fold([block.read(b, True) for b in held], other)
        if len(held) > 1:  # each needs the others' old values
            new = [block.hold(f"{reduction.var.name}_n", e, True) for e in new]
        for b, e in zip(held, new, strict=True):
            block.store(b, e, True)


def _stage(reduction: Node) -> Stage:
    assert reduction.stage is not None
    return reduction.stage
