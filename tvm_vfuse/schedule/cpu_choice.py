"""Chooses the lane axis, the tile axis and the default tile of a CPU kernel from the access strides."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from tvm.ir import Var

from tvm_vfuse.device import CpuDevice
from tvm_vfuse.graph.axes import Axis
from tvm_vfuse.graph.cost import element_cost
from tvm_vfuse.graph.indices import free_vars
from tvm_vfuse.graph.nodes import Evaluation
from tvm_vfuse.graph.sizes import dtype_bits
from tvm_vfuse.schedule.strides import Access, accesses
from tvm_vfuse.schedule.tile import TileConfig

SMALL_WORK = 1 << 17  # vector operations (about 50 us); below this a thread launch (2-21 us measured) wins too little
LONG, HUGE = 100, 4000  # values of a group: long chains want several vectors, huge ones a short compile time
LONGEST_WINDOW = 3  # wider padded windows are tested at run time: written out they cost too much compile time
SHORTEST_LANE = 4  # points below which an axis fills no vector
SHORT_VECTOR, LONG_ROW = 8, 32  # elements from which on a space axis, and a reduce axis, fill vectors well
MANY_STREAMS, STREAM_BYTES = 48, 512  # inputs beyond which each is read in runs of so many bytes (200 inputs: 1.2 x)
STRIDED = 0.15  # relative speed of a strided vector access (one element a line), measured on Zen 3
ACCUMULATORS = 12  # vector registers that may hold accumulators: 16 less operands (measured: 14 spill on AVX2)


@dataclass(frozen=True)
class Loops:
    """How the axes of a group become loops.

    Attributes
    ----------
    lane : axis along which vectors lie
    tile : space axis of which several points are handled together, or None
    rows : the other space axes, outermost first (parallel)
    inner : reduce axes that are walked one by one, outermost first (the lane axis is not among them)
    lane_in_reduce : True if the lane axis is a reduce axis (or the innermost axis of an elementwise group)
    """

    lane: Axis
    tile: Axis | None
    rows: tuple[Axis, ...]
    inner: tuple[Axis, ...]
    lane_in_reduce: bool

    @cached_property
    def inner_vars(self) -> frozenset[Var]:
        """Variables of the axes that are walked inside a row."""
        lane = {self.lane.var} if self.lane_in_reduce else set()
        return frozenset({a.var for a in self.inner} | lane)


def choose_loops(evaluation: Evaluation) -> Loops:
    """Loops whose vectors run along unit strides wherever the bulk of the accesses allows it."""
    where = evaluation.placement
    order = {a.var: i for i, a in enumerate(where.order)}
    if not where.reduce:
        assert where.space, "an elementwise group has at least one axis"
        lane = _best_lane(evaluation, where.space)
        rows = tuple(a for a in where.order if a is not lane)
        return Loops(lane, None, rows, (), True)
    long = [a for a in where.axes if a.assumed >= SHORTEST_LANE] or list(where.axes)
    lane = _best_lane(evaluation, long)
    in_reduce = lane in where.reduce
    inner = tuple(sorted((a for a in where.reduce if a is not lane), key=lambda a: order[a.var]))
    tile = None if in_reduce else _tile_axis(evaluation, lane)
    rows = tuple(a for a in sorted(where.space, key=lambda a: order[a.var]) if a is not lane and a is not tile)
    return Loops(lane, tile, rows, inner, in_reduce)


def _best_lane(evaluation: Evaluation, candidates: Sequence[Axis]) -> Axis:
    """The candidate along which most accesses are vectors of neighbours; ties: the innermost in memory."""
    found = accesses(evaluation)
    position = {a.var: i for i, a in enumerate(evaluation.placement.axes)}
    inner_first = {a.var: i for i, a in enumerate(evaluation.placement.order)}
    reduce = evaluation.placement.reduce_vars

    def vectors(axis: Axis) -> tuple[float, int]:
        long = LONG_ROW if axis.var in reduce else SHORT_VECTOR  # lanes along a reduction must be folded at its end
        filled = min(axis.assumed, long) / long
        return (
            sum(_weight(a, evaluation) * _speed(a, position[axis.var]) for a in found) * filled,
            inner_first[axis.var],
        )

    return max(candidates, key=vectors)


def _weight(access: Access, evaluation: Evaluation) -> float:
    """How often the access runs, on a log scale that keeps one huge tensor from hiding the others."""
    points = math.prod(a.assumed for a in evaluation.placement.axes if a.var in access.axes)
    return 1.0 + math.log2(1 + points)


def _speed(access: Access, number: int) -> float:
    stride = access.stride(number)
    return 1.0 if stride in (0, 1) else STRIDED


def _tile_axis(evaluation: Evaluation, lane: Axis) -> Axis | None:
    """A space axis that the vector loads inside the reduction do not depend on: they are then read once a tile."""
    where = evaluation.placement
    if math.prod(a.assumed for a in where.reduce) < 8:
        return None
    vectors = [n for n in evaluation.nodes if n.kind == "load" and lane.var in n.axes and n.axes & where.reduce_vars]
    if not vectors:
        return None
    free = [a for a in where.space if a is not lane and a.assumed > 1 and not any(a.var in n.axes for n in vectors)]
    return max(free, key=lambda a: a.assumed) if free else None


def default_tile(evaluation: Evaluation, loops: Loops, device: CpuDevice) -> TileConfig:
    """Lanes from the vector width and the accumulators that fit the registers."""
    narrow = min((dtype_bits(n.dtype) for n in evaluation.nodes if n.dtype != "bool"), default=32)
    vector = max(4, device.vector_bits // max(32, narrow))
    reductions = max(1, len(evaluation.reductions))
    extent = loops.lane.size
    work, points = _work(evaluation), math.prod(a.assumed for a in evaluation.placement.axes)
    parallel = work >= SMALL_WORK
    serial_below = int(SMALL_WORK * points / max(work, 1.0))
    if loops.tile is not None:
        most = 1 if window_axes(evaluation, loops) else 4
        unroll, lanes = _register_tile(loops.tile.assumed, extent, vector, reductions, most)
        return TileConfig(lanes, unroll, 0, parallel, serial_below)
    lanes = vector * _vectors(evaluation, loops, reductions)
    if extent is not None and extent < lanes:
        lanes = extent
    return TileConfig(lanes, 1, _chunk(loops, lanes), parallel, serial_below)


def _vectors(evaluation: Evaluation, loops: Loops, reductions: int) -> int:
    """Vector registers that one statement spans: enough to hide latency, few enough to keep values in registers."""
    values = sum(1 for n in evaluation.nodes if n.kind != "load")
    widest = max((dtype_bits(n.dtype) for n in evaluation.nodes), default=32)
    if values > HUGE:
        return 1
    if sum(1 for n in evaluation.nodes if n.kind == "load") > MANY_STREAMS and not evaluation.reductions:
        return STREAM_BYTES // 32  # long runs of each stream: the prefetchers follow a few dozen at the most
    if values > LONG:  # long dependent chains, many streams: whole cache lines, several chains at once
        return 4
    if not loops.lane_in_reduce and evaluation.reductions:
        if window_axes(evaluation, loops):
            return 1
        return max(1, min(8, ACCUMULATORS // reductions)) if _long_walk(evaluation) else 2
    return 4 if evaluation.reductions and widest <= 32 else 2


def window_axes(evaluation: Evaluation, loops: Loops) -> set[Var]:
    """Short reduce axes that stand with the lane axis in an index guard (the width of a padded window)."""
    found: set[Var] = set()
    for n in evaluation.nodes:
        for g in n.guards:
            if n.kind == "load" and loops.lane.var in free_vars(g):
                found |= {
                    a.var for a in evaluation.placement.reduce if a.var in free_vars(g) and a.assumed <= LONGEST_WINDOW
                }
    return found if loops.lane.size is not None else set()


def _long_walk(evaluation: Evaluation) -> bool:
    return math.prod(a.assumed for a in evaluation.placement.reduce) >= 16


def _register_tile(rows: int, extent: int | None, vector: int, reductions: int, most: int = 4) -> tuple[int, int]:
    """(unroll, lanes): accumulators fill the registers, with the fewest left-over points."""
    budget = max(1, ACCUMULATORS // reductions)
    best: tuple[float, int, int] | None = None
    for vectors in (v for v in (1, 2, 4) if v <= most):  # LLVM takes vectors apart whose length is no power of two
        lanes = vectors * vector
        if extent is not None and extent < lanes:
            lanes, vectors = extent, -(-extent // vector)
        for unroll in range(1, budget // vectors + 1):
            if unroll > rows:
                continue
            full = unroll * -(-rows // unroll) / rows
            padded = 1.0 if extent is None else -(-extent // lanes) * lanes / extent
            loads = 1.0 / unroll + 1.0 / (vectors * 2)  # vector loads and broadcasts for each multiply-add
            price = full * padded * (1.0 + loads) * (1.0 + 2.0 / (unroll * vectors))
            if best is None or price < best[0] - 1e-9:
                best = (price, unroll, lanes)
    assert best is not None
    return best[1], best[2]


def _chunk(loops: Loops, lanes: int) -> int:
    """Lane blocks of one task where there are too few rows to feed the threads."""
    rows = math.prod(a.assumed for a in loops.rows)
    if rows >= 64 or loops.lane.assumed < 4 * lanes:
        return 0
    return max(1, 8192 // lanes)


def _work(evaluation: Evaluation) -> float:
    """Vector operations of one run (symbolic extents count 1024)."""
    where = evaluation.placement
    work = 0.0
    for n in evaluation.nodes:
        inside = n.kind == "reduce" or n.axes & where.reduce_vars
        points = math.prod(a.assumed for a in (where.axes if inside else where.space))
        work += points * (1.0 if n.stage is None else element_cost(n.stage).vector_ops)
    return work / 8
