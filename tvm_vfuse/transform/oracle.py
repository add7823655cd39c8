"""Answers the planner's question "can these operators be one kernel?" by evaluating them."""

from __future__ import annotations

import math

from tvm_vfuse.device import CpuDevice
from tvm_vfuse.errors import Reject
from tvm_vfuse.graph.axes import Axis
from tvm_vfuse.graph.cost import element_cost
from tvm_vfuse.graph.indices import const_int
from tvm_vfuse.graph.nodes import Evaluation, Node
from tvm_vfuse.graph.region import Region
from tvm_vfuse.graph.repeats import is_injective, loop_axes
from tvm_vfuse.legality.verdict import Facts, Verdict
from tvm_vfuse.schedule.cpu import CpuPlan, plan_cpu

UNKNOWN_EXTENT = 1024

Refused = dict[tuple[tuple[int, ...], tuple[int, ...]], Verdict]


class EvaluationOracle:
    """Evaluates sets of a region's operators; remembers every answer.

    ``cuts`` holds sets that were found unbuildable after planning; they are refused from then on.
    """

    def __init__(self, region: Region, device: CpuDevice, cuts: Refused) -> None:
        self.region, self.device = region, device
        self.answers: Refused = dict(cuts)

    def __call__(self, members: tuple[int, ...], clones: tuple[int, ...] = ()) -> Verdict:
        key = (members, clones)
        if key not in self.answers:
            self.answers[key] = self.ask(members, clones)
        return self.answers[key]

    def ask(self, members: tuple[int, ...], clones: tuple[int, ...]) -> Verdict:
        try:
            plan = plan_cpu(self.region.program(members, clones), self.device)
        except Reject as why:
            return Verdict(why.reason, why.detail)
        return Verdict(facts=facts_of(plan))


def facts_of(plan: CpuPlan) -> Facts:
    """What the plan of a kernel tells the planner and the report."""
    evaluation = plan.evaluation
    where = evaluation.placement
    outputs = {s.tensor.key for s in evaluation.stores}
    scopes = {
        n.tensor.name: "global" if id(n) in plan.scratch else "register"
        for n in evaluation.nodes
        if n.kind != "load" and n.tensor.key not in outputs
    }
    kept = sum(_bytes(n) * _points((*where.reduce, plan.loops.lane)) for n in evaluation.nodes if id(n) in plan.scratch)
    return Facts(
        template=plan.template,
        block_axes=tuple(str(a.size if a.size is not None else a.extent) for a in where.space),
        scopes=dict(sorted(scopes.items())),
        vector_ops=_operations(evaluation),
        in_kernel_bytes=int(kept),
    )


def _points(axes: tuple[Axis, ...]) -> int:
    return math.prod(UNKNOWN_EXTENT if a.size is None else a.size for a in dict.fromkeys(axes))


def _bytes(node: Node) -> int:
    digits = "".join(c for c in node.dtype if c.isdigit())
    return max(1, int(digits or 8) // 8)


def _operations(evaluation: Evaluation) -> float:
    total = 0.0
    for n in evaluation.nodes:
        if n.stage is None or n.kind == "part":
            continue
        points = _points(loop_axes(evaluation, n))
        if n.guards and is_injective(evaluation, n):  # the guards part the elements among the nodes
            points = min(points, _numel(n))
        total += element_cost(n.stage).vector_ops * points
    return total


def _numel(node: Node) -> int:
    return math.prod(const_int(d) or UNKNOWN_EXTENT for d in node.tensor.shape)
