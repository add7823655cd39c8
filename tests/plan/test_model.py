"""A plan checks itself: what breaks its invariant is named."""

from __future__ import annotations

import pytest

from tests.plan.graphs import Op, make_graph
from tvm_vfuse.errors import InternalError
from tvm_vfuse.graph.model import Graph, Operator, Value
from tvm_vfuse.plan.model import FusionPlan, Group, in_run_order
from tvm_vfuse.resource.time_model import OVERLAP, Machine, cpu_machine

CHAIN = make_graph([Op("a", "x"), Op("b", "a"), Op("c", "b")])


def plan(*groups):
    return FusionPlan(CHAIN, tuple(g if isinstance(g, Group) else Group(g) for g in groups))


def test_a_partition_in_order_is_accepted():
    plan((0,), (1, 2)).verify()
    plan((0,), Group((1,), (0,)), Group((2,), (0, 1))).verify()


@pytest.mark.parametrize(
    ("groups", "fault"),
    [
        ([(0, 1), (1, 2)], "operator 1 is in groups 0 and 1"),
        ([(0,), (2,)], r"operators \[1\] are in no group"),
        ([(1, 2), (0,)], "group 0 needs operator 0 of group 1, which runs later"),
        ([(0, 2), (1,)], "group 0 needs operator 1 of group 1, which runs later"),
        ([Group((0,)), Group((2,), (1,)), Group((1,))], None),
        ([Group((2,), (1,)), Group((0,)), Group((1,))], "group 0 needs operator 0 of group 1"),
    ],
)
def test_what_is_no_plan_is_named(groups, fault):
    if fault is None:
        plan(*groups).verify()
    else:
        with pytest.raises(InternalError, match=fault):
            plan(*groups).verify()


def test_groups_that_need_each_other_are_no_order():
    with pytest.raises(InternalError, match="in a circle"):
        in_run_order(CHAIN, [Group((0, 2)), Group((1,))])


def test_the_order_follows_the_data_and_then_the_smallest_member():
    graph = make_graph([Op("a", "x"), Op("b", "y"), Op("c", "a"), Op("d", "b c")])
    order = in_run_order(graph, [Group((3,)), Group((1,)), Group((0, 2))])
    assert [g.members for g in order] == [(0, 2), (1,), (3,)]


def test_the_text_names_members_and_what_is_computed_again():
    assert plan((0,), Group((1, 2), (0,))).text() == "0: a\n1: b c again: a"


def test_a_graph_that_reads_what_comes_later_is_refused():
    later = [Value(0, "x", (4,), "float32", 16, producer=1)]
    ops = [Operator(0, "a", "a", "kernel", inputs=(0,)), Operator(1, "b", "b", "kernel", outputs=(0,))]
    with pytest.raises(ValueError, match="operator a needs operator 1, which comes later"):
        Graph.of("g", ops, later)
    with pytest.raises(ValueError, match="has index 3 at place 0"):
        Graph.of("g", [Operator(3, "a", "a", "kernel")], [])


def test_inputs_and_outputs_of_a_group_are_what_crosses_its_boundary():
    graph = make_graph([Op("a", "x y"), Op("b", "a", live=True), Op("c", "a b"), Op("d", "c z")])
    name = [v.name for v in graph.values]
    assert [name[v] for v in graph.inputs_of((0, 1, 2))] == ["x", "y"]
    assert [name[v] for v in graph.outputs_of((0, 1, 2))] == ["b", "c"]
    assert [name[v] for v in graph.outputs_of((0,))] == ["a"]
    assert [name[v] for v in graph.inputs_of((2, 3))] == ["a", "b", "z"]


# ------------------------------------------------------------------------------------------------ predicted time
def test_the_time_of_a_kernel_is_its_launch_and_the_longer_of_traffic_and_arithmetic_and_a_little_of_the_other():
    machine = Machine(bytes_per_us=100.0, vector_ops_per_us=10.0, launch_us=3.0, source="a test")
    assert machine.time_us(0, 0) == 3.0
    assert machine.time_us(1000, 0) == 13.0
    assert machine.time_us(0, 1000) == 103.0
    assert machine.time_us(1000, 1000) == pytest.approx(3.0 + 100.0 + (1 - OVERLAP) * 10.0)
    assert machine.time_us(0, 0, kernels=4) == 12.0


def test_more_cores_and_wider_vectors_are_faster():
    small, large = cpu_machine(1, 128), cpu_machine(4, 512)
    assert large.bytes_per_us == 4 * small.bytes_per_us
    assert large.vector_ops_per_us == 16 * small.vector_ops_per_us
    assert small.source
