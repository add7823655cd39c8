"""Access relations of a kernel: how each output element depends on each input, read from the index maps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tvm.ir import TensorLoad, Var

from tvm_vfuse.graph.cost import element_cost
from tvm_vfuse.graph.indices import const_int, free_vars, has_load
from tvm_vfuse.graph.sizes import assumed_points
from tvm_vfuse.graph.stages import Kernel, Stage, loads_of

Relation = Literal["pointwise", "broadcast", "permutation", "reduction", "window", "affine", "gather"]


@dataclass(frozen=True)
class Traits:
    """What the planner wants to know of a kernel.

    Attributes
    ----------
    pointwise : one stage that reads only its own place and broadcast operands
    same_place : for each input, whether it is read at the output's own place only (empty unless there is one
        stage without a reduction)
    reductions : stages that reduce
    contraction : a reduction reads some element more than once
    flops, expensive, vector_ops : operations of one run, see :class:`~tvm_vfuse.graph.cost.ElementCost`
    """

    pointwise: bool
    same_place: tuple[bool, ...]
    reductions: int
    contraction: bool
    flops: float
    expensive: float
    vector_ops: float


def relation_of(stage: Stage, load: TensorLoad) -> Relation:
    """Name the access relation between the stage's output element and one of its reads."""
    spatial = {v for v, _ in stage.spatial}
    reduce = {v for v, _ in stage.reduce}
    if any(map(has_load, load.indices)):
        return "gather"
    plain = [i for i in load.indices if isinstance(i, Var)]
    used = {v for i in load.indices for v in free_vars(i)}
    if len(plain) + sum(const_int(i) is not None for i in load.indices) < len(load.indices):
        return "window" if used & reduce and used & spatial else "affine"
    if used & reduce:
        return "reduction"
    home = [i for i in stage.indices if isinstance(i, Var)]
    if plain == home and len(load.indices) == len(stage.indices):
        return "pointwise"
    if set(plain) == set(home) and len(plain) == len(home):
        return "permutation"
    return "broadcast"


def traits_of(kernel: Kernel) -> Traits:
    """Summarise a kernel's stages (symbolic extents counted as ``UNKNOWN_EXTENT``)."""
    flops = expensive = ops = 0.0
    for s in kernel.stages:
        cost, points = element_cost(s), assumed_points(e for _, e in (*s.spatial, *s.reduce))
        flops += cost.flops * points
        expensive += cost.expensive * points
        ops += cost.vector_ops * points
    single = len(kernel.stages) == 1 and not kernel.stages[0].reduce
    same = _same_place(kernel) if single else ()
    relations = {relation_of(s, load) for s in kernel.stages for load in loads_of(s)}
    return Traits(
        pointwise=single and relations <= {"pointwise", "broadcast"} and (any(same) or not kernel.inputs),
        same_place=same,
        reductions=sum(bool(s.reduce) for s in kernel.stages),
        contraction=any(map(_is_contraction, kernel.stages)),
        flops=flops,
        expensive=expensive,
        vector_ops=ops,
    )


def _is_contraction(stage: Stage) -> bool:
    """True if some read does not depend on all spatial axes, or overlaps: its elements are used more than once."""
    if not stage.reduce:
        return False
    spatial = {v for v, e in stage.spatial if const_int(e) != 1}
    reduce = {v for v, e in stage.reduce if const_int(e) != 1}
    for load in loads_of(stage):
        used = {v for i in load.indices for v in free_vars(i)}
        if used & reduce and not spatial <= used:
            return True
        if relation_of(stage, load) == "window" and used & spatial:
            return True
    return False


def _same_place(kernel: Kernel) -> tuple[bool, ...]:
    """For each input of a kernel of one stage, whether all of its reads are at the output's own place."""
    stage = kernel.stages[0]
    where: dict[int, bool] = {}
    for load in loads_of(stage):
        key = stage.reads[load.source].key
        where[key] = where.get(key, True) and relation_of(stage, load) == "pointwise"
    return tuple(where.get(t.key, False) for t in kernel.parameters if t.key != stage.output.key)


__all__ = ["Relation", "Traits", "relation_of", "traits_of"]
