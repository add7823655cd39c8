"""Small graphs, one fusion question each."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tvm_vfuse.workloads.elementwise import MATRIX, adamw_inputs, adamw_step
from tvm_vfuse.workloads.ops import Ops, Value
from tvm_vfuse.workloads.rows import add_rms_norm, residual_layer_norm
from tvm_vfuse.workloads.template import Sizes, Template, same_shape
from tvm_vfuse.workloads.tensors import TensorSpec

DEFAULT = {"default": (512, 1024), "small": (33, 77)}


def _add_relu(ops: Ops, _sizes: Sizes, x: Value, y: Value) -> Sequence[Value]:
    return (ops.relu(ops.add(x, y)),)


def _exp_relu_tanh(ops: Ops, _sizes: Sizes, x: Value) -> Sequence[Value]:
    e = ops.exp(x)
    return ops.relu(e), ops.tanh(e)


def _exp_and_plus_one(ops: Ops, _sizes: Sizes, x: Value) -> Sequence[Value]:
    e = ops.exp(x)
    return e, ops.add(e, 1.0)


def _exp_plus_one_and_sum(ops: Ops, _sizes: Sizes, x: Value) -> Sequence[Value]:
    e = ops.exp(x)
    return ops.add(e, 1.0), ops.reduce("sum", e, -1)


def _sum_and_max(ops: Ops, _sizes: Sizes, x: Value) -> Sequence[Value]:
    return ops.reduce("sum", x, -1), ops.reduce("max", x, -1)


def _sum_mul(ops: Ops, _sizes: Sizes, x: Value) -> Sequence[Value]:
    return (ops.mul(ops.reduce("sum", x, -1, keepdims=True), 0.5),)


def _transpose_sum(ops: Ops, _sizes: Sizes, x: Value) -> Sequence[Value]:
    return (ops.reduce("sum", ops.transpose(x, (1, 0)), -1),)


def _mean_sub_mul(ops: Ops, _sizes: Sizes, x: Value) -> Sequence[Value]:
    centred = ops.sub(x, ops.reduce("mean", x, -1, keepdims=True))
    return (ops.mul(centred, centred),)


def _softmax_by_hand(ops: Ops, _sizes: Sizes, x: Value) -> Sequence[Value]:
    e = ops.exp(ops.sub(x, ops.reduce("max", x, -1, keepdims=True)))
    return (ops.div(e, ops.reduce("sum", e, -1, keepdims=True)),)


def _exp_softmax(ops: Ops, _sizes: Sizes, x: Value) -> Sequence[Value]:
    return (ops.softmax(ops.exp(x)),)


def _scale_mask_softmax(ops: Ops, _sizes: Sizes, x: Value, mask: Value) -> Sequence[Value]:
    return (ops.softmax(ops.add(ops.mul(x, 0.125), mask)),)


def _log_sum_exp(ops: Ops, _sizes: Sizes, x: Value) -> Sequence[Value]:
    return (ops.log_sum_exp(x, -1),)


def _exp_exp_concat_relu(ops: Ops, _sizes: Sizes, x: Value, y: Value) -> Sequence[Value]:
    return (ops.relu(ops.concat([ops.exp(x), ops.exp(y)], axis=1)),)


def _exp_take(ops: Ops, _sizes: Sizes, x: Value, indices: Value) -> Sequence[Value]:
    return (ops.take(ops.exp(x), indices, axis=0),)


def _take_inputs(sizes: Sizes) -> list[TensorSpec]:
    return [TensorSpec("x", sizes), TensorSpec("indices", (max(1, sizes[0] // 2),), "index", "int64", high=sizes[0])]


def _chain(ops: Ops, sizes: Sizes, x: Value) -> Sequence[Value]:
    for i in range(sizes[2]):
        x = _link(ops, x, i)
    return (x,)


def _link(ops: Ops, x: Value, i: int) -> Value:
    kind = i % 4
    if kind == 0:
        return ops.add(x, 0.001)
    if kind == 1:
        return ops.mul(x, 0.999)
    if kind == 2:
        return ops.sub(x, 0.002)
    return ops.relu(x)


def _wide_add(ops: Ops, _sizes: Sizes, *xs: Value) -> Sequence[Value]:
    total = xs[0]
    for x in xs[1:]:
        total = ops.add(total, x)
    return (total,)


def _wide_inputs(sizes: Sizes) -> list[TensorSpec]:
    return [TensorSpec(f"x{i}", sizes[:2]) for i in range(sizes[2])]


def _tower(ops: Ops, sizes: Sizes, x: Value) -> Sequence[Value]:
    for _ in range(sizes[2]):
        x = ops.add(ops.mul(x, 0.5), ops.tanh(x))
    return (x,)


def _first_two(name: str) -> Callable[[Sizes], list[TensorSpec]]:
    return lambda sizes: [TensorSpec(name, sizes[:2])]


def _pattern(name: str, description: str, graph: Callable[..., Sequence[Value]], *inputs: str) -> Template:
    return Template(
        f"pattern_{name}",
        description,
        MATRIX,
        DEFAULT,
        same_shape(*inputs),
        graph,
        tags=("pattern",),
    )


def _deep(
    name: str,
    description: str,
    last: str,
    default: Sizes,
    graph: Callable[..., Sequence[Value]],
    inputs: Callable[[Sizes], Sequence[TensorSpec]],
) -> Template:
    sizes = {"default": default, "small": (8, 24, 12)}
    return Template(f"pattern_{name}", description, (*MATRIX, last), sizes, inputs, graph, tags=("pattern",))


TEMPLATES = (
    _pattern("add_relu", "add, ReLU", _add_relu, "x", "y"),
    _pattern("exp_relu_tanh", "exp read by ReLU and tanh, both returned", _exp_relu_tanh, "x"),
    _pattern("exp_and_plus_one", "exp(x) and exp(x) + 1, both returned", _exp_and_plus_one, "x"),
    _pattern("exp_plus_one_and_sum", "exp(x) + 1 and row sums of exp(x), both returned", _exp_plus_one_and_sum, "x"),
    _pattern("sum_and_max", "two reductions of one tensor, both returned", _sum_and_max, "x"),
    _pattern("sum_mul", "row sums, then a product", _sum_mul, "x"),
    _pattern("transpose_sum", "transpose, then a reduction", _transpose_sum, "x"),
    _pattern("mean_sub_mul", "(x - mean)^2", _mean_sub_mul, "x"),
    _pattern("softmax_by_hand", "max, subtract, exp, sum, divide", _softmax_by_hand, "x"),
    _pattern("exp_softmax", "exp, softmax", _exp_softmax, "x"),
    _pattern("add_layer_norm", "add, LayerNorm; the sum is returned too", residual_layer_norm, "x", "y"),
    _pattern("add_rms_norm", "add, RMSNorm; the sum is returned too", add_rms_norm, "x", "y"),
    _pattern("scale_mask_softmax", "softmax(x * s + mask)", _scale_mask_softmax, "x", "mask"),
    _pattern("log_sum_exp", "log(sum(exp(x))), stable", _log_sum_exp, "x"),
    _pattern("exp_exp_concat_relu", "two exps, concatenate, ReLU", _exp_exp_concat_relu, "x", "y"),
    Template(
        "pattern_exp_take", "exp, then rows gathered", MATRIX, DEFAULT, _take_inputs, _exp_take, tags=("pattern",)
    ),
    _deep("chain_1000", "a chain of 1000 elementwise operators", "length", (64, 1024, 1000), _chain, _first_two("x")),
    _deep("add_200_inputs", "200 tensors added", "inputs", (64, 1024, 200), _wide_add, _wide_inputs),
    _deep("diamond_tower_24", "24 diamonds, one on the other", "height", (64, 1024, 24), _tower, _first_two("x")),
    Template(
        "pattern_adamw",
        "AdamW step, three outputs",
        ("elements",),
        {"default": (1 << 20,), "small": (4099,)},
        adamw_inputs,
        adamw_step,
        tags=("pattern",),
        dtypes=("float32", "bfloat16"),
    ),
)
