"""Arithmetic cost of a stage's element, counted on its expression."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import tvm_ffi
from tvm import tirx
from tvm.ir import Call

from tvm_vfuse.graph.stages import Stage

CHEAP_CALLS = frozenset(
    {"prim.if_then_else", "tirx.fabs", "tirx.floor", "tirx.ceil", "tirx.round", "tirx.trunc", "tirx.nearbyint",
     "tirx.reinterpret", "tirx.shift_left", "tirx.shift_right", "tirx.bitwise_and", "tirx.bitwise_or", "tirx.likely",
     "tirx.bitwise_xor", "tirx.bitwise_not", "tirx.isnan", "tirx.isinf", "tirx.isfinite", "tirx.copysign", "tirx.abs"}
)  # fmt: skip
MEDIUM_CALLS = frozenset({"tirx.sqrt", "tirx.rsqrt"})
_ARITHMETIC = (tirx.Add, tirx.Sub, tirx.Mul, tirx.Div, tirx.FloorDiv, tirx.FloorMod, tirx.Max, tirx.Min)


@dataclass(frozen=True)
class ElementCost:
    """Operations for one element: ``flops`` counts each arithmetic operation or call once; ``expensive`` the
    transcendental calls; ``vector_ops`` weighs them (about 20 vector operations an expanded call).
    """

    flops: int
    expensive: int
    vector_ops: float


@functools.lru_cache(maxsize=65536)
def element_cost(stage: Stage) -> ElementCost:
    """Cost of one evaluation of the stage's element (the fold of a reduction included)."""
    counts = [0, 0, 0.0]

    def arithmetic(node: object) -> None:
        # Index arithmetic is integer work of the addressing unit; float dtypes and data of ints count alike.
        counts[0] += 1
        counts[2] += 4.0 if isinstance(node, (tirx.Div, tirx.FloorDiv, tirx.FloorMod)) else 1.0

    def call(node: Call) -> None:
        name = getattr(node.op, "name", "")
        counts[0] += 1
        if name in CHEAP_CALLS:
            counts[2] += 1.0
        elif name in MEDIUM_CALLS:
            counts[2] += 6.0
        else:
            counts[1] += 1
            counts[2] += 20.0

    tvm_ffi.structural_walk(stage.element, [(kind, arithmetic) for kind in _ARITHMETIC] + [(Call, call)], order="post")
    fold = 1 if stage.reduce else 0
    return ElementCost(counts[0] + fold, counts[1], counts[2] + fold)
