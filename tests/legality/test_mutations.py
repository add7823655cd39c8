"""Leave out any one rule or check, and some small graph is judged differently: none of them is idle.

Every rule of ``legality.rules.RULES`` and every ``raise Reject`` in ``tvm_vfuse.graph`` must have an entry here; a new
one without an entry fails the test at the end of its half.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import tvm
from tvm import tirx
from tvm.ir import Var

from tests.graph import kernels, refused_kernels
from tests.graph.regions import evaluation_of, oracle_of, region_of
from tests.legality.mutants import left_out, site_of, sites
from tests.plan.graphs import MACHINE, FakeOracle, Op, make_graph
from tests.schedule.equivalence import graph
from tvm_vfuse.errors import InternalError, Reject
from tvm_vfuse.graph import point
from tvm_vfuse.graph.compose import Member, compose
from tvm_vfuse.graph.extract import read_kernel
from tvm_vfuse.graph.indices import index
from tvm_vfuse.graph.stages import Tensor
from tvm_vfuse.legality.candidate import Candidate
from tvm_vfuse.legality.rules import RULES, judge
from tvm_vfuse.options import FusionOptions
from tvm_vfuse.plan.search import search


# ---------------------------------------------------------------------------------------------------------- the rules
def without(rule: str) -> tuple:
    return tuple(r for r in RULES if r.__name__ != rule)


def planned(mod: tvm.IRModule, rules: tuple) -> str:
    region = region_of(mod)
    return search(region.graph, oracle_of(region), MACHINE, FusionOptions(), rules).text()


def an_opaque_member(rules: tuple) -> str:
    mod_graph = make_graph([Op("a", "x"), Op("b", "a", kind="opaque")])
    return judge(Candidate(mod_graph, (0,), (1,)), FakeOracle(mod_graph), rules).reason


def a_path_through_an_outsider(rules: tuple) -> str:
    mod_graph = make_graph([Op("p", "x"), Op("m", "p", kind="opaque"), Op("q", "p m")])
    try:
        return search(mod_graph, FakeOracle(mod_graph), MACHINE, FusionOptions(), rules).text()
    except InternalError as error:
        return str(error)


def an_empty_operand(rules: tuple) -> str:
    return planned(graph(lambda g, x, y: g.relu(g.concat([x, g.exp(y)], axis=0)), (0, 8), (4, 8)), rules)


def two_products_of_one_input(rules: tuple) -> str:
    return planned(graph(lambda g, x, w, v: [g.matmul(x, w), g.matmul(x, v)], (8, 32), (32, 16), (32, 16)), rules)


def sums_along_both_axes(rules: tuple) -> str:
    return planned(graph(lambda g, x: [g.sum(x, axis=0), g.sum(x, axis=1)], (64, 32)), rules)


RULE_CASES = {
    # rule: a graph, what comes of it with all rules, and without this one
    "members_are_kernels": (an_opaque_member, "opaque", ""),
    "group_is_convex": (
        a_path_through_an_outsider,
        "0: p\n1: m\n2: q",
        "the groups of the plan need each other in a circle",
    ),
    "shapes_are_nonempty": (an_empty_operand, "0: lv\n1: lv1\n2: gv", "0: lv lv1 gv"),
    "one_contraction": (two_products_of_one_input, "0: lv\n1: lv1", "0: lv lv1"),
    "shared_axes": (sums_along_both_axes, "0: lv\n1: lv1", "0: lv lv1"),
}


@pytest.mark.parametrize("rule", RULE_CASES)
def test_without_the_rule_the_plan_differs(rule):
    plan, with_all, without_it = RULE_CASES[rule]
    assert plan(RULES) == with_all
    assert plan(without(rule)) == without_it


def test_every_rule_has_an_entry():
    assert [r.__name__ for r in RULES] == list(RULE_CASES)


# --------------------------------------------------------------------------------------------- checks of one kernel
@pytest.mark.parametrize("name", refused_kernels.REFUSED)
def test_without_the_check_the_kernel_is_read(name):
    case = refused_kernels.REFUSED[name]
    func = case.make()
    with pytest.raises(Reject) as refused:
        read_kernel(func)
    assert (refused.value.reason, case.words in refused.value.detail) == (case.reason, True), refused.value
    site = site_of(refused.value)
    with left_out(site):
        outcome = outcome_of(lambda: read_kernel(func))
    assert outcome == case.then


def outcome_of(run: Callable[[], object]) -> str:
    try:
        run()
    except Exception as error:  # noqa: BLE001 - whatever comes in the check's place
        return type(error).__name__
    return "accepted"


# --------------------------------------------------------------------------------------------- checks of a group
@dataclass(frozen=True)
class GroupCheck:
    """A group that is refused.

    Parameters
    ----------
    run : evaluates the group; raises Reject
    then : what happens without the check: "accepted" or the name of an exception
    """

    run: Callable[[], object]
    reason: str
    words: str
    then: str = "accepted"


def tensor(key: int, *shape: int | tirx.Var, dtype: str = "float32") -> Tensor:
    return Tensor(key, f"t{key}", tuple(index(s) if isinstance(s, int) else s for s in shape), dtype)


def called_with(func: tirx.PrimFunc, *arguments: Tensor) -> Callable[[], object]:
    return lambda: compose([Member(read_kernel(func), arguments)], [arguments[-1]])


def joint_with_a_symbol() -> object:
    """An argmax of elements that depend on a scalar parameter."""
    kernel, n = read_kernel(kernels.argmax), Var("n", "int64")
    joint = kernel.stages[0].joint
    changed = dataclasses.replace(joint, elements=tuple(tirx.Cast(str(e.ty), n) for e in joint.elements))
    stages = tuple(dataclasses.replace(s, joint=changed) for s in kernel.stages)
    kernel = dataclasses.replace(kernel, stages=stages, scalars=(n,))
    return compose([Member(kernel, kernel.parameters, (index(4),))], kernel.outputs)


def a_long_sum(monkeypatch: pytest.MonkeyPatch) -> object:
    monkeypatch.setattr(point, "MAX_NODES", 10)
    return evaluation_of(graph(lambda g, *xs: sum_of(g, xs), *[(8,)] * 12))


def sum_of(g, xs):
    total = xs[0]
    for x in xs[1:]:
        total = g.add(total, x)
    return total


def flipped_row_sum(g, x):
    return g.add(g.flip(g.sum(x, axis=1), axis=0), g.sum(x, axis=1))


GROUP_CHECKS = {
    "another rank": GroupCheck(
        called_with(kernels.doubled, tensor(1, 8, 1), tensor(2, 8)),
        "shape-mismatch",
        "declared float32[",
    ),
    "another extent": GroupCheck(
        called_with(kernels.doubled, tensor(1, 9), tensor(2, 8)), "shape-mismatch", "the argument is float32["
    ),
    "another dtype": GroupCheck(
        called_with(kernels.doubled, tensor(1, 8, dtype="int32"), tensor(2, 8)),
        "shape-mismatch",
        "the argument is int32[",
    ),
    "dynamic for static": GroupCheck(
        called_with(kernels.doubled, tensor(1, Var("n", "int64")), tensor(2, 8)), "shape-mismatch", "float32[n]"
    ),
    "joint reduction over a symbol": GroupCheck(joint_with_a_symbol, "opaque", "depends on a shape symbol"),
    "an empty result": GroupCheck(
        lambda: evaluation_of(graph(lambda g, x: g.exp(g.add(x, x)), (0, 8))), "zero-size", "no elements"
    ),
    "too many values": GroupCheck(a_long_sum, "too-large", "more than 10 values"),
    "a sum of another row": GroupCheck(
        lambda: evaluation_of(graph(flipped_row_sum, (8, 32))), "reduction-read-by-other-row", "reads the reduction"
    ),
    "exp in windows": GroupCheck(
        lambda: evaluation_of(graph(lambda g, x: g.max_pool2d(g.exp(x), pool_size=3), (1, 1, 9, 9))),
        "expensive-recompute",
        "441",
    ),
    "sums along both axes": GroupCheck(
        lambda: evaluation_of(graph(lambda g, x: [g.sum(x, axis=0), g.sum(x, axis=1)], (8, 32))),
        "no-common-axes",
        "no shared block axes",
        "KeyError",
    ),
}


def run_check(check: GroupCheck, monkeypatch: pytest.MonkeyPatch) -> object:
    return check.run(monkeypatch) if check.run is a_long_sum else check.run()


@pytest.mark.parametrize("name", GROUP_CHECKS)
def test_without_the_check_the_group_is_taken(name, monkeypatch):
    check = GROUP_CHECKS[name]
    with pytest.raises(Reject) as refused:
        run_check(check, monkeypatch)
    assert (refused.value.reason, check.words in refused.value.detail) == (check.reason, True), refused.value
    site = site_of(refused.value)
    with left_out(site):
        outcome = outcome_of(lambda: run_check(check, monkeypatch))
    assert outcome == check.then


# TVM 0.27 has no store under a predicate; where it has one, this check needs an entry.
OUT_OF_REACH = {"stores under a predicate"} if "predicate" not in dir(tirx.BufferStore) else set()


def test_every_check_of_the_graph_has_an_entry(monkeypatch):
    hit = set()
    for case in refused_kernels.REFUSED.values():
        with pytest.raises(Reject) as refused:
            read_kernel(case.make())
        hit.add(site_of(refused.value))
    for check in GROUP_CHECKS.values():
        with pytest.raises(Reject) as refused:
            run_check(check, monkeypatch)
        hit.add(site_of(refused.value))
    assert None not in hit
    idle = [s for s in sites() if s not in hit and not any(words in s.message for words in OUT_OF_REACH)]
    assert idle == []
