"""Each workload computes what its float64 reference says: fused by us, and unfused."""

from __future__ import annotations

import numpy as np
import pytest

from tests.workloads.execution import EPSILON, error, fused, run, unfused
from tvm_vfuse.workloads import find, templates

SMALL = [f"{name}:small" if "small" in t.sizes else name for name, t in templates().items() if "network" not in t.tags]
ONE_OF_EACH_KIND = (
    *("chain8", "layer_norm", "rms_norm_channels", "log_softmax_nll", "rope", "pool_add", "resnet_bottleneck"),
    *("kb92_conv_norm_tanh_hswish_res_lse", "kb48_conv3d_scale_tanh_mul_sigmoid"),
    *("kb2_conv_transpose_bias_clamp_scale_clamp_div",),
)
# Products are summed in float32 over up to 576 terms; chain8 takes a root of what may be almost zero.
TOLERANCE = {
    "float32": 400 * EPSILON["float32"],
    "float16": 40 * EPSILON["float16"],
    "bfloat16": 8 * EPSILON["bfloat16"],
}


@pytest.mark.parametrize("spec", SMALL)
def test_fused_result_is_the_reference(spec):
    workload = find(spec)
    inputs = workload.inputs(1)
    assert error(run(workload.build(), inputs, fused), workload.reference(inputs)) < TOLERANCE["float32"]


@pytest.mark.parametrize("name", ONE_OF_EACH_KIND)
def test_unfused_result_is_the_reference(name):
    workload = find(f"{name}:small")
    inputs = workload.inputs(2)
    assert error(run(workload.build(), inputs, unfused), workload.reference(inputs)) < TOLERANCE["float32"]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", ["add_relu", "add_rms_norm", "layer_norm", "swiglu_amax", "kb57_conv_relu_hswish"])
def test_half_precision_keeps_to_the_reference(name, dtype):
    workload = find(f"{name}:small:{dtype}")
    inputs = workload.inputs(3)
    outputs = run(workload.build(), inputs, fused)
    assert {str(x.dtype) for x in outputs} == {dtype}
    assert error(outputs, workload.reference(inputs)) < TOLERANCE[dtype]


def test_a_wrong_result_would_be_noticed():
    workload = find("softmax:small")
    reference = workload.reference(workload.inputs(1))
    wrong = [x * np.float64(1 + 1e-4) for x in reference]
    assert error(wrong, reference) > TOLERANCE["float32"]
