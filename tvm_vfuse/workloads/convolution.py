"""Convolutions with their batch norms, residuals and pools, and the matmul epilogue of the CPU benchmark."""

from __future__ import annotations

from collections.abc import Sequence

from tvm_vfuse.workloads.ops import Ops, Value
from tvm_vfuse.workloads.template import Sizes, Template, same_shape
from tvm_vfuse.workloads.tensors import TensorSpec

IMAGES = ("batch", "channels", "height", "width")
CONV_SIZES = {"default": (8, 64, 56, 56), "large": (8, 64, 56, 56), "small": (1, 64, 56, 56)}


def _bn_relu(ops: Ops, _sizes: Sizes, x: Value) -> Sequence[Value]:
    return (ops.relu(ops.batch_norm(x, "bn")),)


def _conv_bn_relu(ops: Ops, sizes: Sizes, x: Value) -> Sequence[Value]:
    return (ops.relu(ops.batch_norm(ops.conv_of(x, "conv", sizes[1], 3, padding=1), "bn")),)


def _conv_bn_add_relu(ops: Ops, sizes: Sizes, x: Value, residual: Value) -> Sequence[Value]:
    y = ops.batch_norm(ops.conv_of(x, "conv", sizes[1], 3, padding=1), "bn")
    return (ops.relu(ops.add(y, residual)),)


def _relu_gap(ops: Ops, _sizes: Sizes, x: Value) -> Sequence[Value]:
    return (ops.global_avg_pool(ops.relu(x)),)


def _bottleneck(ops: Ops, sizes: Sizes, x: Value) -> Sequence[Value]:
    narrow = sizes[1] // 4
    y = ops.relu(ops.batch_norm(ops.conv_of(x, "conv1", narrow, 1), "bn1"))
    y = ops.relu(ops.batch_norm(ops.conv_of(y, "conv2", narrow, 3, padding=1), "bn2"))
    return (ops.relu(ops.add(ops.batch_norm(ops.conv_of(y, "conv3", sizes[1], 1), "bn3"), x)),)


def _four_divides(sizes: Sizes) -> str | None:
    return f"channels {sizes[1]} is not a multiple of 4" if sizes[1] % 4 else None


def _pool_add(ops: Ops, _sizes: Sizes, x: Value) -> Sequence[Value]:
    branches = [ops.add(x, 0.5 + i) for i in range(9)]
    triples = [ops.concat(branches[i : i + 3], axis=1) for i in range(0, 9, 3)]
    pooled = ops.pool("max", ops.concat(triples, axis=1), size=2, strides=2)
    return ops.add(pooled, 1.0), ops.add(pooled, -2.0)


def _pool_fits(sizes: Sizes) -> str | None:
    return f"height and width {sizes[2]}x{sizes[3]} are below the 2x2 pool" if min(sizes[2:]) < 2 else None


def _matmul_bias_gelu(ops: Ops, sizes: Sizes, x: Value) -> Sequence[Value]:
    return (ops.gelu(ops.dense(x, "dense", sizes[2])),)


def _matmul_inputs(sizes: Sizes) -> list[TensorSpec]:
    return [TensorSpec("x", sizes[:2])]


TEMPLATES = (
    Template(
        "bn_relu",
        "batch norm, ReLU",
        IMAGES,
        {"default": (16, 64, 96, 96), "large": (16, 64, 96, 96), "small": (1, 64, 32, 32)},
        same_shape("x"),
        _bn_relu,
        tags=("bench",),
    ),
    Template(
        "conv_bn_relu",
        "3x3 convolution, batch norm, ReLU",
        IMAGES,
        CONV_SIZES,
        same_shape("x"),
        _conv_bn_relu,
        memory_bound=False,
        tags=("bench",),
    ),
    Template(
        "conv_bn_add_relu",
        "3x3 convolution, batch norm, residual, ReLU",
        IMAGES,
        CONV_SIZES,
        same_shape("x", "residual"),
        _conv_bn_add_relu,
        memory_bound=False,
        tags=("bench",),
    ),
    Template(
        "relu_gap",
        "ReLU, global average pool",
        IMAGES,
        {"default": (16, 256, 48, 48), "large": (16, 256, 48, 48), "small": (1, 64, 32, 32)},
        same_shape("x"),
        _relu_gap,
        tags=("bench",),
    ),
    Template(
        "resnet_bottleneck",
        "ResNet-50's bottleneck block with identity shortcut",
        IMAGES,
        {"default": (4, 256, 56, 56), "large": (4, 256, 56, 56), "small": (1, 256, 28, 28), "one": (1, 256, 56, 56)},
        same_shape("x"),
        _bottleneck,
        memory_bound=False,
        tags=("bench",),
        check=_four_divides,
    ),
    Template(
        "matmul_bias_gelu",
        "matmul, bias, GELU",
        ("rows", "in", "out"),
        {"default": (512, 1024, 1024), "large": (512, 1024, 1024), "small": (64, 128, 128)},
        _matmul_inputs,
        _matmul_bias_gelu,
        memory_bound=False,
        tags=("bench",),
    ),
    Template(
        "pool_add",
        "nine adds concatenated, max pool, two adds returned (regression of stock fusion, tvm #20401)",
        IMAGES,
        {"default": (1, 16, 64, 64), "published": (1, 16, 64, 64), "small": (1, 4, 16, 16)},
        same_shape("x"),
        _pool_add,
        tags=("regression",),
        check=_pool_fits,
    ),
)
