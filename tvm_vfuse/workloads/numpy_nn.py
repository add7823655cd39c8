"""float64 convolutions, pools and erf in NumPy, written for being obviously right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view


def erf(x: np.ndarray) -> np.ndarray:
    """Error function (SciPy's, imported when first needed)."""
    from scipy import special

    return special.erf(x)


def channelwise(vector: Any, rank: int) -> np.ndarray:
    """View a vector of channels so that it broadcasts along axis 1 of a tensor of `rank`."""
    return np.asarray(vector).reshape(1, -1, *([1] * (rank - 2)))


def _windows(x: np.ndarray, kernel: Sequence[int], strides: int) -> np.ndarray:
    """[N, C, *out, *kernel] view of all windows of an [N, C, ...] tensor."""
    axes = tuple(range(2, x.ndim))
    view = sliding_window_view(x, tuple(kernel), axis=axes)
    steps = (slice(None), slice(None), *[slice(None, None, strides)] * len(axes))
    return view[steps]


def conv(
    x: np.ndarray, weight: np.ndarray, strides: int = 1, padding: int | Sequence[int] = 0, groups: int = 1
) -> np.ndarray:
    """Convolution (cross-correlation) of [N, C, ...] with [O, C/groups, ...], any number of spatial axes."""
    rank = x.ndim - 2
    sides = [padding] * rank if isinstance(padding, int) else list(padding)
    padded = np.pad(x, [(0, 0), (0, 0), *[(p, p) for p in sides]])
    spatial = list(range(2 + rank, 2 + 2 * rank))
    outputs = []
    for part, kernel in zip(np.split(padded, groups, 1), np.split(weight, groups, 0), strict=True):
        windows = _windows(part, kernel.shape[2:], strides)
        product = np.tensordot(windows, kernel, axes=([1, *spatial], list(range(1, kernel.ndim))))
        outputs.append(np.moveaxis(product, -1, 1))
    return np.concatenate(outputs, 1)


def conv2d_transpose(
    x: np.ndarray, weight: np.ndarray, strides: int, padding: int = 0, output_padding: int = 0
) -> np.ndarray:
    """Transposed convolution with [I, O, kh, kw] weights, by scattering each input element's window."""
    batch, _, height, width = x.shape
    _, channels, kernel_h, kernel_w = weight.shape
    full_h = (height - 1) * strides + kernel_h + output_padding
    full_w = (width - 1) * strides + kernel_w + output_padding
    out = np.zeros((batch, channels, full_h, full_w))
    for i in range(kernel_h):
        for j in range(kernel_w):
            rows = slice(i, i + (height - 1) * strides + 1, strides)
            columns = slice(j, j + (width - 1) * strides + 1, strides)
            out[:, :, rows, columns] += np.einsum("nihw,io->nohw", x, weight[:, :, i, j], optimize=True)
    return out[:, :, padding : full_h - padding, padding : full_w - padding]


def pool2d(name: str, x: np.ndarray, size: int, strides: int, padding: int = 0) -> np.ndarray:
    """Max or average pooling of [N, C, H, W]; averages leave the padding out of the count."""
    sides = [(0, 0), (0, 0), (padding, padding), (padding, padding)]
    if name == "max":
        return _windows(np.pad(x, sides, constant_values=-np.inf), (size, size), strides).max(axis=(-2, -1))
    total = _windows(np.pad(x, sides), (size, size), strides).sum(axis=(-2, -1))
    count = _windows(np.pad(np.ones_like(x), sides), (size, size), strides).sum(axis=(-2, -1))
    return total / count
