"""Chains behind 3-D and transposed convolutions: problems of KernelBench level 2 at reduced sizes.

Source: KernelBench (Ouyang et al., 2025), level 2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tvm_vfuse.workloads.kernelbench import CONV_DIMS, Graph, _images, _per_channel
from tvm_vfuse.workloads.ops import Ops, Value
from tvm_vfuse.workloads.template import Sizes, Template
from tvm_vfuse.workloads.tensors import TensorSpec


def _relu_leaky_gelu_sigmoid_bias(ops: Ops, x: Value) -> Value:
    y = ops.sigmoid(ops.gelu(ops.leaky_relu(ops.relu(x), 0.01)))
    return ops.add(y, _per_channel(ops, x, "bias"))


def _mish_tanh(ops: Ops, x: Value) -> Value:
    return ops.tanh(ops.mish(x))


def _scale_tanh_mul_sigmoid(ops: Ops, x: Value) -> Value:
    y = ops.tanh(ops.mul(x, _per_channel(ops, x, "scale", 1.0)))
    return ops.sigmoid(ops.mul(y, _per_channel(ops, x, "multiplier", 1.0)))


def _bias_clamp_scale_clamp_div(ops: Ops, x: Value) -> Value:
    y = ops.clip(ops.add(x, _per_channel(ops, x, "bias")), 0.0, 1.0)
    return ops.div(ops.clip(ops.mul(y, 2.0), 0.0, 1.0), 2.0)


def _mish_add_hardtanh_scale(ops: Ops, x: Value) -> Value:
    return ops.mul(ops.clip(ops.add(ops.mish(x), 0.5), -1.0, 1.0), 2.0)


def _softmax_bias_scale_sigmoid(ops: Ops, x: Value) -> Value:
    y = ops.add(ops.softmax(x, axis=1), _per_channel(ops, x, "bias"))
    return ops.sigmoid(ops.mul(y, 2.0))


def _add_min_gelu_mul(ops: Ops, x: Value) -> Value:
    return ops.mul(ops.gelu(ops.binary("minimum", ops.add(x, 0.5), 0.0)), 2.0)


def _volumes(sizes: Sizes) -> list[TensorSpec]:
    return [TensorSpec("x", (sizes[0], sizes[1], *sizes[3:]))]


def _kernel_fits(sizes: Sizes) -> str | None:
    return f"a volume of {'x'.join(map(str, sizes[3:]))} is below the 3x3x3 window" if min(sizes[3:]) < 3 else None


def _after_conv3d(chain: Graph) -> Callable[..., Sequence[Value]]:
    def graph(ops: Ops, sizes: Sizes, x: Value) -> Sequence[Value]:
        conv = ops.bias_channels(ops.conv_of(x, "conv", sizes[2], 3), "conv_bias")
        return (chain(ops, conv),)

    return graph


def _after_transposed(chain: Graph, kernel: int, padding: int, extra: int) -> Callable[..., Sequence[Value]]:
    def graph(ops: Ops, sizes: Sizes, x: Value) -> Sequence[Value]:
        scale = math.sqrt(4.0 / (sizes[1] * kernel * kernel))
        weight = ops.weight("conv_weight", (sizes[1], sizes[2], kernel, kernel), scale)
        conv = ops.conv2d_transpose(x, weight, strides=2, padding=padding, output_padding=extra)
        return (chain(ops, ops.bias_channels(conv, "conv_bias")),)

    return graph


def _conv3d(number: int, name: str, chain: Graph, default: Sizes, published: Sizes) -> Template:
    return Template(
        f"kb{number}_conv3d_{name}",
        f"KernelBench level 2 #{number}: 3x3x3 convolution, {name.replace('_', ', ')}",
        ("batch", "in", "out", "depth", "height", "width"),
        {"default": default, "small": (1, 3, 8, 6, 10, 10), "published": published},
        _volumes,
        _after_conv3d(chain),
        memory_bound=False,
        tags=("kernelbench",),
        check=_kernel_fits,
    )


def _transposed(
    number: int, name: str, chain: Graph, window: tuple[int, int, int], default: Sizes, published: Sizes
) -> Template:
    kernel, padding, extra = window
    return Template(
        f"kb{number}_conv_transpose_{name}",
        f"KernelBench level 2 #{number}: {kernel}x{kernel} transposed convolution, {name.replace('_', ', ')}",
        CONV_DIMS,
        {"default": default, "small": (1, 4, 8, 8, 8), "published": published},
        _images,
        _after_transposed(chain, kernel, padding, extra),
        memory_bound=False,
        tags=("kernelbench",),
    )


TEMPLATES = (
    _conv3d(
        7,
        "relu_leaky_gelu_sigmoid_bias",
        _relu_leaky_gelu_sigmoid_bias,
        (1, 8, 32, 16, 32, 32),
        (64, 8, 32, 32, 64, 64),
    ),
    _conv3d(47, "mish_tanh", _mish_tanh, (1, 16, 32, 12, 32, 32), (16, 32, 64, 32, 64, 64)),
    _conv3d(48, "scale_tanh_mul_sigmoid", _scale_tanh_mul_sigmoid, (2, 3, 16, 16, 64, 64), (128, 3, 16, 16, 64, 64)),
    _transposed(
        2,
        "bias_clamp_scale_clamp_div",
        _bias_clamp_scale_clamp_div,
        (3, 1, 1),
        (1, 32, 32, 32, 32),
        (128, 64, 64, 128, 128),
    ),
    _transposed(
        16,
        "mish_add_hardtanh_scale",
        _mish_add_hardtanh_scale,
        (3, 1, 1),
        (1, 32, 32, 32, 32),
        (128, 64, 64, 128, 128),
    ),
    _transposed(
        91,
        "softmax_bias_scale_sigmoid",
        _softmax_bias_scale_sigmoid,
        (4, 1, 1),
        (1, 32, 64, 24, 24),
        (128, 64, 128, 64, 64),
    ),
    _transposed(93, "add_min_gelu_mul", _add_min_gelu_mul, (4, 0, 0), (1, 32, 64, 24, 24), (128, 64, 128, 64, 64)),
)
