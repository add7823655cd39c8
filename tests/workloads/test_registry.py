"""Names, sizes and dtypes of built-in workloads, and what is said when one can't be had."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tvm_vfuse.errors import InputError
from tvm_vfuse.workloads import all_workloads, find, templates

BENCH = (
    *(
        "add_relu",
        "chain8",
        "gelu_tanh",
        "gelu_erf",
        "silu_gate",
        "res_layernorm",
        "rmsnorm",
        "softmax",
        "mask_softmax",
    ),
    *("logsoftmax_nll", "bn_relu", "conv_bn_relu", "conv_bn_add_relu", "diamond", "relu_rowsum", "relu_gap", "adamw"),
    *("matmul_bias_gelu", "transpose_add", "resnet_bottleneck", "bert_layer"),
)


def test_listing_does_not_import_tvm_or_torch():
    code = (
        "import sys; from tvm_vfuse.workloads import all_workloads; all_workloads();"
        "sys.exit(bool({'tvm', 'torch', 'onnx', 'scipy'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_workload_says_what_it_is():
    for workload in all_workloads():
        assert workload.description and "\n" not in workload.description
        assert workload.shapes and workload.dtype == "float32" and workload.tags


@pytest.mark.parametrize("name", BENCH)
def test_the_cpu_benchmark_is_built_in_large_and_small(name):
    large, small = find(f"{name}:large"), find(f"{name}:small")
    assert find(name).shapes == large.shapes != small.shapes


@pytest.mark.parametrize(
    ("tag", "least"), [("pattern", 20), ("published", 10), ("relay-twin", 14), ("kernelbench", 20)]
)
def test_families_are_complete(tag, least):
    assert sum(tag in workload.tags for workload in all_workloads()) >= least


def test_sizes_and_dtype_can_be_given_in_any_order():
    expected = find("add_rms_norm:4096x8192:float16")
    assert expected.shapes == "x 4096x8192, residual 4096x8192"
    assert expected.dtype == "float16"
    swapped = find("add_rms_norm:fp16:4096x8192")
    assert (swapped.shapes, swapped.dtype) == (expected.shapes, expected.dtype)
    assert find("add_rms_norm:bf16").dtype == "bfloat16"


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("sofmax", "did you mean softmax"),
        ("layernorm", "layer_norm"),
        ("", "unknown workload ''"),
        ("zzzzzzzz", "tvm-vfuse list"),
        ("softmax:0x8", "rows is 0"),
        ("softmax:8", "8 has 1 sizes, not 2 (rows x columns"),
        ("softmax:8x8x8", "8x8x8 has 3 sizes, not 2"),
        ("softmax:8x", "'8x' is no size or dtype"),
        ("softmax:-8x8", "'-8x8' is no size or dtype"),
        ("softmax:float17", "did you mean float16"),
        ("softmax:float64", "float64 is not one of float32, float16, bfloat16"),
        ("softmax:smal", "did you mean small"),
        ("softmax:8x8:9x9", "a second time"),
        ("softmax:float16:float32", "a second time"),
        ("rope:1x8x4x2x7", "head width 7 is odd"),
        ("bert_layer:8x100x3x64", "3 heads do not divide"),
        ("pool_add:1x4x1x1", "below the 2x2 pool"),
        ("kb21_conv_add_scale_sigmoid_norm:1x3x12x8x8", "not a multiple of 8"),
        ("resnet20_28:1x3x28x28", "has 4 sizes, not 1"),
    ],
)
def test_what_cannot_be_had_is_refused_in_one_line(spec, said):
    with pytest.raises(InputError) as refused:
        find(spec)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_inputs_beyond_this_machine_are_refused_before_they_are_made():
    with pytest.raises(InputError, match="exceed this machine's"):
        find("softmax:1000000x1000000").inputs(0)


def test_names_are_unique_across_families():
    from tvm_vfuse.workloads.registry import FAMILIES

    names = [template.name for family in FAMILIES for template in family.TEMPLATES]
    assert len(names) == len(set(names)) == len(templates())
