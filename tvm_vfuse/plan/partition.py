"""A partition of a graph's operators that the search coarsens step by step."""

from __future__ import annotations

from dataclasses import dataclass, field

from tvm_vfuse.graph.model import Graph
from tvm_vfuse.legality.verdict import Facts


@dataclass
class Partition:
    """Groups by number; joined ones are gone from ``members``.

    Attributes
    ----------
    members : the operators of each group, sorted
    owner : the group of each operator
    before, after : the groups that each group needs at first hand, and that need it
    facts : what the evaluation of a joined group learnt
    """

    members: dict[int, tuple[int, ...]]
    owner: list[int]
    before: dict[int, set[int]]
    after: dict[int, set[int]]
    facts: dict[int, Facts | None] = field(default_factory=dict)

    @staticmethod
    def of(graph: Graph) -> Partition:
        """Every operator alone, numbered as it is."""
        numbers = [o.index for o in graph.operators]
        return Partition(
            members={i: (i,) for i in numbers},
            owner=numbers,
            before={i: set(graph.predecessors(i)) for i in numbers},
            after={i: set(s) for i, s in enumerate(graph.successors())},
        )

    def bypass(self, a: int, b: int) -> int | None:
        """An operator of a third group on a path from ``a`` to ``b`` or back, or None."""
        for start, goal in ((a, b), (b, a)):
            limit = self.members[goal][-1]
            stack = [g for g in sorted(self.after[start], reverse=True) if g != goal]
            seen = set(stack)
            while stack:
                g = stack.pop()
                if goal in self.after[g]:
                    return self.members[g][0]
                for n in sorted(self.after[g], reverse=True):
                    if n not in seen and n != start and self.members[n][0] <= limit:
                        seen.add(n)
                        stack.append(n)
        return None

    def join(self, a: int, b: int, facts: Facts | None) -> int:
        """One group out of two; keeps the smaller number."""
        keep, gone = min(a, b), max(a, b)
        self.members[keep] = tuple(sorted((*self.members[a], *self.members.pop(gone))))
        for i in self.members[keep]:
            self.owner[i] = keep
        for mine, theirs in ((self.before, self.after), (self.after, self.before)):
            for g in mine.pop(gone):
                theirs[g].discard(gone)
                if g != keep:
                    mine[keep].add(g)
                    theirs[g].add(keep)
            mine[keep].discard(gone)
        self.facts[keep] = facts
        self.facts.pop(gone, None)
        return keep
