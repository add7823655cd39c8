"""Workloads with a reduction along rows or channels: softmax, normalisations, losses."""

from __future__ import annotations

from collections.abc import Sequence

from tvm_vfuse.workloads.elementwise import MATRIX, PLANE
from tvm_vfuse.workloads.ops import Ops, Value
from tvm_vfuse.workloads.template import Sizes, Template, same_shape
from tvm_vfuse.workloads.tensors import TensorSpec

FP8_MAX = 448.0
"""Greatest finite float8_e4m3fn value (OCP 8-bit floating point specification, revision 1.0)."""


def _softmax(ops: Ops, _sizes: Sizes, x: Value) -> Sequence[Value]:
    return (ops.softmax(x),)


def _mask_softmax(ops: Ops, _sizes: Sizes, x: Value, mask: Value) -> Sequence[Value]:
    return (ops.softmax(ops.add(ops.mul(x, 0.125), mask)),)


def _mask_inputs(sizes: Sizes) -> list[TensorSpec]:
    return [TensorSpec("x", sizes), TensorSpec("mask", sizes)]


def _score_inputs(sizes: Sizes) -> list[TensorSpec]:
    return [TensorSpec("scores", sizes), TensorSpec("mask", (sizes[0], 1, 1, sizes[3]), "mask")]


def _layer_norm(ops: Ops, sizes: Sizes, x: Value) -> Sequence[Value]:
    return (ops.layer_norm(x, *ops.scale_shift("norm", sizes[-1])),)


def residual_layer_norm(ops: Ops, sizes: Sizes, x: Value, residual: Value) -> Sequence[Value]:
    """Residual sum and its LayerNorm, both returned."""
    total = ops.add(x, residual)
    return total, ops.layer_norm(total, *ops.scale_shift("norm", sizes[-1]))


def _bias_residual_layer_norm(ops: Ops, sizes: Sizes, x: Value, residual: Value) -> Sequence[Value]:
    total = ops.add(ops.add(x, ops.weight("bias", (sizes[-1],))), residual)
    return (ops.layer_norm(total, *ops.scale_shift("norm", sizes[-1])),)


def _rms_norm(ops: Ops, sizes: Sizes, x: Value) -> Sequence[Value]:
    return (ops.rms_norm(x, ops.scale_shift("norm", sizes[-1])[0]),)


def add_rms_norm(ops: Ops, sizes: Sizes, x: Value, residual: Value) -> Sequence[Value]:
    """Residual sum and its RMSNorm, both returned."""
    total = ops.add(x, residual)
    return total, ops.rms_norm(total, ops.scale_shift("norm", sizes[-1])[0])


def _rms_norm_channels(ops: Ops, _sizes: Sizes, x: Value) -> Sequence[Value]:
    square = ops.reduce("mean", ops.mul(x, x), 1, keepdims=True)
    return (ops.div(x, ops.unary("sqrt", ops.add(square, 1e-5))),)


def _swiglu_amax(ops: Ops, _sizes: Sizes, gate: Value, up: Value) -> Sequence[Value]:
    y = ops.mul(ops.unary("silu", gate), up)
    amax = ops.reduce("max", ops.unary("abs", y), -1, keepdims=True)
    scale = ops.mul(ops.binary("maximum", amax, 1e-4), 1.0 / FP8_MAX)
    return ops.clip(ops.div(y, scale), -FP8_MAX, FP8_MAX), scale


def _log_softmax_nll(ops: Ops, _sizes: Sizes, x: Value, targets: Value) -> Sequence[Value]:
    return (ops.nll_loss(ops.log_softmax(x), targets),)


def _nll_inputs(sizes: Sizes) -> list[TensorSpec]:
    return [TensorSpec("x", sizes), TensorSpec("targets", sizes[:1], "index", "int64", high=sizes[1])]


def _logsoftmax_gather(ops: Ops, _sizes: Sizes, x: Value, targets: Value) -> Sequence[Value]:
    return (ops.unary("negative", ops.gather_elements(ops.log_softmax(x), targets, axis=1)),)


