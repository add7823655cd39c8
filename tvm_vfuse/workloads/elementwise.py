"""Workloads without a reduction: chains, gates, fan-out, broadcasts, a transpose, an optimiser step."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tvm_vfuse.workloads.ops import Ops, Value
from tvm_vfuse.workloads.template import Sizes, Template, same_shape
from tvm_vfuse.workloads.tensors import TensorSpec

MATRIX = ("rows", "columns")
PLANE = {"default": (2048, 2048), "large": (2048, 2048), "small": (128, 512)}


def _add_relu(ops: Ops, _sizes: Sizes, x: Value, y: Value) -> Sequence[Value]:
    return (ops.relu(ops.add(x, y)),)


def _chain8(ops: Ops, _sizes: Sizes, x: Value, y: Value) -> Sequence[Value]:
    bent = ops.relu(ops.add(ops.mul(x, 1.1), 0.5))
    rooted = ops.unary("sqrt", ops.unary("abs", ops.sub(ops.mul(bent, y), x)))
    return (ops.binary("minimum", rooted, 3.0),)


def _gelu_tanh(ops: Ops, sizes: Sizes, x: Value) -> Sequence[Value]:
    return (ops.unary("gelu_tanh", ops.add(x, ops.weight("bias", (sizes[-1],)))),)


def _gelu_erf(ops: Ops, sizes: Sizes, x: Value) -> Sequence[Value]:
    return (ops.gelu(ops.add(x, ops.weight("bias", (sizes[-1],)))),)


def _silu_gate(ops: Ops, _sizes: Sizes, gate: Value, up: Value) -> Sequence[Value]:
    return (ops.mul(ops.unary("silu", gate), up),)


def _diamond(ops: Ops, _sizes: Sizes, x: Value, y: Value) -> Sequence[Value]:
    shared = ops.tanh(x)
    return ops.mul(shared, 2.0), ops.add(shared, y), ops.mul(shared, shared)


def _transpose_add(ops: Ops, _sizes: Sizes, x: Value, y: Value) -> Sequence[Value]:
    return (ops.add(x, ops.transpose(y, (1, 0))),)


def _transpose_inputs(sizes: Sizes) -> list[TensorSpec]:
    return [TensorSpec("x", sizes), TensorSpec("y", sizes[::-1])]


def adamw_step(
    ops: Ops, _sizes: Sizes, parameter: Value, gradient: Value, first: Value, second: Value
) -> Sequence[Value]:
    """AdamW's step 10: the new parameter and both moments (learning rate 1e-3, decay 0.01)."""
    rate, beta1, beta2, epsilon, decay, step = 1e-3, 0.9, 0.999, 1e-8, 0.01, 10
    decayed = ops.mul(parameter, 1.0 - rate * decay)
    m = ops.add(ops.mul(first, beta1), ops.mul(gradient, 1.0 - beta1))
    v = ops.add(ops.mul(second, beta2), ops.mul(ops.mul(gradient, gradient), 1.0 - beta2))
    scaled = ops.mul(ops.unary("sqrt", v), 1.0 / math.sqrt(1.0 - beta2**step))
    update = ops.div(ops.mul(m, rate / (1.0 - beta1**step)), ops.add(scaled, epsilon))
    return ops.sub(decayed, update), m, v


def adamw_inputs(sizes: Sizes) -> list[TensorSpec]:
    """Parameter, gradient and both moments; the second moment is not negative."""
    names = ("parameter", "gradient", "first_moment")
    return [*(TensorSpec(n, sizes) for n in names), TensorSpec("second_moment", sizes, "positive")]


def _exp_chain(ops: Ops, sizes: Sizes, x: Value, b: Value) -> Sequence[Value]:
    z = x
    for _ in range(sizes[2]):
        z = ops.exp(ops.sub(x, ops.mul(z, 0.5)))
    return (ops.add(b, z),)


