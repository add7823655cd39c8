"""The small set of numbers that shapes a CPU kernel: what a tuner searches."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TileConfig:
    """Shape of one CPU kernel.

    Attributes
    ----------
    lanes : elements along the lane axis that one statement handles (a multiple of the vector registers)
    unroll : points along the tile axis handled together (1 without a tile axis)
    chunk : lane blocks that one parallel task handles where rows are few and long
    parallel : whether the outermost loop runs on all threads
    serial_below : points (of all axes) below which a kernel of symbolic extents runs on one thread
    """

    lanes: int
    unroll: int = 1
    chunk: int = 0
    parallel: bool = True
    serial_below: int = 0
