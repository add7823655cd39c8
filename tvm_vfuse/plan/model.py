"""A fusion plan: the partition of a region's operators into groups."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass

from tvm_vfuse.errors import InternalError
from tvm_vfuse.graph.model import Graph
from tvm_vfuse.legality.verdict import Facts


@dataclass(frozen=True)
class Group:
    """Operators that become one kernel.

    Attributes
    ----------
    members : operators this group owns, sorted
    clones : cheap operators of other groups that are computed again here, sorted
    """

    members: tuple[int, ...]
    clones: tuple[int, ...] = ()
    facts: Facts | None = None
    predicted_us: float | None = None

    @property
    def all_members(self) -> tuple[int, ...]:
        """Indices of all operators that the kernel computes, clones included, sorted."""
        return tuple(sorted({*self.members, *self.clones}))


@dataclass(frozen=True)
class Refusal:
    """A data edge that is no fusion, and why."""

    producer: int
    consumer: int
    reason: str
    detail: str
    slack: str = ""


@dataclass(frozen=True)
class FusionPlan:
    """Groups in an order in which they can run, and the refused edges.

    Invariant (:meth:`verify`): the groups' members are a partition of the operators; groups are convex.
    """

    graph: Graph
    groups: tuple[Group, ...]
    refused: tuple[Refusal, ...] = ()

    def verify(self) -> None:
        """Check the invariant.

        Raises
        ------
        InternalError
            With the operator or group that breaks it.
        """
        owner: dict[int, int] = {}
        for number, g in enumerate(self.groups):
            for i in g.members:
                if i in owner:
                    raise InternalError(f"operator {i} is in groups {owner[i]} and {number} of the plan")
                owner[i] = number
        missing = [o.index for o in self.graph.operators if o.index not in owner]
        if missing:
            raise InternalError(f"operators {missing} are in no group of the plan")
        for number, g in enumerate(self.groups):
            for i in g.all_members:
                for p in self.graph.predecessors(i):
                    if p not in g.all_members and owner[p] >= number:
                        raise InternalError(f"group {number} needs operator {p} of group {owner[p]}, which runs later")

    def kept_values(self) -> frozenset[int]:
        """Values that some group reads without making them itself, or that leave the region: what kernels write."""
        kept = {v.index for v in self.graph.values if v.live_out}
        for g in self.groups:
            inside = set(g.all_members)
            read = (v for i in inside for v in self.graph.operators[i].inputs)
            kept |= {v for v in read if self.graph.values[v].producer not in inside}
        return frozenset(kept)

    def first(self, count: int) -> tuple[FusionPlan, int]:
        """The plan with only its first ``count`` fusions, and how many of the allowance are left."""
        out: list[Group] = []
        for g in self.groups:
            if len(g.all_members) == 1 or (count > 0 and not g.clones):
                count -= len(g.all_members) > 1
                out.append(g)
            else:
                out.extend(Group((i,)) for i in g.members)
        plan = FusionPlan(self.graph, in_run_order(self.graph, out), self.refused)
        plan.verify()
        return plan, count

    def text(self) -> str:
        """The plan as text, the same in every process."""
        lines = []
        for number, g in enumerate(self.groups):
            names = [self.graph.operators[i].name for i in g.members]
            clones = [self.graph.operators[i].name for i in g.clones]
            lines.append(f"{number}: {' '.join(names)}" + (f" again: {' '.join(clones)}" if clones else ""))
        return "\n".join(lines)


def in_run_order(graph: Graph, groups: Iterable[Group]) -> tuple[Group, ...]:
    """Sort convex groups so that each comes after those it needs; ties by the smallest member."""
    pending = sorted(groups, key=lambda g: g.members[0])
    owner = {i: n for n, g in enumerate(pending) for i in g.members}
    needs: list[set[int]] = []
    users: list[list[int]] = [[] for _ in pending]
    for n, g in enumerate(pending):
        inside = set(g.all_members)
        mine = {owner[p] for i in inside for p in graph.predecessors(i) if p not in inside} - {n}
        needs.append(mine)
        for m in mine:
            users[m].append(n)
    ready = [n for n, need in enumerate(needs) if not need]
    heapq.heapify(ready)
    out: list[Group] = []
    while ready:
        n = heapq.heappop(ready)
        out.append(pending[n])
        for u in users[n]:
            needs[u].discard(n)
            if not needs[u]:
                heapq.heappush(ready, u)
    if len(out) != len(pending):
        raise InternalError("the groups of the plan need each other in a circle")
    return tuple(out)
