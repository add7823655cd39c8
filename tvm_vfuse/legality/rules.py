"""The legality rules. Each takes a candidate and answers with a verdict; the first refusal counts.

=====================  ==========================================================================================
rule                   condition of the design it keeps
=====================  ==========================================================================================
members_are_kernels    deterministic and free of side effects: packed, impure and in-place calls, control flow and
                       kernels that can't be read stay out
group_is_convex        one producer and its consumers: no path leaves the group and comes back, nothing moves
                       across a barrier or above the binding of a shape symbol
shapes_are_nonempty    shapes agree: a tensor without elements has no point at which a group could be evaluated
one_contraction        one anchor fixes the register tile; two would share its registers
shared_axes            shapes and layouts agree or follow by broadcasting, the results are equal: the evaluation of
                       the group finds common block axes, each reduction at home, nothing expensive twice
=====================  ==========================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tvm_vfuse.legality.candidate import Candidate
from tvm_vfuse.legality.verdict import LEGAL, Oracle, Verdict

Rule = Callable[[Candidate, Oracle], Verdict]


def members_are_kernels(candidate: Candidate, oracle: Oracle) -> Verdict:
    """Every member is a kernel whose stages are known."""
    for o in candidate.operators:
        if o.kind != "kernel":
            return Verdict(o.kind, f"{candidate.name(o.index)}: {o.why}")
    return LEGAL


def group_is_convex(candidate: Candidate, oracle: Oracle) -> Verdict:
    """No path from the group through an outsider back into it."""
    if candidate.bypass is None:
        return LEGAL
    return Verdict(
        "not-convex",
        f"{candidate.name(candidate.bypass)} stands between {candidate.name(candidate.first[-1])} and "
        f"{candidate.name(candidate.second[0])}: one kernel would have to run both before and after it",
        "fuses if that operator can join the group too",
    )


def shapes_are_nonempty(candidate: Candidate, oracle: Oracle) -> Verdict:
    """No tensor of the group has an extent of 0."""
    for o in candidate.operators:
        for v in (*o.inputs, *o.outputs):
            value = candidate.graph.values[v]
            if 0 in value.shape:
                return Verdict("zero-size", f"{value.name} of {candidate.name(o.index)} has shape {list(value.shape)}")
    return LEGAL


def one_contraction(candidate: Candidate, oracle: Oracle) -> Verdict:
    """At most one matmul, convolution or window."""
    anchors = [o for o in candidate.operators if o.contraction]
    if len(anchors) < 2:
        return LEGAL
    return Verdict(
        "two-contractions",
        f"{candidate.name(anchors[0].index)} and {candidate.name(anchors[1].index)} each need the register tile",
    )


def shared_axes(candidate: Candidate, oracle: Oracle) -> Verdict:
    """The members can be evaluated together at one point of common block axes."""
    if candidate.is_pointwise and (candidate.members, ()) not in oracle.cuts:
        return LEGAL
    return oracle(candidate.members, ())


RULES: tuple[Rule, ...] = (members_are_kernels, group_is_convex, shapes_are_nonempty, one_contraction, shared_axes)


def judge(candidate: Candidate, oracle: Oracle, rules: Sequence[Rule] = RULES) -> Verdict:
    """The first refusal, or a legal verdict with the facts that the rules found."""
    facts = None
    for rule in rules:
        verdict = rule(candidate, oracle)
        if not verdict.legal:
            return verdict
        facts = verdict.facts or facts
    return Verdict(facts=facts)
