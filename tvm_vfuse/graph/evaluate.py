"""Evaluates a group at one symbolic point of its axes: the single source of legality, traffic and code.

Every tensor element that the group's outputs need at the point becomes a :class:`Node`. The same element (same
tensor, same place) is one node, so a diamond is evaluated once; the same tensor at another place is another node,
whose price shows how often a producer would be computed again (see :mod:`tvm_vfuse.graph.repeats`).
"""

from __future__ import annotations

from tvm_vfuse.errors import Reject
from tvm_vfuse.graph.compose import Program
from tvm_vfuse.graph.indices import const_int, free_vars
from tvm_vfuse.graph.nodes import Evaluation, Store
from tvm_vfuse.graph.placement import place
from tvm_vfuse.graph.point import Point
from tvm_vfuse.graph.repeats import check_repeats


def evaluate(program: Program) -> Evaluation:
    """Place the group's tensors and evaluate all outputs.

    Raises
    ------
    Reject
        Where the group can't be one kernel: no shared axes, a reduction read by another row, an expensive
        producer computed again.
    """
    if any(const_int(d) == 0 for s in program.stages for d in s.output.shape):
        raise Reject("zero-size", "a tensor of the group has no elements")
    where = place(program)
    point = Point(program, where)
    out = Evaluation(program, where)
    for tensor in program.outputs:
        indices = where.places[tensor.key]
        node = point.demand(tensor, indices, (), None)
        full = any(free_vars(i) & where.reduce_vars for i in indices)
        out.stores.append(Store(tensor, node, indices, full))
    point.settle()
    out.nodes = point.in_order([s.node for s in out.stores])
    check_repeats(out)
    return out
