"""The greedy plan against the best of all partitions, on graphs of up to seven operators."""

from __future__ import annotations

import statistics

import pytest

from tests.plan.graphs import MACHINE, is_connected, is_convex, joined, partitions, quarrelling, random_graph
from tvm_vfuse.errors import InternalError
from tvm_vfuse.legality.candidate import Candidate
from tvm_vfuse.legality.rules import judge
from tvm_vfuse.options import FusionOptions
from tvm_vfuse.plan.model import Group, in_run_order
from tvm_vfuse.plan.search import Pricing, search

MOST_OPERATORS = 7
GRAPHS = 200
NO_RECOMPUTE = FusionOptions(never=("recompute",))


def best_time(graph, oracle):
    """Least predicted time over all partitions into connected, convex, legal groups that can run in some order."""
    price, known = Pricing(graph, MACHINE), {}

    def cost(members):
        if members not in known:
            known[members] = one_cost(members)
        return known[members]

    def one_cost(members):
        first = graph.operators[members[0]]
        if len(members) == 1:
            facts = None if first.pointwise else oracle(members).facts
            return price.time_us(members, facts) if first.kind == "kernel" else 0.0
        if not is_connected(members, lambda a, b: joined(graph, a, b)) or not is_convex(graph, members):
            return None
        verdict = judge(Candidate(graph, members[:1], members[1:]), oracle)
        return price.time_us(members, verdict.facts) if verdict.legal else None

    best = float("inf")
    for partition in partitions(range(len(graph.operators))):
        groups = [tuple(sorted(m)) for m in partition]
        costs = [cost(g) for g in groups]
        if None in costs or sum(costs) >= best:
            continue
        try:
            in_run_order(graph, [Group(g) for g in groups])
        except InternalError:
            continue
        best = sum(costs)
    return best


# Measured: mean 0.15 %, 0.40 %, 0.21 %; worst 31 %, 31 %, 24 %; the best plan in 197, 190 and 179 of 200.
@pytest.mark.parametrize(
    ("hostile_share", "mean_bound", "worst_bound"), [(0.0, 0.005, 0.5), (0.1, 0.01, 0.5), (0.3, 0.01, 0.5)]
)
def test_the_greedy_plan_is_near_the_best_one(hostile_share, mean_bound, worst_bound):
    regrets = []
    for seed in range(GRAPHS):
        graph = random_graph(seed, MOST_OPERATORS)
        oracle = quarrelling(graph, seed, hostile_share)
        plan = search(graph, oracle, MACHINE, NO_RECOMPUTE)
        time, best = sum(g.predicted_us or 0.0 for g in plan.groups), best_time(graph, oracle)
        assert time >= best - 1e-6, "greedy found a plan that the brute force does not know"
        regrets.append(time / best - 1 if best else 0.0)
    mean, worst = statistics.mean(regrets), max(regrets)
    print(
        f"{hostile_share:.0%} of the pairs refused: regret {mean:.2%}, worst {worst:.1%}, none in {regrets.count(0.0)}"
    )
    assert mean <= mean_bound
    assert worst <= worst_bound
