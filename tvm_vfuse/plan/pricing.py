"""Predicted times of groups over one graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm_vfuse.graph.model import Graph
from tvm_vfuse.legality.verdict import Facts
from tvm_vfuse.resource.time_model import Machine


@dataclass(frozen=True)
class Pricing:
    """What kernels of one graph's operators cost on one machine."""

    graph: Graph
    machine: Machine

    def num_bytes(self, members: Sequence[int], clones: Sequence[int] = ()) -> int:
        """Bytes that one kernel moves: each boundary tensor once; results of ``clones`` are written elsewhere."""
        values = (*self.graph.inputs_of({*members, *clones}), *self.graph.outputs_of(members))
        return sum(self.graph.values[v].num_bytes for v in values)

    def time_us(self, members: Sequence[int], facts: Facts | None = None, clones: Sequence[int] = ()) -> float:
        """Predicted time in us of one kernel of these operators.

        Parameters
        ----------
        facts : what an evaluation of the group learnt; without it recompute and memory inside the kernel are unknown
            and not counted
        """
        ops = facts.vector_ops if facts else sum(self.graph.operators[i].vector_ops for i in {*members, *clones})
        extra = 2 * facts.in_kernel_bytes if facts else 0
        return self.machine.time_us(self.num_bytes(members, clones) + extra, ops)
