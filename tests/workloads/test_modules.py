"""What workloads build: one public ``main`` of high-level operators, weights bound, the graph that is promised."""

from __future__ import annotations

from collections import Counter

import pytest
import tvm
from tvm import relax

from tvm_vfuse.workloads import find, templates

SMALL = [f"{name}:small" if "small" in t.sizes else name for name, t in templates().items() if "network" not in t.tags]


def operators(mod: tvm.IRModule) -> Counter[str]:
    names: Counter[str] = Counter()
    for block in mod["main"].body.blocks:
        for binding in block.bindings:
            if isinstance(binding.value, relax.Call):
                names[binding.value.op.name.removeprefix("relax.").removeprefix("nn.")] += 1
    return names


@pytest.mark.parametrize("spec", SMALL)
def test_module_is_one_dataflow_block_of_high_level_operators(spec):
    workload = find(spec)
    mod = workload.build()
    assert [gv.name_hint for gv in mod.get_global_vars()] == ["main"]
    assert relax.analysis.check_well_formed(mod)
    (block,) = mod["main"].body.blocks
    assert isinstance(block, relax.DataflowBlock)
    assert "call_tir" not in operators(mod)
    inputs = workload.inputs(0)
    assert [str(p.ty.dtype) for p in mod["main"].params] == [str(x.dtype) for x in inputs]
    assert [p.ty.ndim for p in mod["main"].params] == [x.ndim for x in inputs]


def test_building_twice_gives_the_same_module():
    tvm.ir.assert_structural_equal(find("conv_bn_relu:small").build(), find("conv_bn_relu:small").build())


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("resnet20_28", {"conv2d": 22, "batch_norm": 20, "relu": 19, "add": 10, "softmax": 1}),
        ("resnet18_224", {"conv2d": 21, "batch_norm": 19, "relu": 18, "add": 9, "max_pool2d": 1}),
        ("mobilenet_224", {"conv2d": 27, "batch_norm": 27, "relu": 27, "softmax": 1}),
        ("squeezenet_224", {"conv2d": 26, "relu": 26, "add": 26, "max_pool2d": 3, "concat": 8}),
        ("resnet50_224", {"conv2d": 53, "batch_norm": 53, "relu": 49, "add": 17, "matmul": 1}),
        ("pattern_chain_1000", {"add": 250, "multiply": 250, "subtract": 250, "relu": 250}),
        ("pattern_add_200_inputs", {"add": 199}),
        ("pattern_diamond_tower_24", {"multiply": 24, "tanh": 24, "add": 24}),
    ],
)
def test_networks_and_deep_patterns_have_their_operators(name, expected):
    counted = operators(find(name).build())
    assert {op: counted[op] for op in expected} == expected


def test_symbolic_batch_stays_symbolic():
    workload = find("dyn_batch")
    assert "n" in str(workload.build()["main"].params[0].ty.shape)
    assert workload.notes == ("symbolic dimension n is sampled as 4",)
