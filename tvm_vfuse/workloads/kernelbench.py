"""Chains behind 2-D convolutions and matmuls: problems of KernelBench level 2, numbered as there, at reduced sizes.

Source: KernelBench (Ouyang et al., 2025), level 2; the published sizes keep the batch small enough for one GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tvm_vfuse.workloads.ops import Ops, Value
from tvm_vfuse.workloads.template import Sizes, Template
from tvm_vfuse.workloads.tensors import TensorSpec

CONV_DIMS = ("batch", "in", "out", "height", "width")
Graph = Callable[[Ops, Value], Value]


def _per_channel(ops: Ops, x: Value, name: str, scale: float = 0.1, centre: float = 0.0) -> Value:
    """A weight of one value a channel, shaped to broadcast over images or volumes."""
    shape = ops.shape(x)
    return ops.weight(name, (shape[1], *([1] * (len(shape) - 2))), scale, centre)


def _relu_bias(ops: Ops, x: Value) -> Value:
    return ops.add(ops.relu(x), _per_channel(ops, x, "bias"))


def _mish_mish(ops: Ops, x: Value) -> Value:
    return ops.mish(ops.mish(x))


def _min_tanh_tanh(ops: Ops, x: Value) -> Value:
    return ops.tanh(ops.tanh(ops.reduce("min", x, 1, keepdims=True)))


def _min_add_mul(ops: Ops, x: Value) -> Value:
    return ops.mul(ops.add(ops.binary("minimum", x, 0.5), _per_channel(ops, x, "bias")), 2.0)


def _sub_hswish_pool_mish(ops: Ops, x: Value) -> Value:
    return ops.mish(ops.pool("max", ops.hard_swish(ops.sub(x, 0.5)), 2, 2))


def _sub_tanh_sub_pool(ops: Ops, x: Value) -> Value:
    return ops.pool("avg", ops.sub(ops.tanh(ops.sub(x, 0.5)), 0.2), 2, 2)


def _mul_leaky_gelu(ops: Ops, x: Value) -> Value:
    return ops.gelu(ops.leaky_relu(ops.mul(x, _per_channel(ops, x, "multiplier", 1.0)), 0.01))


def _relu_hswish(ops: Ops, x: Value) -> Value:
    return ops.hard_swish(ops.relu(x))


def _hswish_relu(ops: Ops, x: Value) -> Value:
    return ops.relu(ops.hard_swish(x))


def _div_leaky(ops: Ops, x: Value) -> Value:
    return ops.leaky_relu(ops.div(x, 2.0), 0.01)


def _tanh_scale_bias_pool(ops: Ops, x: Value) -> Value:
    return ops.pool("max", ops.add(ops.mul(ops.tanh(x), 2.0), _per_channel(ops, x, "bias")), 4, 4)


def _sub_sub_mish(ops: Ops, x: Value) -> Value:
    return ops.mish(ops.sub(ops.sub(x, 0.5), 0.2))


def _add_scale_sigmoid_norm(ops: Ops, x: Value) -> Value:
    shifted = ops.add(x, _per_channel(ops, x, "bias"))
    y = ops.sigmoid(ops.mul(shifted, _per_channel(ops, x, "scale", 1.0)))
    return ops.group_norm(y, *ops.scale_shift("norm", ops.shape(x)[1]), groups=8)


def _norm_tanh_hswish_res_lse(ops: Ops, x: Value) -> Value:
    normal = ops.group_norm(x, *ops.scale_shift("norm", ops.shape(x)[1]), groups=8)
    return ops.log_sum_exp(ops.add(x, ops.hard_swish(ops.tanh(normal))), 1)


def _images(sizes: Sizes) -> list[TensorSpec]:
    batch, inside, _, height, width = sizes
    return [TensorSpec("x", (batch, inside, height, width))]


def _after_conv(chain: Graph) -> Callable[..., Sequence[Value]]:
    def graph(ops: Ops, sizes: Sizes, x: Value) -> Sequence[Value]:
        conv = ops.bias_channels(ops.conv_of(x, "conv", sizes[2], 3), "conv_bias")
        return (chain(ops, conv),)

    return graph


def _fits_kernel(least: int, groups: int = 1) -> Callable[[Sizes], str | None]:
    def check(sizes: Sizes) -> str | None:
        if min(sizes[3:]) < least:
            return f"height and width {sizes[3]}x{sizes[4]} are below {least}, the least that window and pool need"
        if sizes[2] % groups:
            return f"{sizes[2]} output channels are not a multiple of {groups}, the groups of the norm"
        return None

    return check


def _conv(
    number: int, name: str, chain: Graph, default: Sizes, published: Sizes, least: int = 3, groups: int = 1
) -> Template:
    return Template(
        f"kb{number}_conv_{name}",
        f"KernelBench level 2 #{number}: 3x3 convolution, {name.replace('_', ', ')}",
        CONV_DIMS,
        {"default": default, "small": (1, 3, 16, 20, 20), "published": published},
        _images,
        _after_conv(chain),
        memory_bound=False,
        tags=("kernelbench",),
        check=_fits_kernel(least, groups),
    )


def _linear_gelu_softmax(ops: Ops, sizes: Sizes, x: Value) -> Sequence[Value]:
    return (ops.softmax(ops.gelu(ops.dense(x, "linear", sizes[2]))),)


def _linear_swish_bias_norm(ops: Ops, sizes: Sizes, x: Value) -> Sequence[Value]:
    y = ops.dense(x, "linear", sizes[2])
    y = ops.add(ops.mul(ops.sigmoid(y), y), ops.weight("bias", (sizes[2],)))
    groups = 64 if sizes[2] % 64 == 0 else 1
    grouped = ops.reshape(y, (sizes[0], groups, sizes[2] // groups))
    mean = ops.reduce("mean", grouped, -1, keepdims=True)
    centred = ops.sub(grouped, mean)
    variance = ops.reduce("mean", ops.mul(centred, centred), -1, keepdims=True)
    normal = ops.div(centred, ops.unary("sqrt", ops.add(variance, 1e-5)))
    gamma, beta = ops.scale_shift("norm", sizes[2])
    return (ops.add(ops.mul(ops.reshape(normal, (sizes[0], sizes[2])), gamma), beta),)


def _rows(sizes: Sizes) -> list[TensorSpec]:
    return [TensorSpec("x", sizes[:2])]


def _linear(
    number: int, name: str, graph: Callable[..., Sequence[Value]], default: Sizes, published: Sizes
) -> Template:
    return Template(
        f"kb{number}_linear_{name}",
        f"KernelBench level 2 #{number}: linear, {name.replace('_', ', ')}",
        ("rows", "in", "out"),
        {"default": default, "small": (16, 64, 128), "published": published},
        _rows,
        graph,
        memory_bound=False,
        tags=("kernelbench",),
    )


_WIDE, _WIDE_FULL = (2, 8, 64, 64, 64), (128, 8, 64, 128, 128)
_DEEP, _DEEP_FULL = (1, 64, 128, 32, 32), (128, 64, 128, 128, 128)

TEMPLATES = (
    _conv(1, "relu_bias", _relu_bias, _DEEP, _DEEP_FULL),
    _conv(4, "mish_mish", _mish_mish, _DEEP, (64, 64, 128, 256, 256)),
    _conv(21, "add_scale_sigmoid_norm", _add_scale_sigmoid_norm, (2, 8, 32, 64, 64), (128, 8, 32, 256, 256), groups=8),
    _conv(25, "min_tanh_tanh", _min_tanh_tanh, (2, 16, 64, 64, 64), (128, 16, 64, 256, 256)),
    _conv(31, "min_add_mul", _min_add_mul, _DEEP, _DEEP_FULL),
    _conv(35, "sub_hswish_pool_mish", _sub_hswish_pool_mish, _DEEP, _DEEP_FULL, least=4),
    _conv(46, "sub_tanh_sub_pool", _sub_tanh_sub_pool, _DEEP, _DEEP_FULL, least=4),
    _conv(54, "mul_leaky_gelu", _mul_leaky_gelu, (1, 64, 64, 48, 48), (64, 64, 64, 256, 256)),
    _conv(57, "relu_hswish", _relu_hswish, _WIDE, _WIDE_FULL),
    _conv(69, "hswish_relu", _hswish_relu, _WIDE, _WIDE_FULL),
    _conv(71, "div_leaky", _div_leaky, _WIDE, _WIDE_FULL),
    _conv(82, "tanh_scale_bias_pool", _tanh_scale_bias_pool, _WIDE, (128, 8, 64, 256, 256), least=6),
    _conv(87, "sub_sub_mish", _sub_sub_mish, _WIDE, (128, 8, 64, 256, 256)),
    _conv(92, "norm_tanh_hswish_res_lse", _norm_tanh_hswish_res_lse, _WIDE, _WIDE_FULL, groups=8),
    _linear(37, "swish_bias_norm", _linear_swish_bias_norm, (512, 256, 512), (32768, 1024, 4096)),
    _linear(99, "gelu_softmax", _linear_gelu_softmax, (256, 512, 512), (1024, 8192, 8192)),
)
