"""Strides of a group's boundary accesses along its axes, and the loops that can be collapsed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import tvm
from tvm.ir import Range, Var

from tvm_vfuse.graph.axes import Axis, linear_terms
from tvm_vfuse.graph.indices import INDEX, const_int, equal, flatten, free_vars, index, substitute
from tvm_vfuse.graph.nodes import Evaluation, Node
from tvm_vfuse.graph.stages import Tensor

Expr: TypeAlias = tvm.ir.Expr


@dataclass(frozen=True)
class Access:
    """One boundary access.

    Attributes
    ----------
    axes : the axes its place depends on
    strides : step in elements of its flat position along each of the group's axes, None where an index is read from
        memory along that axis; None as a whole if the access is not affine
    """

    axes: frozenset[Var]
    strides: tuple[Expr | None, ...] | None

    def stride(self, number: int) -> int | None:
        """Constant stride along axis ``number``; None where it is symbolic or unknown."""
        step = None if self.strides is None else self.strides[number]
        return None if step is None else const_int(step)


def accesses(evaluation: Evaluation) -> list[Access]:
    """All loads and stores of the group's boundary tensors."""
    out = [_access(evaluation, n.tensor, n.index, n) for n in evaluation.nodes if n.kind == "load"]
    return out + [_access(evaluation, s.tensor, s.indices, None) for s in evaluation.stores]


def _access(evaluation: Evaluation, tensor: Tensor, idx: Sequence[Expr], node: Node | None) -> Access:
    where = evaluation.placement
    flat = where.analyzer.simplify(flatten(idx, tensor.shape))
    axes = node.axes if node is not None else frozenset(free_vars(flat) & {a.var for a in where.axes})
    terms = linear_terms(flat, where.axes)
    if terms is None:
        return Access(axes, None)
    # An index that is itself loaded is a placeholder here: affine only in the axes that it does not depend on.
    hidden = {v for d in node.deps for v in d.axes} if node is not None else set()
    steps = zip(where.axes, terms[:-1], strict=True)
    return Access(axes, tuple(None if a.var in hidden else where.analyzer.simplify(t) for a, t in steps))


def collapse(evaluation: Evaluation) -> None:
    """Joins neighbouring axes that every access walks as one (in place, on the evaluation).

    Two axes join if they are of one kind, neighbours in the loop order, and the outer stride equals the inner
    stride times the inner extent in every access; so a 4-D addition becomes one long loop.
    """
    while True:
        pair = _find_pair(evaluation)
        if pair is None:
            return
        _join(evaluation, *pair)


def _find_pair(evaluation: Evaluation) -> tuple[Axis, Axis] | None:
    where = evaluation.placement
    found = accesses(evaluation)
    position = {a.var: i for i, a in enumerate(where.axes)}
    frozen = _frozen(evaluation)
    space = {a.var for a in where.space}
    for outer, inner in zip(where.order, where.order[1:], strict=False):
        if (outer.var in space) != (inner.var in space) or outer.var in frozen or inner.var in frozen:
            continue
        kind = where.space if outer.var in space else where.reduce
        if [a.var for a in kind].index(inner.var) != [a.var for a in kind].index(outer.var) + 1:
            continue
        if all(_joins(a, position[outer.var], position[inner.var], inner, evaluation) for a in found):
            return outer, inner
    return None


def _frozen(evaluation: Evaluation) -> set[Var]:
    """Axes that stand in value expressions or guards; they keep loops of their own."""
    used: set[Var] = set()
    for n in evaluation.nodes:
        for e in (*n.exprs, *n.guards):
            used |= free_vars(e)
    return used


def _joins(access: Access, outer: int, inner: int, axis: Axis, evaluation: Evaluation) -> bool:
    where = evaluation.placement
    if access.strides is None:
        return not access.axes & {where.axes[outer].var, where.axes[inner].var}
    a, b = access.strides[outer], access.strides[inner]
    return a is not None and b is not None and equal(a, b * axis.extent, where.analyzer)


def _join(evaluation: Evaluation, outer: Axis, inner: Axis) -> None:
    where = evaluation.placement
    extent = where.analyzer.simplify(outer.extent * inner.extent)
    joined = Axis(Var(f"{outer.var.name}{inner.var.name}", INDEX), extent)
    where.analyzer.bind(joined.var, Range(index(0), extent))
    env = {outer.var: joined.var // inner.extent, inner.var: joined.var % inner.extent}
    gone = {outer.var, inner.var}

    def place(expr: Expr) -> Expr:
        return where.analyzer.simplify(substitute(expr, env)) if free_vars(expr) & gone else expr

    for n in evaluation.nodes:
        n.index = tuple(place(i) for i in n.index)
        if n.axes & gone:
            n.axes = frozenset(n.axes - gone | {joined.var})
    evaluation.stores = [
        type(s)(s.tensor, s.node, tuple(place(i) for i in s.indices), s.full) for s in evaluation.stores
    ]
    swap = lambda axes: tuple(joined if a is outer else a for a in axes if a is not inner)  # noqa: E731
    where.space, where.reduce, where.order = swap(where.space), swap(where.reduce), swap(where.order)
