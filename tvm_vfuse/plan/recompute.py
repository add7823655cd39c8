"""Computes a cheap producer again inside each of its readers, where that saves its way through memory."""

from __future__ import annotations

from collections.abc import Sequence

from tvm_vfuse.graph.model import Graph
from tvm_vfuse.legality.candidate import Candidate
from tvm_vfuse.legality.rules import shapes_are_nonempty
from tvm_vfuse.legality.verdict import Oracle
from tvm_vfuse.options import FusionOptions
from tvm_vfuse.plan.model import Group
from tvm_vfuse.plan.pricing import Pricing

MAX_OPS_PER_ELEMENT = 4.0  # vector operations an element that count as cheap


def clone_cheap_producers(
    graph: Graph, groups: Sequence[Group], price: Pricing, oracle: Oracle, options: FusionOptions
) -> list[Group]:
    """Drop groups of cheap elementwise operators whose every reader can compute them again.

    All readers or none (as XLA does): a producer that must be written anyway costs nothing to read. The dropped
    group stays in the plan as an owner without a kernel: its members are clones everywhere else.
    """
    groups = list(groups)
    owner = {i: n for n, g in enumerate(groups) for i in g.members}
    for number in range(len(groups)):
        g = groups[number]
        if not _is_cheap(graph, g):
            continue
        outputs = graph.outputs_of(g.members)
        readers = sorted({owner[c] for v in outputs for c in graph.consumers[v]})
        if not readers or any(graph.operators[groups[r].members[0]].kind != "kernel" for r in readers):
            continue
        done: dict[int, Group] = {}
        gain = _time_us(price, g)
        for r in readers:
            both = {*groups[r].all_members, *g.members}
            if options.max_group_size is not None and len(both) > options.max_group_size:
                break
            clones = tuple(sorted({*groups[r].clones, *g.members}))
            if not _may_move(graph, g, groups[r], oracle):
                break
            verdict = oracle(groups[r].members, clones)
            if not verdict.legal:
                break
            done[r] = Group(groups[r].members, clones, verdict.facts)
            gain += _time_us(price, groups[r]) - _time_us(price, done[r])
        if len(done) == len(readers) and gain > 0:
            for r, changed in done.items():
                groups[r] = changed
    return groups


def _may_move(graph: Graph, group: Group, reader: Group, oracle: Oracle) -> bool:
    """Whether what ``group`` reads is still there when ``reader`` runs, and all their tensors have elements.

    An in-place call between them may have overwritten it, and nothing moves across a barrier.
    """
    between = graph.operators[group.members[0] : reader.members[-1]]
    candidate = Candidate(graph, group.members, reader.all_members)
    return not any(o.kind == "barrier" for o in between) and shapes_are_nonempty(candidate, oracle).legal


def _time_us(price: Pricing, group: Group) -> float:
    return price.time_us(group.members, group.facts, group.clones)


def _is_cheap(graph: Graph, group: Group) -> bool:
    ops = [graph.operators[i] for i in group.members]
    if group.clones or any(o.kind != "kernel" or o.reductions or o.expensive for o in ops):
        return False
    if any(graph.values[v].live_out for o in ops for v in o.outputs):
        return False
    elements = sum(graph.values[v].num_bytes for o in ops for v in o.outputs) / 4
    return sum(o.vector_ops for o in ops) <= MAX_OPS_PER_ELEMENT * max(elements, 1)
