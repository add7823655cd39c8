"""Whole convolutional networks with seeded weights: ResNet, MobileNet, SqueezeNet.

ResNet-18 and -20 (pre-activation, MXNet's layer names), MobileNet 1.0 and SqueezeNet 1.0 are the graphs that Relay's
test networks had (apache/tvm before 0.20, relay/testing). ResNet-50 is the post-activation form (He et al., 2016),
strides in the 3x3 convolutions as torchvision has them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tvm_vfuse.workloads.ops import Ops, Value
from tvm_vfuse.workloads.template import Sizes, Template
from tvm_vfuse.workloads.tensors import TensorSpec

EPSILON = 2e-5
"""Batch norm's epsilon in the pre-activation ResNets."""

BRANCH_GAIN = 0.2
"""Gamma of the norm that ends a ResNet-50 branch: small, as after training, so that 16 residual sums do not explode."""


def classifier(ops: Ops, x: Value, name: str, classes: int) -> Value:
    """Global average pool, flatten, dense, softmax."""
    batch, channels = ops.shape(x)[:2]
    flat = ops.reshape(ops.global_avg_pool(x), (batch, channels))
    return ops.softmax(ops.dense(flat, name, classes))


def _bn_relu(ops: Ops, x: Value, name: str, epsilon: float = EPSILON) -> Value:
    return ops.relu(ops.batch_norm(x, name, epsilon))


def _unit(ops: Ops, x: Value, name: str, channels: int, strides: int, first: bool) -> Value:
    """A pre-activation residual unit; the first of a stage projects its shortcut."""
    active = _bn_relu(ops, x, f"{name}_bn1")
    y = ops.conv_of(active, f"{name}_conv1", channels, 3, strides, 1)
    y = ops.conv_of(_bn_relu(ops, y, f"{name}_bn2"), f"{name}_conv2", channels, 3, 1, 1)
    shortcut = ops.conv_of(active, f"{name}_sc", channels, 1, strides) if first else x
    return ops.add(y, shortcut)


def _preactivation(stages: Sequence[int], units: int, classes: int, large: bool) -> Callable[..., Sequence[Value]]:
    def graph(ops: Ops, _sizes: Sizes, x: Value) -> Sequence[Value]:
        x = ops.batch_norm(x, "bn_data", EPSILON, scale=False)
        x = ops.conv_of(x, "conv0", stages[0] if large else 16, *((7, 2, 3) if large else (3, 1, 1)))
        if large:
            x = ops.pool("max", _bn_relu(ops, x, "bn0"), 3, 2, 1)
        for i, channels in enumerate(stages, 1):
            for j in range(1, units + 1):
                strides = 2 if i > 1 and j == 1 else 1
                x = _unit(ops, x, f"stage{i}_unit{j}", channels, strides, first=j == 1)
        return (classifier(ops, _bn_relu(ops, x, "bn1"), "fc1", classes),)

    return graph


def _mobilenet(ops: Ops, _sizes: Sizes, x: Value) -> Sequence[Value]:
    x = _bn_relu(ops, ops.conv_of(x, "conv_block_1_conv", 32, 3, 2, 1), "conv_block_1_bn", 1e-5)
    channels = [64, 128, 128, 256, 256, *([512] * 6), 1024, 1024]
    halving = (2, 4, 6, 12)
    for i, wide in enumerate(channels, 1):
        name, narrow = f"separable_conv_block_{i}", ops.shape(x)[1]
        x = ops.conv_of(x, name, narrow, 3, 2 if i in halving else 1, 1, groups=narrow)
        x = _bn_relu(ops, x, f"{name}_bn1", 1e-5)
        x = _bn_relu(ops, ops.conv_of(x, f"{name}_conv2", wide, 1), f"{name}_bn2", 1e-5)
    return (classifier(ops, x, "fc", 1000),)


def _conv_relu(ops: Ops, x: Value, name: str, channels: int, kernel: int, strides: int = 1, padding: int = 0) -> Value:
    return ops.relu(ops.bias_channels(ops.conv_of(x, name, channels, kernel, strides, padding), f"{name}_bias"))


def _squeezenet(ops: Ops, _sizes: Sizes, x: Value) -> Sequence[Value]:
    x = ops.pool("max", _conv_relu(ops, x, "conv1", 96, 7, 2, 3), 3, 2)
    for i, (squeeze, expand) in enumerate(((16, 64),) * 2 + ((32, 128),) * 2 + ((48, 192),) * 2 + ((64, 256),) * 2, 1):
        inner = _conv_relu(ops, x, f"fire{i}_input_conv", squeeze, 1)
        left = _conv_relu(ops, inner, f"fire{i}_left_conv", expand, 1)
        right = _conv_relu(ops, inner, f"fire{i}_right_conv", expand, 3, 1, 1)
        x = ops.concat([left, right], axis=1)
        if i in (3, 7):
            x = ops.pool("max", x, 3, 2)
    x = _conv_relu(ops, x, "conv_final", 1000, 1)
    return (ops.softmax(ops.reshape(ops.global_avg_pool(x), ops.shape(x)[:2])),)


def _bottleneck(ops: Ops, x: Value, name: str, narrow: int, strides: int, first: bool) -> Value:
    y = _bn_relu(ops, ops.conv_of(x, f"{name}_conv1", narrow, 1), f"{name}_bn1", 1e-5)
    y = _bn_relu(ops, ops.conv_of(y, f"{name}_conv2", narrow, 3, strides, 1), f"{name}_bn2", 1e-5)
    y = ops.batch_norm(ops.conv_of(y, f"{name}_conv3", 4 * narrow, 1), f"{name}_bn3", gain=BRANCH_GAIN)
    if first:
        x = ops.batch_norm(ops.conv_of(x, f"{name}_sc", 4 * narrow, 1, strides), f"{name}_sc_bn")
    return ops.relu(ops.add(y, x))


def _resnet50(ops: Ops, _sizes: Sizes, x: Value) -> Sequence[Value]:
    x = ops.pool("max", _bn_relu(ops, ops.conv_of(x, "conv0", 64, 7, 2, 3), "bn0", 1e-5), 3, 2, 1)
    for i, (units, narrow) in enumerate(((3, 64), (4, 128), (6, 256), (3, 512)), 1):
        for j in range(1, units + 1):
            strides = 2 if i > 1 and j == 1 else 1
            x = _bottleneck(ops, x, f"stage{i}_unit{j}", narrow, strides, first=j == 1)
    return (classifier(ops, x, "fc", 1000),)


def _image(side: int) -> Callable[[Sizes], list[TensorSpec]]:
    return lambda sizes: [TensorSpec("data", (sizes[0], 3, side, side))]


def _network(
    name: str, description: str, side: int, graph: Callable[..., Sequence[Value]], twin: bool = True
) -> Template:
    return Template(
        name,
        f"{description}, {side}x{side} images, random weights",
        ("batch",),
        {"default": (1,)},
        _image(side),
        graph,
        memory_bound=False,
        tags=("network", "relay-twin", f"relay:rt_{name}") if twin else ("network",),
    )


TEMPLATES = (
    _network("resnet20_28", "ResNet-20", 28, _preactivation((16, 32, 64), 3, 10, False)),
    _network("resnet18_224", "ResNet-18", 224, _preactivation((64, 128, 256, 512), 2, 1000, True)),
    _network("mobilenet_224", "MobileNet 1.0", 224, _mobilenet),
    _network("squeezenet_224", "SqueezeNet 1.0", 224, _squeezenet),
    _network("resnet50_224", "ResNet-50", 224, _resnet50, twin=False),
)
