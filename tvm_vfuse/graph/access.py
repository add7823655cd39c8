"""Access relations of a kernel: how each output element depends on each input, read from the index maps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import tvm_ffi
from tvm.ir import TensorLoad, Var

from tvm_vfuse.graph.cost import element_cost
from tvm_vfuse.graph.indices import const_int, free_vars
from tvm_vfuse.graph.placement import loads_of
from tvm_vfuse.graph.stages import Kernel, Stage

Relation = Literal["pointwise", "broadcast", "permutation", "reduction", "window", "affine", "gather"]
UNKNOWN_EXTENT = 1024


@dataclass(frozen=True)
class Read:
    """One read of a stage: from which tensor, and how its place follows from the stage's axes.

    ``indices`` is the index map as text, so that it prints and compares without TVM.
    """

    stage: str
    tensor: str
    relation: Relation
    indices: tuple[str, ...]


@dataclass(frozen=True)
class Traits:
    """What the planner wants to know of a kernel.

    ``same_place[i]`` tells whether input ``i`` is read at the output's own place; ``points`` is the number of
    iterations the costs are summed over (symbolic extents count 1024 each).
    """

    reads: tuple[Read, ...]
    pointwise: bool
    same_place: tuple[bool, ...]
    reductions: int
    contraction: bool
    flops: float
    expensive: float
    vector_ops: float
    dynamic: bool


def relation_of(stage: Stage, load: TensorLoad) -> Relation:
    """Name the access relation between the stage's output element and one of its reads."""
    spatial = {v for v, _ in stage.spatial}
    reduce = {v for v, _ in stage.reduce}
    hit: list[int] = []
    for i in load.indices:
        tvm_ffi.structural_walk(i, [(TensorLoad, lambda _: hit.append(1))], order="post")
    if hit:
        return "gather"
    plain = [i for i in load.indices if isinstance(i, Var)]
    used = {v for i in load.indices for v in free_vars(i)}
    if len(plain) + sum(const_int(i) is not None for i in load.indices) < len(load.indices):
        return "window" if used & reduce and used & spatial else "affine"
    if used & reduce:
        return "reduction"
    home = [i for i in stage.indices if isinstance(i, Var)]
    if [v for v in plain] == home and len(load.indices) == len(stage.indices):
        return "pointwise"
    if set(plain) == set(home) and len(plain) == len(home):
        return "permutation"
    return "broadcast"


def traits_of(kernel: Kernel) -> Traits:
    """Summarise a kernel's stages."""
    reads = []
    flops = expensive = ops = 0.0
    contraction = dynamic = False
    for s in kernel.stages:
        cost, points = element_cost(s), 1.0
        for _, e in (*s.spatial, *s.reduce):
            dynamic |= const_int(e) is None
            points *= const_int(e) if const_int(e) is not None else UNKNOWN_EXTENT
        flops += cost.flops * points
        expensive += cost.expensive * points
        ops += cost.vector_ops * points
        for load in loads_of(s):
            reads.append(
                Read(s.name, s.reads[load.source].name, relation_of(s, load), tuple(str(i) for i in load.indices))
            )
        contraction |= _is_contraction(s)
    single = len(kernel.stages) == 1 and not kernel.stages[0].reduce
    same = _same_place(kernel) if single else ()
    relations = {r.relation for r in reads}
    pointwise = single and relations <= {"pointwise", "broadcast"} and (any(same) or not kernel.inputs)
    return Traits(
        tuple(reads),
        pointwise,
        same,
        sum(bool(s.reduce) for s in kernel.stages),
        contraction,
        flops,
        expensive,
        ops,
        dynamic,
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
    stage = kernel.stages[0]
    where: dict[int, bool] = {}
    for load in loads_of(stage):
        key = stage.reads[load.source].key
        where[key] = where.get(key, True) and relation_of(stage, load) == "pointwise"
    inputs = [kernel.tensors[p] for p in kernel.params if p in kernel.tensors]
    inputs = [t for t in inputs if t.key != stage.output.key]
    return tuple(where.get(t.key, False) for t in inputs)


def describe(read: Read) -> str:
    return f"{read.stage}: {read.tensor}[{', '.join(read.indices)}] ({read.relation})"


__all__ = ["Read", "Relation", "Traits", "describe", "relation_of", "traits_of"]
