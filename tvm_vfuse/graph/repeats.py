"""How often a kernel evaluates each value, and the refusal to repeat what is expensive."""

from __future__ import annotations

from typing import TypeAlias

import tvm
from tvm import tirx
from tvm.ir import Var

from tvm_vfuse.errors import Reject
from tvm_vfuse.graph.axes import Axis, linear_terms
from tvm_vfuse.graph.cost import element_cost
from tvm_vfuse.graph.indices import const_int, equal, free_vars, product
from tvm_vfuse.graph.nodes import Evaluation, Node

Expr: TypeAlias = tvm.ir.Expr
MOST_REPEATS = 1.02  # evaluations an element of an expensive stage: the edges of a window may overlap


def loop_axes(evaluation: Evaluation, node: Node) -> tuple[Axis, ...]:
    """The loops around ``node``: the space axes, and the reduce axes if its value changes along them."""
    where = evaluation.placement
    if node.kind == "reduce" or evaluation.in_reduce(node):
        return where.axes
    if not where.reduce and where.space and where.space[-1].var not in node.axes:
        return where.space[:-1]  # elementwise groups hoist what does not change along the innermost axis
    return where.space


def loop_points(evaluation: Evaluation, node: Node) -> Expr:
    """How often the kernel evaluates ``node``."""
    return evaluation.placement.analyzer.simplify(product([a.extent for a in loop_axes(evaluation, node)]))


def check_repeats(evaluation: Evaluation) -> None:
    """Refuse to evaluate an expensive stage more often than it has elements.

    Raises
    ------
    Reject
        ``expensive-recompute``.
    """
    a = evaluation.placement.analyzer
    by_stage: dict[int, list[Node]] = {}
    for n in evaluation.nodes:
        if n.kind == "compute" and n.stage is not None and element_cost(n.stage).expensive:
            by_stage.setdefault(id(n.stage), []).append(n)
    for nodes in by_stage.values():
        stage = nodes[0].stage
        assert stage is not None
        numel = a.simplify(product(stage.output.shape))
        if all(n.guards and is_injective(evaluation, n) for n in nodes):
            continue  # the guards part the elements among the nodes
        total = a.simplify(sum((loop_points(evaluation, n) for n in nodes[1:]), loop_points(evaluation, nodes[0])))
        if equal(total, numel, a):
            continue
        times, elements = const_int(total), const_int(numel)
        if times is not None and elements is not None and times <= elements * MOST_REPEATS:
            continue
        if (times is None or elements is None) and a.can_prove(tirx.LE(total, numel)):
            continue
        raise Reject(
            "expensive-recompute",
            f"{stage.name} ({element_cost(stage).expensive} expensive operations) has {numel} elements and would be "
            f"evaluated {total} times",
            stage.member,
        )


def is_injective(evaluation: Evaluation, node: Node) -> bool:
    """True if different points of the group's axes surely need different elements of the node's tensor."""
    axes = [a for a in evaluation.placement.axes if a.size != 1]
    seen: set[Var] = set()
    for i in node.index:
        here = [a for a in axes if a.var in free_vars(i)]
        terms = linear_terms(i, here) if here else []
        if terms is None or any(a.var in seen for a in here):
            return False
        seen |= {a.var for a in here}
        reach = 0  # what the axes with smaller strides span
        for stride, a in sorted(
            ((abs(const_int(t) or 0), a) for t, a in zip(terms, here, strict=False)), key=lambda x: x[0]
        ):
            if stride <= reach or (a.size is None and len(here) > 1):
                return False
            reach += stride * ((a.size or 2) - 1)
    return len(seen) == len(axes)
