"""Sizes as heuristics and the time model count them: symbolic extents get a fixed stand-in."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TypeAlias

import tvm

from tvm_vfuse.graph.indices import const_int

Expr: TypeAlias = tvm.ir.Expr
UNKNOWN_EXTENT = 1024  # elements that a symbolic extent counts as


def assumed_extent(extent: Expr | int) -> int:
    """The extent in elements, ``UNKNOWN_EXTENT`` where it is symbolic."""
    known = const_int(extent)
    return UNKNOWN_EXTENT if known is None else known


def assumed_points(extents: Iterable[Expr | int]) -> int:
    """Points of the box with these extents, symbolic ones counted as ``UNKNOWN_EXTENT``; 1 for no extents."""
    return math.prod(map(assumed_extent, extents))


def dtype_bits(dtype: str) -> int:
    """Bits of one element in memory; a truth value takes 8."""
    return 8 if dtype == "bool" else int(tvm.DataType(dtype).bits)


def dtype_bytes(dtype: str) -> int:
    """Bytes of one element, at least 1 (elements below a byte are not packed)."""
    return max(1, dtype_bits(dtype) // 8)