def _exp_chain_inputs(sizes: Sizes) -> list[TensorSpec]:
    return [TensorSpec("x", (sizes[0], 1), "small"), TensorSpec("b", sizes[:2], "small")]


def _rotate(ops: Ops, x: Value, cosine: Value, sine: Value) -> Value:
    low, high = ops.split(x, 2, axis=3)
    turned = ops.concat([ops.unary("negative", high), low], axis=3)
    return ops.add(ops.mul(x, cosine), ops.mul(turned, sine))


def _rope(ops: Ops, _sizes: Sizes, q: Value, k: Value, cosine: Value, sine: Value) -> Sequence[Value]:
    return _rotate(ops, q, cosine, sine), _rotate(ops, k, cosine, sine)


def _rope_inputs(sizes: Sizes) -> list[TensorSpec]:
    batch, steps, q_heads, kv_heads, width = sizes
    table = (1, steps, 1, width)
    return [
        TensorSpec("q", (batch, steps, q_heads, width)),
        TensorSpec("k", (batch, steps, kv_heads, width)),
        TensorSpec("cosine", table, "angle"),
        TensorSpec("sine", table, "angle"),
    ]


def _even_width(sizes: Sizes) -> str | None:
    return f"head width {sizes[4]} is odd; halves are rotated" if sizes[4] % 2 else None


TEMPLATES = (
    Template("add_relu", "x + y, ReLU", MATRIX, PLANE, same_shape("x", "y"), _add_relu, tags=("bench",)),
    Template("chain8", "eight elementwise operators", MATRIX, PLANE, same_shape("x", "y"), _chain8, tags=("bench",)),
    Template("gelu_tanh", "bias, GELU by tanh", MATRIX, PLANE, same_shape("x"), _gelu_tanh, tags=("bench",)),
    Template("gelu_erf", "bias, GELU by erf", MATRIX, PLANE, same_shape("x"), _gelu_erf, tags=("bench",)),
    Template("silu_gate", "SiLU(gate) * up", MATRIX, PLANE, same_shape("gate", "up"), _silu_gate, tags=("bench",)),
    Template(
        "diamond", "tanh(x) read by three outputs", MATRIX, PLANE, same_shape("x", "y"), _diamond, tags=("bench",)
    ),
    Template(
        "transpose_add",
        "x + transpose of y",
        MATRIX,
        {"default": (3072, 3072), "large": (3072, 3072), "small": (256, 256)},
        _transpose_inputs,
        _transpose_add,
        tags=("bench",),
    ),
    Template(
        "adamw",
        "AdamW step: parameter and two moments out",
        ("elements",),
        {"default": (1 << 24,), "large": (1 << 24,), "small": (1 << 16,)},
        adamw_inputs,
        adamw_step,
        tags=("bench",),
        dtypes=("float32", "bfloat16"),
    ),
    Template(
        "bias_gelu",
        "bias, GELU: a transformer's feed-forward epilogue",
        MATRIX,
        {"default": (2048, 3072), "published": (65536, 3072), "small": (128, 768)},
        same_shape("x"),
        _gelu_erf,
        tags=("published",),
    ),
    Template(
        "rope",
        "rotary embedding of q and k, both returned",
        ("batch", "steps", "q heads", "kv heads", "head width"),
        {"default": (1, 512, 32, 8, 128), "published": (8, 4096, 32, 8, 128), "small": (1, 32, 4, 2, 64)},
        _rope_inputs,
        _rope,
        tags=("published",),
        check=_even_width,
    ),
    Template(
        "exp_chain",
        "exp chain on a column, then broadcast add (regression of stock fusion, tvm #20342)",
        ("rows", "columns", "depth"),
        {
            "default": (2048, 2048, 8),
            "published": (4096, 4096, 8),
            "published16": (4096, 4096, 16),
            "small": (128, 96, 8),
        },
        _exp_chain_inputs,
        _exp_chain,
        tags=("regression",),
    ),
)
