"""One binding block of a Relax function: its graph, and what is needed to build groups from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import tvm
from tvm import relax
from tvm.ir import Var

from tvm_vfuse.graph.compose import Member, Program, compose
from tvm_vfuse.graph.model import Graph
from tvm_vfuse.graph.stages import Kernel, Tensor

Expr: TypeAlias = tvm.ir.Expr


@dataclass(frozen=True)
class Region:
    """A graph with the Relax and kernel side of its operators and values.

    Attributes
    ----------
    bindings : for each operator its binding
    kernels, arguments, scalars : for each kernel operator (by index) its stages, the values and the scalars it is
        called with
    tensors, expressions : for each value (by index) the tensor it is to kernels, the expression it is to Relax
    aliases : variables that are bound to other variables, fields or tuples, with what they stand for
    """

    graph: Graph
    bindings: list[relax.Binding]
    kernels: dict[int, Kernel]
    arguments: dict[int, tuple[int, ...]]
    scalars: dict[int, tuple[Expr, ...]]
    tensors: dict[int, Tensor]
    expressions: dict[int, Expr]
    aliases: dict[Var, Expr]

    def program(self, members: Sequence[int], clones: Sequence[int] = ()) -> Program:
        """The members' stages as one program; ``clones`` are computed here but written elsewhere.

        Raises
        ------
        Reject
            If their shapes do not fit together.
        """
        parts = []
        for i in sorted({*members, *clones}):
            args = [self.tensors[v] for v in (*self.arguments[i], *self.graph.operators[i].outputs)]
            parts.append(Member(self.kernels[i], tuple(args), self.scalars[i]))
        return compose(parts, [self.tensors[v] for v in self.graph.outputs_of(members)])
