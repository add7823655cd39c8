"""Answers the planner's question "can these operators be one kernel?" by evaluating them."""

from __future__ import annotations

from tvm_vfuse.device import CpuDevice
from tvm_vfuse.errors import Reject
from tvm_vfuse.graph.cost import element_cost
from tvm_vfuse.graph.nodes import Evaluation
from tvm_vfuse.graph.region import Region
from tvm_vfuse.graph.repeats import is_injective, loop_axes
from tvm_vfuse.graph.sizes import assumed_points, dtype_bytes
from tvm_vfuse.legality.verdict import Facts, Refused, Verdict
from tvm_vfuse.schedule.cpu import CpuPlan, plan_cpu


class EvaluationOracle:
    """Evaluates sets of a region's operators; remembers every answer.

    ``cuts`` holds sets that were found unbuildable after planning; they are refused from then on.
    """

    def __init__(self, region: Region, device: CpuDevice, cuts: Refused) -> None:
        self.region, self.device, self.cuts = region, device, cuts
        self.answers = dict(cuts)

    def __call__(self, members: tuple[int, ...], clones: tuple[int, ...] = ()) -> Verdict:
        """Facts of ``members`` as one kernel that also computes ``clones`` (written elsewhere), or a refusal."""
        key = (members, clones)
        if key not in self.answers:
            self.answers[key] = self._ask(members, clones)
        return self.answers[key]

    def _ask(self, members: tuple[int, ...], clones: tuple[int, ...]) -> Verdict:
        try:
            plan = plan_cpu(self.region.program(members, clones), self.device)
        except Reject as why:
            return Verdict(why.reason, why.detail)
        return Verdict(facts=facts_of(plan))


def facts_of(plan: CpuPlan) -> Facts:
    """What the plan of a kernel tells the planner and the report."""
    evaluation = plan.evaluation
    where = evaluation.placement
    outputs, scratch = {s.tensor.key for s in evaluation.stores}, plan.scratch
    scopes = {
        n.tensor.name: "global" if id(n) in scratch else "register"
        for n in evaluation.nodes
        if n.kind != "load" and n.tensor.key not in outputs
    }
    row = assumed_points(a.extent for a in dict.fromkeys((*where.reduce, plan.loops.lane)))
    return Facts(
        template=plan.template,
        block_axes=tuple(str(a.size if a.size is not None else a.extent) for a in where.space),
        scopes=dict(sorted(scopes.items())),
        vector_ops=_operations(evaluation),
        in_kernel_bytes=row * sum(dtype_bytes(n.dtype) for n in evaluation.nodes if id(n) in scratch),
    )


# Operations an element that a guard costs: about two cycles for each block of 16 lanes, and for each point of a
# window in it; outside of windows neighbouring values share the branch.
GUARD_OPS, GUARD_OPS_IN_WINDOW = 0.25, 1.0


def _operations(evaluation: Evaluation) -> float:
    """Weighted operations of one run, what is computed again included."""
    total = 0.0
    for n in evaluation.nodes:
        points = assumed_points(a.extent for a in loop_axes(evaluation, n))
        if n.guards:  # a branch for each block of lanes, whether or not the value is needed there
            total += points * (GUARD_OPS_IN_WINDOW if evaluation.in_reduce(n) else GUARD_OPS)
        if n.stage is None or n.kind == "part":
            continue
        if n.guards and is_injective(evaluation, n):  # the guards part the elements among the nodes
            points = min(points, assumed_points(n.tensor.shape))
        total += element_cost(n.stage).vector_ops * points
    return total
