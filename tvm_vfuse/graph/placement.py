"""Finds the shared block axes of a group, and where each tensor lies along them.

The *space* axes are those along which the group's members work independently; the *reduce* axes are walked
inside. A tensor is **placed** when its indices are a bijection of the space axes (a row value) or of all axes (a
full value). Placements spread from an anchor stage along the reads: backward (a consumer at a point needs the
producer at some place) and forward (a placed producer fixes the consumer's axes).
"""

from __future__ import annotations

from typing import TypeAlias

import tvm
from tvm.ir import Range, Var

from tvm_vfuse.graph.axes import Axis, Placement, is_mixed_radix, linear_terms
from tvm_vfuse.graph.compose import Program
from tvm_vfuse.graph.indices import INDEX, const_int, flatten, index, new_analyzer, product
from tvm_vfuse.graph.sizes import assumed_points
from tvm_vfuse.graph.spread import Refine, Spread
from tvm_vfuse.graph.stages import Stage

Expr: TypeAlias = tvm.ir.Expr
MAX_REFINEMENTS = 8


def place(program: Program) -> Placement:
    """Choose the anchor and spread placements until nothing changes.

    Where a reshape cuts an axis, the axis is split at the cut (32 x 128 read as 32 x 2 x 64) and placing starts
    again; neighbouring parts that all accesses walk as one are joined again when loops are made.

    Raises
    ------
    Reject
        ``no-common-axes`` if an output or a reduction finds no place.
    """
    factors: dict[int, list[int]] = {}
    for _ in range(MAX_REFINEMENTS):
        try:
            return _place(program, factors)
        except Refine as finer:
            factors = finer.factors
    return _place(program, factors, refine=False)


def _place(program: Program, factors: dict[int, list[int]], refine: bool = True) -> Placement:
    anchor = _anchor(program)
    where, env = _axes_of(program, anchor, factors)
    spread = Spread(program, where, factors if refine else None)
    spread.settle(anchor, env)
    where.order = _memory_order(spread, anchor)
    spread.run()
    needed = [s for s in program.stages if s.reduce or any(s.output.key == o.key for o in program.outputs)]
    for s in needed:
        if s.output.key not in where.places:
            spread.by_extent(s)
            spread.run()
    return where


def _volume(stage: Stage) -> int:
    return assumed_points(e for _, e in (*stage.spatial, *stage.reduce))


def _anchor(program: Program) -> Stage:
    """The largest reduction; without one the largest output (ties: the first)."""
    reductions = [s for s in program.stages if s.reduce]
    if reductions:
        return max(reductions, key=_volume)
    written = {o.key for o in program.outputs}
    return max((s for s in program.stages if s.output.key in written), key=_volume)


def _axes_of(program: Program, anchor: Stage, factors: dict[int, list[int]]) -> tuple[Placement, dict[Var, Expr]]:
    """The axes of the anchor's domain, split by ``factors`` (by number of the anchor's axis), and its environment."""
    analyzer = new_analyzer(program.symbols)
    kinds: dict[str, list[Axis]] = {"s": [], "k": []}
    env: dict[Var, Expr] = {}
    for number, (v, extent) in enumerate((*anchor.spatial, *anchor.reduce)):
        kind = "s" if number < len(anchor.spatial) else "k"
        parts = [index(f) for f in factors[number]] if number in factors else [extent]
        mine = [Axis(Var(f"{kind}{len(kinds[kind]) + i}", INDEX), e, number) for i, e in enumerate(parts)]
        kinds[kind] += mine
        # An axis of one point is 0 wherever it stands, so that one element is not taken for two.
        env[v] = index(0) if const_int(extent) == 1 else flatten([a.var for a in mine], parts)
    space, reduce = tuple(kinds["s"]), tuple(kinds["k"])
    if not (space or reduce):
        space = (Axis(Var("s0", INDEX), index(1)),)  # scalars: one point
    for a in (*space, *reduce):
        analyzer.bind(a.var, Range(index(0), a.extent))
    return Placement(analyzer, space, reduce, (*space, *reduce)), env


def _memory_order(spread: Spread, anchor: Stage) -> tuple[Axis, ...]:
    """All axes, outermost first, in the order in which the anchor's largest read lies in memory."""
    where = spread.where
    for load in spread.loads[id(anchor)]:
        shape = anchor.reads[load.source].shape
        idx = [spread.simplify(i, where.envs[id(anchor)]) for i in load.indices]
        flat = where.analyzer.simplify(flatten(idx, shape))
        terms = linear_terms(flat, where.axes)
        if terms is None:
            continue
        sizes = [const_int(where.analyzer.simplify(t)) for t in terms[:-1]]
        known = [s for s in sizes if s is not None]
        if len(known) == len(sizes) and is_mixed_radix(
            flat, where.axes, where.analyzer.simplify(product(shape)), where.analyzer
        ):
            ranked = sorted(range(len(sizes)), key=lambda i: (-known[i], i))
            return tuple(where.axes[i] for i in ranked)
    return where.axes
