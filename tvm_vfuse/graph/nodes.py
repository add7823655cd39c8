"""The values that a group needs at one point of its axes, and the stores of its outputs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import tvm
from tvm.ir import Var

from tvm_vfuse.graph.axes import Placement
from tvm_vfuse.graph.compose import Program
from tvm_vfuse.graph.stages import Stage, Tensor

Expr: TypeAlias = tvm.ir.Expr


@dataclass(eq=False)
class Node:
    """One value at the point.

    Attributes
    ----------
    var : placeholder that stands for the value in the expressions of its users
    kind : "load" (of an input), "compute", "reduce", or "part" (one result of a joint reduction)
    index : place of the element in its tensor
    exprs : value in terms of the placeholders of ``deps`` and the axes (reduce: the folded elements; load: none)
    axes : the axes the value depends on
    level : number of reductions that must be finished before it
    guards : index conditions under which it is needed; a guarded load is 0 elsewhere
    """

    var: Var
    kind: str
    tensor: Tensor
    index: tuple[Expr, ...]
    guards: tuple[Expr, ...] = ()
    stage: Stage | None = None
    exprs: tuple[Expr, ...] = ()
    deps: tuple[Node, ...] = ()
    axes: frozenset[Var] = frozenset()
    level: int = 0

    @property
    def dtype(self) -> str:
        """The value's type, for example ``"float32"``."""
        return self.tensor.dtype


@dataclass(frozen=True)
class Store:
    """An output of the group: written with ``node`` at ``indices``; ``full`` if these walk the reduce axes too."""

    tensor: Tensor
    node: Node
    indices: tuple[Expr, ...]
    full: bool


@dataclass
class Evaluation:
    """The group at a point: nodes in execution order, and the stores."""

    program: Program
    placement: Placement
    nodes: list[Node] = field(default_factory=list)
    stores: list[Store] = field(default_factory=list)

    @property
    def reductions(self) -> list[Node]:
        """The nodes that fold, in execution order."""
        return [n for n in self.nodes if n.kind == "reduce"]

    @property
    def levels(self) -> int:
        """Passes over the reduce axes (and one for what follows the last): softmax has three."""
        return 1 + max((n.level + (n.kind == "reduce") for n in self.nodes), default=0)

    def in_reduce(self, node: Node) -> bool:
        """True if the value changes along the reduce axes (it then is computed inside their loops)."""
        return bool(node.axes & self.placement.reduce_vars)
