"""The built-in networks: outputs that say something, and the fused result of one of them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.workloads.execution import error, fused, run
from tvm_vfuse.workloads import find

NETWORKS = ("resnet20_28", "resnet18_224", "mobilenet_224", "squeezenet_224", "resnet50_224")


@pytest.mark.parametrize("name", NETWORKS)
def test_random_weights_leave_a_distribution_that_depends_on_the_input(name):
    workload = find(name)
    first, second = (workload.reference(workload.inputs(seed))[0] for seed in (0, 1))
    assert first.sum() == pytest.approx(1)
    assert first.max() < 0.99
    assert error([first], [second]) > 1e-2


def test_fused_resnet20_equals_its_reference():
    workload = find("resnet20_28")
    inputs = workload.inputs(5)
    assert error(run(workload.build(), inputs, fused), workload.reference(inputs)) < 1e-4


def test_bert_layers_stack():
    workload = find("bert_base_12:1x8")
    hidden, pooled = workload.reference(workload.inputs(0))
    assert hidden.shape == (1, 8, 768) and pooled.shape == (1, 768)
    np.testing.assert_allclose(hidden.mean(-1), 0, atol=0.2)
    assert 0.1 < np.abs(pooled).mean() < 1
