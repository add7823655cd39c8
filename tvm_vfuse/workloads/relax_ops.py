"""`Ops` that emit Relax bindings: from a workload to its module."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tvm_vfuse.workloads.ops import Ops, Value, Weights
from tvm_vfuse.workloads.tensors import TensorSpec


class _RelaxOps(Ops):
    """One Relax binding for each operator; weights become constants.

    Parameters
    ----------
    builder : tvm.relax.BlockBuilder
        A builder inside a dataflow block.
    dtype : str
        dtype of weights and scalars.
    weights : Weights
        Where weights come from.
    """

    def __init__(self, builder: Any, dtype: str, weights: Weights) -> None:
        super().__init__(dtype, weights)
        from tvm import relax

        self._relax = relax
        self._op = relax.op
        self._builder = builder

    def _emit(self, expr: Any) -> Any:
        return self._builder.emit(expr)

    def _in_float32(self, call: Callable[..., Any], *args: Value) -> Value:
        """Emit a norm; TVM 0.27 legalizes none for bfloat16, so that goes through float32, as frameworks do."""
        if self.dtype != "bfloat16":
            return self._emit(call(*args))
        wide = [self._emit(self._op.astype(arg, "float32")) for arg in args]
        return self._emit(self._op.astype(self._emit(call(*wide)), self.dtype))

    def constant(self, value: np.ndarray) -> Value:
        return self._relax.const(value)

    def shape(self, x: Value) -> tuple[int, ...]:
        return tuple(int(extent) for extent in x.ty.shape.values)

    def unary(self, name: str, x: Value) -> Value:
        neural = name in ("relu", "gelu", "gelu_tanh", "silu", "softplus")
        return self._emit(getattr(self._op.nn if neural else self._op, name)(x))

    def binary(self, name: str, x: Value, y: Value | float) -> Value:
        if isinstance(y, (int, float)):
            y = self._relax.const(float(y), self.dtype)
        return self._emit(getattr(self._op, name)(x, y))

    def reduce(self, name: str, x: Value, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Value:
        axes = list(axis) if isinstance(axis, Sequence) else axis
        return self._emit(getattr(self._op, name)(x, axis=axes, keepdims=keepdims))

    def clip(self, x: Value, low: float, high: float) -> Value:
        return self._emit(self._op.clip(x, low, high))

    def leaky_relu(self, x: Value, slope: float) -> Value:
        return self._emit(self._op.nn.leakyrelu(x, slope))

    def softmax(self, x: Value, axis: int = -1) -> Value:
        return self._emit(self._op.nn.softmax(x, axis=axis))

    def log_softmax(self, x: Value, axis: int = -1) -> Value:
        return self._emit(self._op.nn.log_softmax(x, axis=axis))

    def layer_norm(self, x: Value, gamma: Value, beta: Value, epsilon: float = 1e-5) -> Value:
        return self._in_float32(lambda *args: self._op.nn.layer_norm(*args, axes=[-1], epsilon=epsilon), x, gamma, beta)

    def rms_norm(self, x: Value, gamma: Value, epsilon: float = 1e-5) -> Value:
        return self._emit(self._op.nn.rms_norm(x, gamma, axes=[-1], epsilon=epsilon))

    def group_norm(self, x: Value, gamma: Value, beta: Value, groups: int, epsilon: float = 1e-5) -> Value:
        axes = list(range(2, len(self.shape(x))))
        return self._in_float32(
            lambda *args: self._op.nn.group_norm(*args, num_groups=groups, channel_axis=1, axes=axes, epsilon=epsilon),
            x,
            gamma,
            beta,
        )

    def batch_norm_of(
        self, x: Value, gamma: Value, beta: Value, mean: Value, variance: Value, epsilon: float, scale: bool
    ) -> Value:
        call = self._op.nn.batch_norm(
            x, gamma, beta, mean, variance, axis=1, epsilon=epsilon, scale=scale, training=False
        )
        return self._emit(self._relax.TupleGetItem(self._emit(call), 0))

    def nll_loss(self, log_probabilities: Value, targets: Value) -> Value:
        return self._emit(self._op.nn.nll_loss(log_probabilities, targets, reduction="mean"))

    def matmul(self, x: Value, y: Value) -> Value:
        return self._emit(self._op.matmul(x, y))

    def conv(
        self, x: Value, weight: Value, strides: int = 1, padding: int | Sequence[int] = 0, groups: int = 1
    ) -> Value:
        rank = len(self.shape(weight)) - 2
        conv = self._op.nn.conv3d if rank == 3 else self._op.nn.conv2d
        return self._emit(conv(x, weight, strides=[strides] * rank, padding=padding, groups=groups))

    def conv2d_transpose(
        self, x: Value, weight: Value, strides: int, padding: int = 0, output_padding: int = 0
    ) -> Value:
        call = self._op.nn.conv2d_transpose(x, weight, strides=strides, padding=padding, output_padding=output_padding)
        return self._emit(call)

    def pool(self, name: str, x: Value, size: int, strides: int, padding: int = 0) -> Value:
        pool = self._op.nn.max_pool2d if name == "max" else self._op.nn.avg_pool2d
        return self._emit(pool(x, pool_size=[size, size], strides=[strides, strides], padding=padding))

    def global_avg_pool(self, x: Value) -> Value:
        return self._emit(self._op.nn.adaptive_avg_pool2d(x, (1, 1)))

    def reshape(self, x: Value, shape: Sequence[int]) -> Value:
        return self._emit(self._op.reshape(x, tuple(shape)))

    def transpose(self, x: Value, axes: Sequence[int]) -> Value:
        return self._emit(self._op.permute_dims(x, list(axes)))

    def concat(self, xs: Sequence[Value], axis: int) -> Value:
        return self._emit(self._op.concat(list(xs), axis=axis))

    def split(self, x: Value, parts: int, axis: int) -> list[Value]:
        pieces = self._emit(self._op.split(x, parts, axis=axis))
        return [self._emit(self._relax.TupleGetItem(pieces, i)) for i in range(parts)]

    def strided_slice(
        self, x: Value, axes: Sequence[int], begin: Sequence[int], end: Sequence[int], strides: Sequence[int]
    ) -> Value:
        return self._emit(self._op.strided_slice(x, list(axes), list(begin), list(end), list(strides)))

    def pad(self, x: Value, widths: Sequence[tuple[int, int]]) -> Value:
        return self._emit(self._op.nn.pad(x, [w for pair in widths for w in pair]))

    def take(self, x: Value, indices: Value, axis: int) -> Value:
        return self._emit(self._op.take(x, indices, axis=axis, mode="clip"))

    def gather_elements(self, x: Value, indices: Value, axis: int) -> Value:
        return self._emit(self._op.gather_elements(x, indices, axis=axis))


def build_module(
    graph: Callable[..., Sequence[Value]], specs: Sequence[TensorSpec], dtype: str, weights: Weights
) -> Any:
    """Make the module of a workload.

    Parameters
    ----------
    graph : callable
        (ops, *inputs) -> outputs.
    specs : sequence of TensorSpec
        Parameters of ``main``.
    dtype : str
        dtype of weights, scalars and inputs without one of their own.
    weights : Weights
        Where weights come from.

    Returns
    -------
    tvm.IRModule
        One public function ``main`` of one dataflow block; several outputs come back as a tuple.
    """
    from tvm import relax, tirx

    builder = relax.BlockBuilder()
    symbols: dict[str, Any] = {}
    params = []
    for spec in specs:
        lead = [symbols.setdefault(name, tirx.Var(name, "int64")) for name in spec.symbolic]
        shape = [*lead, *spec.shape[len(lead) :]]
        params.append(relax.Var(spec.name, relax.TensorType(shape, spec.dtype or dtype)))
    with builder.function("main", params):
        with builder.dataflow():
            outputs = [builder.emit_output(out) for out in graph(_RelaxOps(builder, dtype, weights), *params)]
        builder.emit_func_output(outputs[0] if len(outputs) == 1 else relax.Tuple(outputs))
    return builder.finalize()
