"""The operators that workloads are written in.

A workload is one function over `Ops`. relax_ops makes a Relax module of it; numpy_ops evaluates it in float64, with
implementations of its own, for reference.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tvm_vfuse.workloads.tensors import numpy_dtype, stream

Value = Any
"""A Relax expression, or a NumPy array: what the implementation at hand works on."""
Weights = Callable[[str, tuple[int, ...], float, float], np.ndarray]
"""(name, shape, scale, centre) -> float32 array."""


def seeded_weights(owner: str) -> Weights:
    """Normal weights that depend on the workload's and the weight's name alone."""

    def make(name: str, shape: tuple[int, ...], scale: float, centre: float) -> np.ndarray:
        noise = stream(owner, name).standard_normal(shape, dtype=np.float32)
        return noise * np.float32(scale) + np.float32(centre)

    return make


class Ops(ABC):
    """Operators common to both implementations, and those composed of them.

    Parameters
    ----------
    dtype : str
        dtype of weights and scalars.
    weights : Weights
        Where weights come from.
    """

    def __init__(self, dtype: str, weights: Weights) -> None:
        self.dtype = dtype
        self.weights = weights

    # -- to be implemented ------------------------------------------------------------------------------------------
    @abstractmethod
    def constant(self, value: np.ndarray) -> Value:
        """A tensor constant of the array's own dtype."""

    @abstractmethod
    def shape(self, x: Value) -> tuple[int, ...]:
        """Static extents of x."""

    @abstractmethod
    def unary(self, name: str, x: Value) -> Value:
        """One of exp, log, tanh, sigmoid, sqrt, abs, erf, negative, relu, gelu, gelu_tanh, silu, softplus."""

    @abstractmethod
    def binary(self, name: str, x: Value, y: Value | float) -> Value:
        """One of add, subtract, multiply, divide, maximum, minimum; a Python number takes the workload's dtype."""

    @abstractmethod
    def reduce(self, name: str, x: Value, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Value:
        """Sum, mean, max or min over `axis` (None: all)."""

    @abstractmethod
    def clip(self, x: Value, low: float, high: float) -> Value:
        """Clamp to [low, high]."""

    @abstractmethod
    def leaky_relu(self, x: Value, slope: float) -> Value:
        """Keep x where it is positive, slope * x elsewhere."""

    @abstractmethod
    def softmax(self, x: Value, axis: int = -1) -> Value:
        """Softmax along one axis."""

    @abstractmethod
    def log_softmax(self, x: Value, axis: int = -1) -> Value:
        """Logarithm of softmax along one axis."""

    @abstractmethod
    def layer_norm(self, x: Value, gamma: Value, beta: Value, epsilon: float = 1e-5) -> Value:
        """LayerNorm over the last axis."""

    @abstractmethod
    def rms_norm(self, x: Value, gamma: Value, epsilon: float = 1e-5) -> Value:
        """RMSNorm over the last axis."""

    @abstractmethod
    def group_norm(self, x: Value, gamma: Value, beta: Value, groups: int, epsilon: float = 1e-5) -> Value:
        """GroupNorm of [N, C, ...] over C/groups channels and all that follows."""

    @abstractmethod
    def batch_norm_of(
        self, x: Value, gamma: Value, beta: Value, mean: Value, variance: Value, epsilon: float, scale: bool
    ) -> Value:
        """Batch norm at inference over axis 1, with given statistics; `scale` False ignores gamma."""

    @abstractmethod
    def nll_loss(self, log_probabilities: Value, targets: Value) -> Value:
        """Mean of -log_probabilities[i, targets[i]]."""

    @abstractmethod
    def matmul(self, x: Value, y: Value) -> Value:
        """Batched matrix product."""

    @abstractmethod
    def conv(
        self, x: Value, weight: Value, strides: int = 1, padding: int | Sequence[int] = 0, groups: int = 1
    ) -> Value:
        """2-D or 3-D convolution (by the weight's rank) of NC... with OI... weights."""

    @abstractmethod
    def conv2d_transpose(
        self, x: Value, weight: Value, strides: int, padding: int = 0, output_padding: int = 0
    ) -> Value:
        """2-D transposed convolution with IOHW weights."""

    @abstractmethod
    def pool(self, name: str, x: Value, size: int, strides: int, padding: int = 0) -> Value:
        """2-D "max" or "avg" pooling; padding is not counted in averages."""

    @abstractmethod
    def global_avg_pool(self, x: Value) -> Value:
        """[N, C, H, W] -> [N, C, 1, 1]."""

    @abstractmethod
    def reshape(self, x: Value, shape: Sequence[int]) -> Value:
        """Same elements, other extents."""

    @abstractmethod
    def transpose(self, x: Value, axes: Sequence[int]) -> Value:
        """Permute axes."""

    @abstractmethod
    def concat(self, xs: Sequence[Value], axis: int) -> Value:
        """Join along an axis."""

    @abstractmethod
    def split(self, x: Value, parts: int, axis: int) -> list[Value]:
        """Cut into equal parts along an axis."""

    @abstractmethod
    def strided_slice(
        self, x: Value, axes: Sequence[int], begin: Sequence[int], end: Sequence[int], strides: Sequence[int]
    ) -> Value:
        """Slice x[begin:end:strides] along `axes`."""

    @abstractmethod
    def pad(self, x: Value, widths: Sequence[tuple[int, int]]) -> Value:
        """Pad with zeros; (before, after) for each axis."""

    @abstractmethod
    def take(self, x: Value, indices: Value, axis: int) -> Value:
        """Gather slices of x along an axis."""

    @abstractmethod
    def gather_elements(self, x: Value, indices: Value, axis: int) -> Value:
        """Gather single elements of x along an axis."""

    # -- short names ------------------------------------------------------------------------------------------------
    def add(self, x: Value, y: Value | float) -> Value:
        """Add."""
        return self.binary("add", x, y)

    def sub(self, x: Value, y: Value | float) -> Value:
        """Subtract."""
        return self.binary("subtract", x, y)

    def mul(self, x: Value, y: Value | float) -> Value:
        """Multiply."""
        return self.binary("multiply", x, y)

    def div(self, x: Value, y: Value | float) -> Value:
        """Divide."""
        return self.binary("divide", x, y)

    def relu(self, x: Value) -> Value:
        """ReLU."""
        return self.unary("relu", x)

    def exp(self, x: Value) -> Value:
        """Exponential."""
        return self.unary("exp", x)

    def tanh(self, x: Value) -> Value:
        """Hyperbolic tangent."""
        return self.unary("tanh", x)

    def sigmoid(self, x: Value) -> Value:
        """Logistic function."""
        return self.unary("sigmoid", x)

    def gelu(self, x: Value) -> Value:
        """GELU with erf."""
        return self.unary("gelu", x)

    # -- composed of the above --------------------------------------------------------------------------------------
    def mish(self, x: Value) -> Value:
        """Mish: x * tanh(softplus(x))."""
        return self.mul(x, self.tanh(self.unary("softplus", x)))

    def hard_swish(self, x: Value) -> Value:
        """Hard swish: x * clip(x + 3, 0, 6) / 6."""
        return self.mul(x, self.mul(self.clip(self.add(x, 3.0), 0.0, 6.0), 1.0 / 6.0))

    def log_sum_exp(self, x: Value, axis: int) -> Value:
        """Logarithm of the summed exponentials along an axis (kept), the maximum taken out first."""
        top = self.reduce("max", x, axis, keepdims=True)
        total = self.reduce("sum", self.exp(self.sub(x, top)), axis, keepdims=True)
        return self.add(self.unary("log", total), top)

    # -- weights ----------------------------------------------------------------------------------------------------
    def weight(self, name: str, shape: Sequence[int], scale: float = 1.0, centre: float = 0.0) -> Value:
        """A weight of the workload's dtype, normal around `centre`."""
        return self.constant(self.weights(name, tuple(shape), scale, centre).astype(numpy_dtype(self.dtype)))

    def scale_shift(self, name: str, size: int, gain: float = 1.0) -> tuple[Value, Value]:
        """Weights of a normalisation: gamma (around `gain`) and beta (around 0)."""
        return self.weight(f"{name}_gamma", (size,), 0.1 * gain, gain), self.weight(f"{name}_beta", (size,), 0.1)

    def batch_norm(self, x: Value, name: str, epsilon: float = 1e-5, scale: bool = True, gain: float = 1.0) -> Value:
        """Batch norm at inference over axis 1, with weights of its own (gamma around `gain`)."""
        channels = self.shape(x)[1]
        gamma, beta = self.scale_shift(name, channels, gain)
        mean = self.weight(f"{name}_moving_mean", (channels,), 0.1)
        raw = self.weights(f"{name}_moving_var", (channels,), 1.0, 0.0)
        variance = self.constant((np.abs(raw) + np.float32(0.5)).astype(numpy_dtype(self.dtype)))
        return self.batch_norm_of(x, gamma, beta, mean, variance, epsilon, scale)

    def conv_of(
        self, x: Value, name: str, channels: int, kernel: int, strides: int = 1, padding: int = 0, groups: int = 1
    ) -> Value:
        """Convolution with a weight of its own (2-D or 3-D as x is)."""
        shape = self.shape(x)
        window = (kernel,) * (len(shape) - 2)
        fan_in = shape[1] // groups * math.prod(window)
        weight = self.weight(f"{name}_weight", (channels, shape[1] // groups, *window), math.sqrt(2.0 / fan_in))
        return self.conv(x, weight, strides, padding, groups)

    def bias_channels(self, x: Value, name: str) -> Value:
        """Add a bias for each channel (axis 1)."""
        rank, channels = len(self.shape(x)), self.shape(x)[1]
        bias = self.weights(name, (channels,), 0.1, 0.0).astype(numpy_dtype(self.dtype))
        return self.add(x, self.constant(bias.reshape(1, channels, *([1] * (rank - 2)))))

    def dense(self, x: Value, name: str, units: int, bias: str | None = "") -> Value:
        """Dense layer over the last axis, the weight held as [in, units]; `bias` is its name, None for no bias."""
        size = self.shape(x)[-1]
        weight = self.weights(f"{name}_weight", (units, size), math.sqrt(1.0 / size), 0.0)
        out = self.matmul(x, self.constant(np.ascontiguousarray(weight.T).astype(numpy_dtype(self.dtype))))
        return out if bias is None else self.add(out, self.weight(bias or f"{name}_bias", (units,), 0.1))
