"""The NumPy reference against definitions written out with loops."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tvm_vfuse.workloads import numpy_nn


def conv_by_loops(x, weight, stride, padding, groups):
    pad = np.pad(x, [(0, 0), (0, 0), *[(padding, padding)] * (x.ndim - 2)])
    kernel = weight.shape[2:]
    out = [(n - k) // stride + 1 for n, k in zip(pad.shape[2:], kernel, strict=True)]
    result = np.zeros((x.shape[0], weight.shape[0], *out))
    inside, outside = weight.shape[1], weight.shape[0] // groups
    for n, o in itertools.product(range(x.shape[0]), range(weight.shape[0])):
        low = o // outside * inside
        for at in itertools.product(*map(range, out)):
            window = tuple(slice(a * stride, a * stride + k) for a, k in zip(at, kernel, strict=True))
            result[(n, o, *at)] = (pad[(n, slice(low, low + inside), *window)] * weight[o]).sum()
    return result


@pytest.mark.parametrize(
    ("shape", "weight", "stride", "padding", "groups"),
    [
        ((2, 3, 7, 5), (4, 3, 3, 3), 1, 0, 1),
        ((1, 4, 8, 9), (6, 2, 3, 3), 2, 1, 2),
        ((1, 4, 6, 6), (4, 1, 3, 3), 1, 1, 4),
        ((1, 2, 5, 6, 7), (3, 2, 3, 3, 3), 1, 1, 1),
        ((2, 5, 4, 4), (3, 5, 1, 1), 2, 0, 1),
    ],
)
def test_conv(rng, shape, weight, stride, padding, groups):
    x, w = rng.standard_normal(shape), rng.standard_normal(weight)
    got = numpy_nn.conv(x, w, stride, padding, groups)
    np.testing.assert_allclose(got, conv_by_loops(x, w, stride, padding, groups), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("kernel", "padding", "extra"), [(3, 1, 1), (4, 1, 0), (4, 0, 0), (3, 0, 1)])
def test_conv2d_transpose_is_the_adjoint_of_conv(rng, kernel, padding, extra):
    x, w = rng.standard_normal((2, 3, 5, 6)), rng.standard_normal((3, 4, kernel, kernel))
    y = numpy_nn.conv2d_transpose(x, w, 2, padding, extra)
    probe = rng.standard_normal(y.shape)
    back = numpy_nn.conv(probe, w, 2, padding)
    np.testing.assert_allclose((y * probe).sum(), (x * back[:, :, :5, :6]).sum(), rtol=1e-10)


@pytest.mark.parametrize("name", ["max", "avg"])
@pytest.mark.parametrize(("size", "stride", "padding"), [(2, 2, 0), (3, 2, 1), (2, 1, 1)])
def test_pool_leaves_padding_out(rng, name, size, stride, padding):
    x = rng.standard_normal((1, 2, 7, 6))
    got = numpy_nn.pool2d(name, x, size, stride, padding)
    reduce = np.max if name == "max" else np.mean
    for c, i, j in itertools.product(range(2), range(got.shape[2]), range(got.shape[3])):
        top, left = i * stride - padding, j * stride - padding
        window = x[0, c, max(top, 0) : top + size, max(left, 0) : left + size]
        assert got[0, c, i, j] == pytest.approx(reduce(window))
