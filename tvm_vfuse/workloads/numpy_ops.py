"""`Ops` evaluated by NumPy in float64: the reference of a workload, independent of TVM."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tvm_vfuse.workloads import numpy_nn
from tvm_vfuse.workloads.ops import Ops, Value, Weights
from tvm_vfuse.workloads.tensors import numpy_dtype

_UNARY: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "exp": np.exp,
    "log": np.log,
    "tanh": np.tanh,
    "sigmoid": lambda x: 1.0 / (1.0 + np.exp(-x)),
    "sqrt": np.sqrt,
    "abs": np.abs,
    "erf": numpy_nn.erf,
    "negative": np.negative,
    "relu": lambda x: np.maximum(x, 0.0),
    "gelu": lambda x: 0.5 * x * (1.0 + numpy_nn.erf(x * math.sqrt(0.5))),
    "gelu_tanh": lambda x: 0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3))),
    "silu": lambda x: x / (1.0 + np.exp(-x)),
    "softplus": lambda x: np.logaddexp(0.0, x),
}
_BINARY = ("add", "subtract", "multiply", "divide", "maximum", "minimum")


class _NumpyOps(Ops):
    """float64 evaluation; weights and scalars are first rounded to the workload's dtype."""

    def constant(self, value: np.ndarray) -> Value:
        return value if value.dtype.kind in "iub" else value.astype(np.float64)

    def shape(self, x: Value) -> tuple[int, ...]:
        return tuple(x.shape)

    def unary(self, name: str, x: Value) -> Value:
        return _UNARY[name](x)

    def binary(self, name: str, x: Value, y: Value | float) -> Value:
        if name not in _BINARY:
            raise KeyError(name)
        if isinstance(y, (int, float)):
            y = np.float64(numpy_dtype(self.dtype).type(y))
        return getattr(np, name)(x, y)

    def reduce(self, name: str, x: Value, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Value:
        axes = tuple(axis) if isinstance(axis, Sequence) else axis
        return getattr(np, name)(x, axis=axes, keepdims=keepdims)

    def clip(self, x: Value, low: float, high: float) -> Value:
        return np.clip(x, low, high)

    def leaky_relu(self, x: Value, slope: float) -> Value:
        return np.where(x > 0.0, x, x * slope)

    def softmax(self, x: Value, axis: int = -1) -> Value:
        raised = np.exp(x - x.max(axis=axis, keepdims=True))
        return raised / raised.sum(axis=axis, keepdims=True)

    def log_softmax(self, x: Value, axis: int = -1) -> Value:
        shifted = x - x.max(axis=axis, keepdims=True)
        return shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))

    def layer_norm(self, x: Value, gamma: Value, beta: Value, epsilon: float = 1e-5) -> Value:
        centred = x - x.mean(-1, keepdims=True)
        return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + epsilon) * gamma + beta

    def rms_norm(self, x: Value, gamma: Value, epsilon: float = 1e-5) -> Value:
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + epsilon) * gamma

    def group_norm(self, x: Value, gamma: Value, beta: Value, groups: int, epsilon: float = 1e-5) -> Value:
        grouped = x.reshape(x.shape[0], groups, -1)
        centred = grouped - grouped.mean(-1, keepdims=True)
        normal = (centred / np.sqrt((centred**2).mean(-1, keepdims=True) + epsilon)).reshape(x.shape)
        return normal * numpy_nn.channelwise(gamma, x.ndim) + numpy_nn.channelwise(beta, x.ndim)

    def batch_norm_of(
        self, x: Value, gamma: Value, beta: Value, mean: Value, variance: Value, epsilon: float, scale: bool
    ) -> Value:
        factor = (gamma if scale else 1.0) / np.sqrt(variance + epsilon)
        return (x - numpy_nn.channelwise(mean, x.ndim)) * numpy_nn.channelwise(factor, x.ndim) + numpy_nn.channelwise(
            beta, x.ndim
        )

    def nll_loss(self, log_probabilities: Value, targets: Value) -> Value:
        return np.asarray(-np.take_along_axis(log_probabilities, targets[:, None], 1).mean())

    def matmul(self, x: Value, y: Value) -> Value:
        return x @ y

    def conv(
        self, x: Value, weight: Value, strides: int = 1, padding: int | Sequence[int] = 0, groups: int = 1
    ) -> Value:
        return numpy_nn.conv(x, weight, strides, padding, groups)

    def conv2d_transpose(
        self, x: Value, weight: Value, strides: int, padding: int = 0, output_padding: int = 0
    ) -> Value:
        return numpy_nn.conv2d_transpose(x, weight, strides, padding, output_padding)

    def pool(self, name: str, x: Value, size: int, strides: int, padding: int = 0) -> Value:
        return numpy_nn.pool2d(name, x, size, strides, padding)

    def global_avg_pool(self, x: Value) -> Value:
        return x.mean(axis=(2, 3), keepdims=True)

    def reshape(self, x: Value, shape: Sequence[int]) -> Value:
        return x.reshape(tuple(shape))

    def transpose(self, x: Value, axes: Sequence[int]) -> Value:
        return x.transpose(tuple(axes))

    def concat(self, xs: Sequence[Value], axis: int) -> Value:
        return np.concatenate(list(xs), axis)

    def split(self, x: Value, parts: int, axis: int) -> list[Value]:
        return list(np.split(x, parts, axis))

    def strided_slice(
        self, x: Value, axes: Sequence[int], begin: Sequence[int], end: Sequence[int], strides: Sequence[int]
    ) -> Value:
        index = [slice(None)] * x.ndim
        for axis, low, high, step in zip(axes, begin, end, strides, strict=True):
            index[axis] = slice(low, high, step)
        return x[tuple(index)]

    def pad(self, x: Value, widths: Sequence[tuple[int, int]]) -> Value:
        return np.pad(x, list(widths))

    def take(self, x: Value, indices: Value, axis: int) -> Value:
        return np.take(x, indices, axis)

    def gather_elements(self, x: Value, indices: Value, axis: int) -> Value:
        return np.take_along_axis(x, indices, axis)


def evaluate(
    graph: Callable[..., Sequence[Value]], dtype: str, weights: Weights, inputs: Sequence[np.ndarray]
) -> list[np.ndarray]:
    """Evaluate a workload in float64.

    Parameters
    ----------
    graph : callable
        (ops, *inputs) -> outputs.
    dtype : str
        The workload's dtype: what weights and scalars are rounded to.
    weights : Weights
        Where weights come from.
    inputs : sequence of numpy.ndarray
        As sampled for the workload.

    Returns
    -------
    list of numpy.ndarray
        float64 (or integer) outputs in the module's order.
    """
    wide: list[Any] = [x if x.dtype.kind in "iub" else x.astype(np.float64) for x in inputs]
    return [np.asarray(out) for out in graph(_NumpyOps(dtype, weights), *wide)]
