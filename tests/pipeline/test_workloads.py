"""What fusion must reach on the built-in workloads: one kernel a pattern, the least traffic, the twins' counts."""

from __future__ import annotations

import pytest

from tests.pipeline.columns import Column, fused_column, target
from tvm_vfuse import pipeline
from tvm_vfuse.workloads.registry import templates

# Two kernels are right here, and what they move beyond the least traffic: the name of a tensor and how often.
TWO_KERNELS = {
    # the mean over all rows waits for each row's loss: log-probabilities are written and read
    "log_softmax_nll": "log_probabilities",
    # queries and keys have different numbers of heads and share nothing but the rotation, read twice
    "rope": "rotation",
    # nine branches of the concatenation tested at each point of the window cost a CPU more than the traffic they save
    "pool_add": "concatenation",
}


def small(name):
    """The workload at its smallest named size."""
    template = templates()[name]
    return template.workload(template.sizes.get("small", template.sizes["default"]))


def column_of(workload) -> Column:
    with target():
        prepared = pipeline.prepare(workload.build())
    return fused_column(prepared)


def with_tag(tag: str) -> list[str]:
    return [name for name, t in templates().items() if tag in t.tags]


def memory_bound() -> list[str]:
    kinds = ("bench", "published", "regression", "pattern")
    return [n for n, t in templates().items() if t.memory_bound and set(kinds) & set(t.tags)]


def test_there_are_patterns():
    assert len(with_tag("pattern")) >= 20
    assert len(memory_bound()) >= 40


@pytest.mark.parametrize("name", memory_bound())
def test_memory_bound_workloads_are_one_kernel_of_the_least_traffic(name):
    """Each boundary tensor moves once, and no kernel keeps an intermediate in memory."""
    workload = small(name)
    column = column_of(workload)
    inputs = workload.inputs(0)
    boundary, ideal, held = column.traffic(inputs)
    assert held == 0
    if name in TWO_KERNELS:
        assert len(column.kernels(inputs)) == 2
        assert boundary - ideal == extra_bytes(TWO_KERNELS[name], inputs)
    else:
        assert len(column.kernels(inputs)) == 1, column.result.refused
        assert boundary == ideal


def extra_bytes(what: str, inputs) -> int:
    """Bytes that the second kernel costs."""
    if what == "concatenation":  # nine tensors of the input's size, written and read
        return 18 * inputs[0].nbytes
    return sum(a.nbytes for a in inputs[2:]) if what == "rotation" else 2 * inputs[0].nbytes


# What is reached; Relay's build of the same graphs takes 1, 3, 1, 3, 3, -, 4, 3, 2, -, 5, 4 and 13 kernels.
@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("relay_add_relu", 1),
        ("relay_layer_norm", 1),
        ("relay_softmax", 1),
        ("relay_conv_bn_relu", 1),
        ("const_meta", 1),
        ("dyn_batch", 1),
        ("residual", 2),
        ("mlp_small", 3),
        ("gelu_mlp", 2),
        ("lstm_cell", 2),
        ("misc_ops", 4),
        ("mlp", 4),
        ("attention", 7),
    ],
)
def test_twins_of_relay_graphs_take_no_more_kernels(name, most):
    workload = small(name)
    assert len(column_of(workload).kernels(workload.inputs(0))) <= most


@pytest.mark.parametrize(("name", "most"), [("resnet18_224", 31), ("mobilenet_224", 31)])
def test_networks_take_no_more_kernels_than_relay(name, most):
    workload = small(name)
    assert len(column_of(workload).kernels(workload.inputs(0))) <= most
