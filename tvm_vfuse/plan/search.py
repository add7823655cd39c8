"""Joins groups greedily by predicted gain until none is left: the partition with the least predicted time we find.

Candidates are data edges and siblings (readers of one tensor). The one that saves the most is joined first, ties by
the smallest operators, so that the same graph always gives the same plan. A refused or unprofitable candidate stays
as the reason of its edge.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from tvm_vfuse.graph.model import Graph
from tvm_vfuse.legality.candidate import Candidate
from tvm_vfuse.legality.rules import RULES, Rule, judge
from tvm_vfuse.legality.verdict import Facts, Oracle, Verdict
from tvm_vfuse.options import FusionOptions
from tvm_vfuse.plan.model import FusionPlan, Group, Refusal, in_run_order
from tvm_vfuse.plan.partition import Partition
from tvm_vfuse.plan.pricing import Pricing
from tvm_vfuse.plan.recompute import clone_cheap_producers
from tvm_vfuse.resource.time_model import Machine

RULE_MODE_KINDS = ("elementwise", "reduction-prologue", "contraction-epilogue", "sibling")
TOLERANCE_US = 1e-6


class Search:
    """One search over one graph."""

    def __init__(
        self, graph: Graph, oracle: Oracle, machine: Machine, options: FusionOptions, rules: Sequence[Rule] = RULES
    ) -> None:
        self.graph, self.oracle, self.options, self.rules = graph, oracle, options, rules
        self.price = Pricing(graph, machine)
        self.state = Partition.of(graph)
        self.heap: list[tuple[float, int, int, int, int]] = []
        self.stamp: dict[int, int] = dict.fromkeys(self.state.members, 0)
        self.judged: dict[tuple[tuple[int, ...], tuple[int, ...], int | None], Verdict] = {}
        self.times: dict[tuple[int, ...], float] = {}

    # ------------------------------------------------------------------ candidates
    def candidate(self, a: int, b: int) -> Candidate:
        """Groups ``a`` and ``b``, the one that the other needs first."""
        first, second = sorted((a, b), key=lambda g: self.state.members[g][0])
        if first in self.state.after[second]:
            first, second = second, first
        members = self.state.members
        return Candidate(self.graph, members[first], members[second], self.state.bypass(a, b))

    def judge(self, candidate: Candidate) -> Verdict:
        """What the options refuse, else what the rules say (asked once for each candidate)."""
        limit = self.options.max_group_size
        if candidate.kind in self.options.never:
            return Verdict("never", f"fusions of kind {candidate.kind} are switched off", "drop it from --never")
        if limit is not None and len(candidate.members) > limit:
            return Verdict(
                "max-group-size", f"{len(candidate.members)} operators, the limit is {limit}", "raise --max-group-size"
            )
        if self.options.mode == "rules" and candidate.kind not in RULE_MODE_KINDS:
            return Verdict(
                "no-template", f"the rule-based mode has no template for a {candidate.kind}", "use the searching mode"
            )
        key = (candidate.first, candidate.second, candidate.bypass)
        if key not in self.judged:
            self.judged[key] = judge(candidate, self.oracle, self.rules)
        return self.judged[key]

    def gain_us(self, candidate: Candidate, facts: Facts | None) -> float:
        """Predicted time that the fusion saves."""
        apart = self.time_us(candidate.first) + self.time_us(candidate.second)
        return apart - self.price.time_us(candidate.members, facts)

    def time_us(self, members: tuple[int, ...]) -> float:
        """Predicted time in us of an existing group, from its facts unless it is surely one plain loop."""
        if members not in self.times:
            facts = self.state.facts.get(self.state.owner[members[0]])
            if facts is None and not all(self.graph.operators[i].pointwise for i in members):
                facts = self.oracle(members, ()).facts
            self.times[members] = self.price.time_us(members, facts)
        return self.times[members]

    def push(self, a: int, b: int) -> None:
        """Queue a pair by its gain, as far as that is known without an evaluation: recompute is left out."""
        if a == b:
            return
        a, b = min(a, b), max(a, b)
        first, second = self.state.members[a], self.state.members[b]
        apart = self.time_us(first) + self.time_us(second)
        gain = apart - self.price.time_us(tuple(sorted((*first, *second))))
        heapq.heappush(self.heap, (-gain, a, b, self.stamp[a], self.stamp[b]))

    def neighbours(self, group: int) -> list[int]:
        """Groups joined to ``group`` by a data edge, or the next reader of one of its inputs."""
        found: set[int] = set()
        for i in self.state.members[group]:
            op = self.graph.operators[i]
            for v in op.inputs:
                producer = self.graph.values[v].producer
                if producer is not None:
                    found.add(self.state.owner[producer])
                if not self.graph.values[v].constant:
                    readers = self.graph.consumers[v]
                    at = readers.index(i)
                    found.update(self.state.owner[r] for r in readers[max(0, at - 1) : at + 2])
            for v in op.outputs:
                found.update(self.state.owner[c] for c in self.graph.consumers[v])
        found.discard(group)
        return sorted(g for g in found if self.is_kernel(g))

    def is_kernel(self, group: int) -> bool:
        """True unless the group is an operator that can be no part of a kernel."""
        return self.graph.operators[self.state.members[group][0]].kind == "kernel"

    # ------------------------------------------------------------------ search
    def run(self) -> list[Group]:
        """Join the best pair until no legal one pays; the groups by their smallest operator."""
        for g in list(self.state.members):
            if self.is_kernel(g):
                for n in self.neighbours(g):
                    if n > g:
                        self.push(g, n)
        while self.heap:
            promised, a, b, at_a, at_b = heapq.heappop(self.heap)
            if self.stamp.get(a) != at_a or self.stamp.get(b) != at_b:
                continue
            candidate = self.candidate(a, b)
            verdict = self.judge(candidate)
            if not verdict.legal or not self.pays(candidate, verdict):
                continue
            gain = self.gain_us(candidate, verdict.facts)
            if gain < -promised - TOLERANCE_US:  # recompute was not in the first estimate: wait for its turn
                heapq.heappush(self.heap, (-gain, a, b, at_a, at_b))
                continue
            keep = self.state.join(a, b, verdict.facts)
            self.stamp[keep] += 1
            self.stamp.pop(max(a, b))
            for n in self.neighbours(keep):
                self.push(keep, n)
        return [Group(m, (), self.state.facts.get(g)) for g, m in sorted(self.state.members.items())]

    def pays(self, candidate: Candidate, verdict: Verdict) -> bool:
        """True if a legal fusion saves predicted time, or is forced."""
        if candidate.kind in self.options.always or self.options.mode == "rules":
            return True
        return self.gain_us(candidate, verdict.facts) > 0

    def refusals(self) -> list[Refusal]:
        """A reason for every data edge between kernels of different groups."""
        out = []
        for v in self.graph.values:
            if v.producer is None:
                continue
            a = self.state.owner[v.producer]
            for c in self.graph.consumers[v.index]:
                b = self.state.owner[c]
                if a == b:
                    continue
                candidate = self.candidate(a, b)
                verdict = self.judge(candidate)
                if verdict.legal:
                    loss = -self.gain_us(candidate, verdict.facts)
                    verdict = Verdict(
                        "does-not-pay",
                        f"one kernel is predicted to be {loss:.2f} us slower than two",
                        f"--always {candidate.kind}",
                    )
                out.append(Refusal(v.producer, c, verdict.reason, verdict.detail, verdict.slack))
        return out


def _with_facts(group: Group, run: Search) -> Group:
    """The group with what its evaluation learnt and its predicted time."""
    if run.graph.operators[group.members[0]].kind != "kernel":
        return group
    facts = group.facts or run.oracle(group.members, group.clones).facts
    return Group(group.members, group.clones, facts, run.price.time_us(group.members, facts, group.clones))


def search(
    graph: Graph, oracle: Oracle, machine: Machine, options: FusionOptions, rules: Sequence[Rule] = RULES
) -> FusionPlan:
    """Partition ``graph`` into legal groups of least predicted time.

    Parameters
    ----------
    oracle : evaluates a set of operators as one kernel
    machine : the time model's device
    options : forced and forbidden kinds, group size, mode
    rules : the legality rules (all of them; tests leave one out)
    """
    run = Search(graph, oracle, machine, options, rules)
    groups = run.run()
    refused = run.refusals()
    if "recompute" not in options.never and options.mode == "search":
        groups = clone_cheap_producers(graph, groups, run.price, oracle, options)
    groups = [_with_facts(g, run) for g in groups]
    plan = FusionPlan(graph, in_run_order(graph, groups), tuple(refused))
    plan.verify()
    return plan
