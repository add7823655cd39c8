"""Kernels as *stages*: one store over an iteration domain. A softmax is three or four stages, an addition one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import tvm
import tvm_ffi
from tvm.ir import TensorLoad, Var

Expr: TypeAlias = tvm.ir.Expr


@dataclass(frozen=True)
class Tensor:
    """A tensor of a group: an input, an intermediate or an output (identity is ``key``)."""

    key: int
    name: str
    shape: tuple[Expr, ...]
    dtype: str


@dataclass(frozen=True, eq=False)
class Joint:
    """Reductions that need each other's accumulators (argmax: the index and the maximum).

    ``fold(accumulators, elements)`` gives the new accumulators; it also joins two partial results.
    """

    outputs: tuple[Tensor, ...]
    elements: tuple[Expr, ...]
    inits: tuple[Expr, ...]
    fold: Callable[[list[Expr], list[Expr]], list[Expr]]


@dataclass(frozen=True, eq=False)
class Stage:
    """One block: ``output[indices] = value`` for every point of ``spatial`` x ``reduce``.

    Attributes
    ----------
    reads : mapping from the buffer variables in ``value`` to tensors of the group
    combine : None for an injective stage; else ``f(accumulator, element)``
    element : for a reduction the expression that is folded, else the stored value
    init : first value of the accumulator
    member : index of the operator (in the group's order) the stage belongs to
    joint : what the stage is a component of, or None
    """

    name: str
    output: Tensor
    indices: tuple[Expr, ...]
    element: Expr
    spatial: tuple[tuple[Var, Expr], ...]
    reduce: tuple[tuple[Var, Expr], ...] = ()
    combine: Callable[[Expr, Expr], Expr] | None = None
    init: Expr | None = None
    reads: Mapping[Var, Tensor] = field(default_factory=dict)
    member: int = 0
    joint: Joint | None = None

    @property
    def inits(self) -> tuple[Expr, ...]:
        """First values of all accumulators that are folded together."""
        return self.joint.inits if self.joint is not None else () if self.init is None else (self.init,)

    def fold(self, accumulators: list[Expr], elements: list[Expr]) -> list[Expr]:
        """New accumulators after ``elements``."""
        if self.joint is not None:
            return self.joint.fold(accumulators, elements)
        assert self.combine is not None
        return [self.combine(accumulators[0], elements[0])]


@dataclass(frozen=True)
class Kernel:
    """The stages of one PrimFunc, its parameters in order, and which of them it writes."""

    params: tuple[Var, ...]
    stages: tuple[Stage, ...]
    tensors: Mapping[Var, Tensor]
    outputs: tuple[Tensor, ...]
    inputs: tuple[Tensor, ...]
    scalars: tuple[Var, ...]

    @property
    def parameters(self) -> tuple[Tensor, ...]:
        """The tensors among the parameters, in order."""
        return tuple(self.tensors[p] for p in self.params if p in self.tensors)


def loads_of(stage: Stage) -> list[TensorLoad]:
    """The loads in the stage's element, in the order in which they stand there."""
    found: list[TensorLoad] = []
    tvm_ffi.structural_walk(stage.element, [(TensorLoad, found.append)], order="post")
    return [load for load in found if load.source in stage.reads]
