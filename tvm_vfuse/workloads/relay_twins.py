"""Small graphs that Relay's test modules have, written in Relax, with Relay's weight names: for comparing the two."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tvm_vfuse.workloads.ops import Ops, Value
from tvm_vfuse.workloads.template import Sizes, Template
from tvm_vfuse.workloads.tensors import TensorSpec

Shape = tuple[int, ...]


def _add_relu(ops: Ops, _sizes: Sizes, x: Value, y: Value) -> Sequence[Value]:
    return (ops.mul(ops.relu(ops.add(x, y)), 2.0),)


def _conv_bn_relu(ops: Ops, _sizes: Sizes, x: Value) -> Sequence[Value]:
    return (ops.relu(ops.batch_norm(ops.conv_of(x, "conv0", 16, 3, 1, 1), "bn0")),)


def _residual(ops: Ops, _sizes: Sizes, x: Value) -> Sequence[Value]:
    y = ops.relu(ops.batch_norm(ops.conv_of(x, "c1", 16, 3, 1, 1), "bn1"))
    y = ops.batch_norm(ops.conv_of(y, "c2", 16, 3, 1, 1), "bn2")
    return (ops.relu(ops.add(y, x)),)


def _const_meta(ops: Ops, _sizes: Sizes, x: Value) -> Sequence[Value]:
    return (ops.relu(ops.conv_of(x, "conv", 4, 3, 1, 1)),)


def _mlp_small(ops: Ops, _sizes: Sizes, x: Value) -> Sequence[Value]:
    return (ops.softmax(ops.dense(ops.relu(ops.dense(x, "fc1", 64)), "fc2", 10)),)


def _mlp(ops: Ops, sizes: Sizes, x: Value) -> Sequence[Value]:
    y = ops.reshape(x, (sizes[0], 784))
    y = ops.relu(ops.dense(y, "fc1", 128))
    y = ops.relu(ops.dense(y, "fc2", 64))
    return (ops.softmax(ops.dense(y, "fc3", 10)),)


def _gelu_mlp(ops: Ops, _sizes: Sizes, x: Value) -> Sequence[Value]:
    y = ops.dense(x, "w1", 256, bias="b1")
    shape = ops.unary("erf", ops.mul(y, 0.707107))
    y = ops.mul(ops.mul(y, 0.5), ops.add(shape, 1.0))
    return (ops.dense(y, "w2", 64, bias="b2"),)


def _layer_norm(ops: Ops, _sizes: Sizes, x: Value) -> Sequence[Value]:
    return (ops.layer_norm(x, ops.weight("gamma", (64,), 0.1, 1.0), ops.weight("beta", (64,), 0.1)),)


def _softmax(ops: Ops, _sizes: Sizes, x: Value) -> Sequence[Value]:
    return (ops.softmax(x),)


def _attention(ops: Ops, _sizes: Sizes, x: Value) -> Sequence[Value]:
    def per_head(name: str) -> Value:
        return ops.transpose(ops.reshape(ops.dense(x, name, 64), (16, 4, 16)), (1, 0, 2))

    query, key, value = per_head("q"), per_head("k"), per_head("v")
    scores = ops.mul(ops.matmul(query, ops.transpose(key, (0, 2, 1))), 0.25)
    context = ops.transpose(ops.matmul(ops.softmax(scores), value), (1, 0, 2))
    total = ops.add(ops.reshape(context, (16, 64)), x)
    return (ops.layer_norm(total, *ops.scale_shift("ln", 64)),)


def _misc_ops(ops: Ops, _sizes: Sizes, x: Value) -> Sequence[Value]:
    rows = ops.strided_slice(x, (2,), (2,), (14,), (2,))
    low, high = ops.split(rows, 2, axis=1)
    y = ops.concat([high, ops.sigmoid(low)], axis=1)
    y = ops.pad(y, [(0, 0), (0, 0), (1, 1), (1, 1)])
    y = ops.pool("avg", ops.pool("max", y, 2, 2), 2, 1, 1)
    y = ops.clip(ops.reduce("mean", y, (2, 3)), -1.0, 1.0)
    return (ops.tanh(ops.reshape(ops.reshape(y, (8,)), (1, 8))),)


def _lstm_cell(ops: Ops, _sizes: Sizes, x: Value) -> Sequence[Value]:
    width = 32
    state = ops.weight("state", (1, width), 0.0)
    gates = ops.add(ops.dense(x, "i2h_0", 4 * width), ops.dense(state, "h2h_0", 4 * width))
    enter, forget, candidate, leave = ops.split(gates, 4, axis=1)
    kept = ops.mul(ops.sigmoid(forget), state)
    cell = ops.add(kept, ops.mul(ops.sigmoid(enter), ops.tanh(candidate)))
    return (ops.mul(ops.sigmoid(leave), ops.tanh(cell)),)


def _dyn_batch(ops: Ops, _sizes: Sizes, x: Value) -> Sequence[Value]:
    return (ops.relu(ops.matmul(x, ops.weight("w_weight", (32, 16), 0.18))),)


def _twin(
    name: str,
    stem: str,
    description: str,
    graph: Callable[..., Sequence[Value]],
    *shapes: Shape,
    memory_bound: bool = False,
    symbolic: tuple[str, ...] = (),
) -> Template:
    names = ("x", "y") if len(shapes) > 1 else ("data",)

    def inputs(_sizes: Sizes) -> list[TensorSpec]:
        return [TensorSpec(n, s, symbolic=symbolic) for n, s in zip(names, shapes, strict=True)]

    return Template(
        name,
        f"{description} (Relay's test graph)",
        (),
        {"default": ()},
        inputs,
        graph,
        memory_bound=memory_bound,
        tags=("relay-twin", f"relay:{stem}"),
    )


TEMPLATES = (
    _twin("relay_add_relu", "add_relu", "add, ReLU, double", _add_relu, (8, 64), (8, 64), memory_bound=True),
    _twin("relay_layer_norm", "layer_norm", "LayerNorm", _layer_norm, (2, 16, 64), memory_bound=True),
    _twin("relay_softmax", "softmax", "softmax", _softmax, (2, 8, 16, 16), memory_bound=True),
    _twin("relay_conv_bn_relu", "conv_bn_relu", "convolution, batch norm, ReLU", _conv_bn_relu, (1, 3, 32, 32)),
    _twin("residual", "residual", "residual block", _residual, (1, 16, 16, 16)),
    _twin("const_meta", "const_meta", "convolution with a constant weight, ReLU", _const_meta, (1, 3, 8, 8)),
    _twin("mlp_small", "mlp_small", "two dense layers, softmax", _mlp_small, (4, 32)),
    _twin("gelu_mlp", "gelu_mlp", "dense, GELU written out, dense", _gelu_mlp, (8, 64)),
    _twin("attention", "attention", "four-head self-attention, residual, LayerNorm", _attention, (16, 64)),
    _twin(
        "misc_ops",
        "misc_ops",
        "slice, split, concatenate, pad, pools, mean, clip",
        _misc_ops,
        (1, 8, 16, 16),
        memory_bound=True,
    ),
    _twin("lstm_cell", "rt_lstm_cell_net", "one LSTM cell from a zero state", _lstm_cell, (1, 32)),
    _twin("dyn_batch", "dyn_batch", "dense, ReLU over a symbolic batch", _dyn_batch, (4, 32), symbolic=("n",)),
    Template(
        "mlp",
        "three dense layers, softmax (Relay's test graph)",
        ("batch",),
        {"default": (1,), "small": (1,)},
        lambda sizes: [TensorSpec("data", (sizes[0], 1, 28, 28))],
        _mlp,
        memory_bound=False,
        tags=("relay-twin", "relay:rt_mlp"),
    ),
)
