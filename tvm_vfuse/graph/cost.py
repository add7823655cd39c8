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
    """Operations for one element.

    Attributes
    ----------
    flops : each arithmetic operation or call counted once
    expensive : transcendental calls
    vector_ops : operations weighed (a division 4, a root 6, an expanded transcendental call about 20)
    """

    flops: int
    expensive: int
    vector_ops: float


@functools.lru_cache(maxsize=65536)
def element_cost(stage: Stage) -> ElementCost:
    """Cost of one evaluation of the stage's element (the fold of a reduction included)."""
    weights: list[float] = []
    expensive: list[Call] = []

    def arithmetic(node: object) -> None:
        weights.append(4.0 if isinstance(node, (tirx.Div, tirx.FloorDiv, tirx.FloorMod)) else 1.0)

    def call(node: Call) -> None:
        name = getattr(node.op, "name", "")
        if name in CHEAP_CALLS:
            weights.append(1.0)
        elif name in MEDIUM_CALLS:
            weights.append(6.0)
        else:
            weights.append(20.0)
            expensive.append(node)

    tvm_ffi.structural_walk(stage.element, [(kind, arithmetic) for kind in _ARITHMETIC] + [(Call, call)], order="post")
    fold = 1 if stage.reduce else 0
    return ElementCost(len(weights) + fold, len(expensive), sum(weights) + fold)
