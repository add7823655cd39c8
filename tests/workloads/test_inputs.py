"""Sampled inputs: reproducible, of the declared shape and dtype, of the declared kind."""

from __future__ import annotations

import numpy as np
import pytest

from tvm_vfuse.workloads import find
from tvm_vfuse.workloads.tensors import TensorSpec, draw, stream


def test_a_seed_gives_the_same_values_again_and_another_seed_others():
    workload = find("add_relu:small")
    first, again, other = workload.inputs(3), workload.inputs(3), workload.inputs(4)
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not np.array_equal(first[0], other[0])
    assert not np.array_equal(first[0], first[1])


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_inputs_have_the_dtype_that_was_asked_for(dtype):
    assert all(str(x.dtype) == dtype for x in find(f"silu_gate:3x5:{dtype}").inputs(0))


@pytest.mark.parametrize(
    ("spec", "holds"),
    [
        (TensorSpec("i", (500,), "index", "int64", high=5), lambda x: set(x.tolist()) == {0, 1, 2, 3, 4}),
        (TensorSpec("p", (500,), "positive"), lambda x: x.min() >= 0 and x.max() < 1),
        (TensorSpec("s", (500,), "small"), lambda x: -0.25 <= x.min() < -0.2 and 0.2 < x.max() <= 0.25),
        (TensorSpec("m", (500,), "mask"), lambda x: set(x.tolist()) == {0.0, -1e4}),
        (TensorSpec("b", (500,), "boolean", "bool"), lambda x: x.dtype == bool and 0 < x.sum() < 500),
        (TensorSpec("n", (5000,)), lambda x: abs(x.mean()) < 0.1 and abs(x.std() - 1) < 0.1),
    ],
)
def test_values_are_of_their_kind(spec, holds):
    assert holds(draw(spec, "float32", stream("test", 0)))


def test_targets_index_the_classes():
    _, targets = find("log_softmax_nll:64x10").inputs(0)
    assert targets.dtype == np.int64 and targets.min() >= 0 and targets.max() < 10
