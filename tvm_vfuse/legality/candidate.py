"""Two groups that might become one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from tvm_vfuse.graph.model import Graph, Operator


@dataclass(frozen=True)
class Candidate:
    """Groups ``first`` (the producer, or the earlier sibling) and ``second``, as sorted operator indices.

    Attributes
    ----------
    bypass : an operator outside of both on a path from one to the other, or None
    """

    graph: Graph
    first: tuple[int, ...]
    second: tuple[int, ...]
    bypass: int | None = None

    @cached_property
    def members(self) -> tuple[int, ...]:
        """Indices of the operators of both groups, sorted."""
        return tuple(sorted({*self.first, *self.second}))

    @property
    def operators(self) -> list[Operator]:
        """The operators of both groups in program order."""
        return [self.graph.operators[i] for i in self.members]

    @cached_property
    def links(self) -> tuple[int, ...]:
        """Values that ``first`` makes and ``second`` reads."""
        made = {v for i in self.first for v in self.graph.operators[i].outputs}
        return tuple(dict.fromkeys(v for i in self.second for v in self.graph.operators[i].inputs if v in made))

    def name(self, index: int) -> str:
        """What a message calls an operator: its binding, then what it does."""
        op = self.graph.operators[index]
        return f"{op.name} ({op.op})"

    @cached_property
    def is_pointwise(self) -> bool:
        """All members are pointwise over one shape and hand values on at the same place: surely one loop."""
        ops = self.operators
        if not all(o.pointwise for o in ops):
            return False
        shapes = {self.graph.values[o.outputs[0]].shape for o in ops}
        if len(shapes) != 1 or any(d == 0 for d in next(iter(shapes))):
            return False
        made = {v for o in ops for v in o.outputs}
        return all(v in o.aligned for o in ops for v in o.inputs if v in made)

    @cached_property
    def kind(self) -> str:
        """Which sort of fusion this is; the names that ``--always`` and ``--never`` take."""
        a = [self.graph.operators[i] for i in self.first]
        b = [self.graph.operators[i] for i in self.second]
        if not self.links:
            return "sibling"
        anchor_a, anchor_b = any(o.contraction for o in a), any(o.contraction for o in b)
        red_a, red_b = any(o.reductions for o in a), any(o.reductions for o in b)
        if anchor_b:
            return "contraction-prologue"
        if anchor_a:
            return "contraction-epilogue"
        if red_a and red_b:
            return "several-reductions"
        if red_b:
            return "reduction-prologue"
        return "reduction-epilogue" if red_a else "elementwise"


KINDS = (
    "elementwise",
    "sibling",
    "reduction-prologue",
    "reduction-epilogue",
    "several-reductions",
    "contraction-epilogue",
    "contraction-prologue",
    "recompute",
)
