"""What the user decided about the plan: groups given by hand, kinds forced or switched off."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence

from tvm_vfuse.errors import InputError
from tvm_vfuse.graph.model import Graph
from tvm_vfuse.legality.candidate import KINDS, Candidate
from tvm_vfuse.legality.rules import judge
from tvm_vfuse.legality.verdict import Facts, Oracle
from tvm_vfuse.options import FusionOptions
from tvm_vfuse.plan.model import FusionPlan, Group, in_run_order
from tvm_vfuse.resource.time_model import Machine

Searcher = Callable[[Graph, Oracle, Machine, FusionOptions], FusionPlan]


def check_kinds(options: FusionOptions) -> None:
    """Refuse names that are no kind of fusion.

    Raises
    ------
    InputError
        With the unknown name and the known ones.
    """
    for option, names in (("--always", options.always), ("--never", options.never)):
        for n in names:
            if n not in KINDS:
                near = difflib.get_close_matches(n, KINDS, 1)
                hint = f"; did you mean {near[0]}?" if near else ""
                raise InputError(f"{option}: {n!r} is no kind of fusion{hint} (known: {', '.join(KINDS)})")


def apply_directives(
    graph: Graph, oracle: Oracle, machine: Machine, options: FusionOptions, searcher: Searcher
) -> FusionPlan:
    """The plan of one region: by hand if groups are given, else searched."""
    check_kinds(options)
    if options.groups is None:
        return searcher(graph, oracle, machine, options)
    return by_hand(graph, oracle, options.groups)


def by_hand(graph: Graph, oracle: Oracle, given: Sequence[Sequence[str]]) -> FusionPlan:
    """Exactly the groups that were given; everything else stays alone.

    Raises
    ------
    InputError
        If a name is not in the module or in two groups, or a group is not legal (with the rule's reason).
    """
    by_name = {o.name: o.index for o in graph.operators}
    taken: dict[int, int] = {}
    groups: list[Group] = []
    for number, names in enumerate(given):
        here = [n for n in names if n in by_name]
        if not here:
            continue  # another region's group; the caller checks that every name is somewhere
        if len(here) < len(names):
            missing = [n for n in names if n not in by_name]
            raise InputError(
                f"groups: group {number} joins operators of different blocks: {missing[0]} is not with {here[0]}"
            )
        members = tuple(sorted(by_name[n] for n in names))
        for i in members:
            if i in taken:
                raise InputError(f"groups: {graph.operators[i].name} is in groups {taken[i]} and {number}")
            taken[i] = number
        groups.append(Group(members, (), _facts(graph, oracle, members, number)))
    groups += [Group((o.index,)) for o in graph.operators if o.index not in taken]
    plan = FusionPlan(graph, in_run_order(graph, groups))
    plan.verify()
    return plan


def _facts(graph: Graph, oracle: Oracle, members: tuple[int, ...], number: int) -> Facts | None:
    """What the evaluation of a hand-given group learns; an illegal one is refused."""
    if len(members) == 1:
        return None
    candidate = Candidate(graph, members[:1], members[1:], _bypass(graph, members))
    verdict = judge(candidate, oracle)
    if not verdict.legal:
        raise InputError(f"groups: group {number} is not legal: {verdict.reason}: {verdict.detail}")
    return verdict.facts


def _bypass(graph: Graph, members: tuple[int, ...]) -> int | None:
    """An outsider that needs a member and is needed by one."""
    inside = set(members)
    below: set[int] = set()
    for o in graph.operators[members[0] : members[-1] + 1]:
        before = graph.predecessors(o.index)
        if o.index in inside:
            hit = next((p for p in before if p in below and p not in inside), None)
            if hit is not None:
                return hit
        elif any(p in inside or p in below for p in before):
            below.add(o.index)
    return None


def check_names(graphs: Sequence[Graph], options: FusionOptions) -> None:
    """Refuse hand-given groups that name operators nobody has.

    Raises
    ------
    InputError
        With the name and the nearest known ones.
    """
    known = [o.name for g in graphs for o in g.operators]
    for number, names in enumerate(options.groups or ()):
        for n in names:
            if n not in known:
                near = difflib.get_close_matches(n, known, 3)
                hint = f"; nearest: {', '.join(near)}" if near else ""
                raise InputError(f"groups: group {number} names {n!r}, which is no operator of the module{hint}")