def _gather_inputs(sizes: Sizes) -> list[TensorSpec]:
    return [TensorSpec("x", sizes), TensorSpec("targets", (sizes[0], 1), "index", "int64", high=sizes[1])]


def _relu_rowsum(ops: Ops, _sizes: Sizes, x: Value, y: Value) -> Sequence[Value]:
    e = ops.relu(ops.add(x, y))
    return e, ops.reduce("sum", e, -1)


_BENCH = (
    Template(
        "softmax",
        "softmax along rows",
        MATRIX,
        {
            "default": (4096, 2048),
            "large": (4096, 2048),
            "small": (128, 512),
            "published": (16384, 4096),
            "published32k": (16384, 32768),
            "published128k": (16384, 131072),
        },
        same_shape("x"),
        _softmax,
        tags=("bench", "published"),
    ),
    Template(
        "mask_softmax", "softmax(x / 8 + mask), full mask", MATRIX, PLANE, _mask_inputs, _mask_softmax, tags=("bench",)
    ),
    Template(
        "res_layernorm",
        "x + y and its LayerNorm, both returned",
        MATRIX,
        PLANE,
        same_shape("x", "y"),
        residual_layer_norm,
        tags=("bench",),
    ),
    Template("rmsnorm", "RMSNorm along rows", MATRIX, PLANE, same_shape("x"), _rms_norm, tags=("bench",)),
    Template(
        "logsoftmax_nll",
        "log-softmax, then each row's target picked",
        MATRIX,
        PLANE,
        _gather_inputs,
        _logsoftmax_gather,
        tags=("bench",),
    ),
    Template(
        "relu_rowsum",
        "ReLU(x + y) and its row sums, both returned",
        MATRIX,
        PLANE,
        same_shape("x", "y"),
        _relu_rowsum,
        tags=("bench",),
    ),
)

_PUBLISHED = (
    Template(
        "add_rms_norm",
        "x + residual and its RMSNorm, both returned",
        MATRIX,
        {
            "default": (1024, 4096),
            "small": (64, 512),
            "published": (16384, 8192),
            "published4k": (4096, 8192),
            "published64k": (65536, 8192),
        },
        same_shape("x", "residual"),
        add_rms_norm,
    ),
    Template(
        "layer_norm",
        "LayerNorm along rows",
        MATRIX,
        {"default": (2048, 4096), "small": (64, 512), "published": (32768, 4096)},
        same_shape("x"),
        _layer_norm,
    ),
    Template(
        "scale_mask_softmax",
        "attention scores: scale, add a mask broadcast over heads and queries, softmax",
        ("batch", "heads", "queries", "keys"),
        {"default": (2, 12, 512, 512), "small": (1, 4, 64, 64), "published": (32, 12, 512, 512)},
        _score_inputs,
        _mask_softmax,
    ),
    Template(
        "bias_residual_layer_norm",
        "bias, residual, LayerNorm: BERT's output block",
        MATRIX,
        {"default": (8192, 768), "small": (128, 768), "published": (65536, 768)},
        same_shape("x", "residual"),
        _bias_residual_layer_norm,
    ),
    Template(
        "swiglu_amax",
        "SwiGLU scaled by each row's largest value to float8's range (kept in the workload's dtype), and the scales",
        MATRIX,
        {"default": (512, 14336), "small": (32, 512), "published": (16384, 14336)},
        same_shape("gate", "up"),
        _swiglu_amax,
    ),
    Template(
        "log_softmax_nll",
        "log-softmax and mean negative log-likelihood",
        MATRIX,
        {"default": (2048, 4096), "small": (64, 512), "published": (32768, 4096)},
        _nll_inputs,
        _log_softmax_nll,
        dtypes=("float32", "bfloat16"),
    ),
    Template(
        "rms_norm_channels",
        "RMSNorm over the channels of images: a reduction along a strided axis",
        ("batch", "channels", "height", "width"),
        {"default": (4, 64, 128, 128), "small": (1, 16, 32, 32), "published": (112, 64, 512, 512)},
        same_shape("x"),
        _rms_norm_channels,
    ),
)

TEMPLATES = _BENCH + tuple(t.renamed(t.name, tags=("published",)) for t in _PUBLISHED)
