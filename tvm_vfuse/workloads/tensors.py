"""Names of dtypes, and random tensors that are the same on every machine."""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvm_vfuse.errors import InputError

FLOATS = ("float32", "float16", "bfloat16")
DTYPE_NAMES = {
    "float32": "float32",
    "fp32": "float32",
    "f32": "float32",
    "float16": "float16",
    "fp16": "float16",
    "f16": "float16",
    "half": "float16",
    "bfloat16": "bfloat16",
    "bf16": "bfloat16",
    "float64": "float64",
    "fp64": "float64",
}


def numpy_dtype(name: str) -> np.dtype[Any]:
    """The NumPy dtype called `name`; bfloat16 and the 8-bit floats come from ml_dtypes."""
    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes

        if not hasattr(ml_dtypes, name):
            raise InputError(f"dtype {name} has no NumPy counterpart; convert the input to another one") from None
        return np.dtype(getattr(ml_dtypes, name))


@dataclass(frozen=True)
class TensorSpec:
    """An input of a workload.

    Parameters
    ----------
    name : str
        Parameter name in ``main``.
    shape : tuple of int
        Extents used for sampling.
    values : str
        ``normal``; ``positive`` (|normal|/10); ``small`` (uniform in ±0.25); ``mask`` (0, or -1e4 in one place of ten);
        ``angle`` (uniform in ±1); ``index`` (integers in [0, high)); ``boolean``.
    dtype : str or None
        None: the workload's dtype.
    high : int
        Bound of ``index`` values.
    symbolic : tuple of str
        Names of the leading dimensions that stay symbolic in the module.
    """

    name: str
    shape: tuple[int, ...]
    values: str = "normal"
    dtype: str | None = None
    high: int = 8
    symbolic: tuple[str, ...] = ()


def stream(*keys: int | str) -> np.random.Generator:
    """A random generator that depends on `keys` alone (strings by their CRC-32)."""
    return np.random.default_rng([zlib.crc32(k.encode()) if isinstance(k, str) else k for k in keys])


def draw(spec: TensorSpec, dtype: str, rng: np.random.Generator) -> np.ndarray:
    """Sample one tensor of `spec`; `dtype` applies where the spec leaves it open."""
    target = numpy_dtype(spec.dtype or dtype)
    if spec.values == "index":
        return rng.integers(0, spec.high, spec.shape, dtype=np.int64).astype(target)
    if spec.values == "boolean":
        return rng.integers(0, 2, spec.shape, dtype=np.int8).astype(target)
    if spec.values == "mask":
        return np.where(rng.random(spec.shape, dtype=np.float32) < 0.9, 0.0, -1e4).astype(target)
    if spec.values in ("small", "angle"):
        bound = 0.25 if spec.values == "small" else 1.0
        return ((rng.random(spec.shape, dtype=np.float32) * 2 - 1) * bound).astype(target)
    normal = rng.standard_normal(spec.shape, dtype=np.float32)
    if spec.values == "positive":
        normal = np.abs(normal) * np.float32(0.1)
    return np.asarray(normal, dtype=target)


def sample(specs: Sequence[TensorSpec], dtype: str, name: str, seed: int) -> list[np.ndarray]:
    """Sample every tensor of `specs`.

    Raises
    ------
    InputError
        Where the inputs alone exceed this machine's memory.
    """
    need = sum(int(np.prod(s.shape, dtype=np.float64)) * numpy_dtype(s.dtype or dtype).itemsize for s in specs)
    have = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if need > have:
        gib = 1024.0**3
        raise InputError(
            f"{name}: inputs of {need / gib:.1f} GiB exceed this machine's {have / gib:.1f} GiB; ask for smaller sizes"
        )
    return [draw(s, dtype, stream(seed, name, i)) for i, s in enumerate(specs)]


def shape_text(shape: Sequence[int | str]) -> str:
    """``(4, 8)`` as ``4x8``; a scalar as ``scalar``."""
    return "x".join(str(d) for d in shape) or "scalar"
