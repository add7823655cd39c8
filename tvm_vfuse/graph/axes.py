"""The loops of a group, and where its tensors lie along them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import tvm
from tvm.ir import Var
from tvm.sym import Analyzer

from tvm_vfuse.graph.indices import const_int, contains, equal, flatten, index, promote
from tvm_vfuse.graph.sizes import assumed_extent

Expr: TypeAlias = tvm.ir.Expr


@dataclass(frozen=True)
class Axis:
    """A loop of the group: its variable and extent; ``origin`` numbers the anchor's axis it is (a part of)."""

    var: Var
    extent: Expr
    origin: int = -1

    @property
    def size(self) -> int | None:
        """The extent in points, or None where it is symbolic."""
        return const_int(self.extent)

    @property
    def assumed(self) -> int:
        """The extent in points as heuristics count it."""
        return assumed_extent(self.extent)


@dataclass
class Placement:
    """Axes of the group, the environment of each placed stage, the place of each placed tensor.

    Attributes
    ----------
    space : axes along which the members work independently
    reduce : axes that are walked inside
    order : all of them, outermost first, as the anchor's largest read lies in memory
    envs : stage identity -> the stage's axes in terms of the group's
    places : tensor key -> indices in terms of the group's axes
    """

    analyzer: Analyzer
    space: tuple[Axis, ...]
    reduce: tuple[Axis, ...]
    order: tuple[Axis, ...] = ()
    envs: dict[int, dict[Var, Expr]] = field(default_factory=dict)
    places: dict[int, tuple[Expr, ...]] = field(default_factory=dict)

    @property
    def axes(self) -> tuple[Axis, ...]:
        """Space axes, then reduce axes."""
        return (*self.space, *self.reduce)

    @property
    def reduce_vars(self) -> set[Var]:
        """Variables of the reduce axes."""
        return {a.var for a in self.reduce}


def linear_terms(expr: Expr, axes: Sequence[Axis]) -> list[Expr] | None:
    """Coefficients of ``axes`` (then the constant) if ``expr`` is affine in them, else None."""
    found = list(tvm.sym.detect_linear_equation(expr, [a.var for a in axes]))
    if len(found) != len(axes) + 1:
        return None
    variables = {a.var for a in axes}
    return None if any(contains(f, variables) for f in found) else [promote(f) for f in found]


def is_mixed_radix(flat: Expr, axes: Sequence[Axis], numel: Expr, analyzer: Analyzer) -> bool:
    """True if ``flat`` takes each value below ``numel`` once: the axes, in some order, are its digits."""
    if equal(flat, flatten([x.var for x in axes], [x.extent for x in axes]), analyzer):
        return True
    long = [x for x in axes if x.size != 1]
    terms = linear_terms(flat, long)
    if terms is None or const_int(analyzer.simplify(terms[-1])) != 0:
        return False
    strides = [(analyzer.simplify(t), x.extent) for t, x in zip(terms, long, strict=False)]
    expect: Expr = index(1)
    while strides:
        hit = next((s for s in strides if equal(s[0], expect, analyzer)), None)
        if hit is None:
            return False
        strides.remove(hit)
        expect = analyzer.simplify(expect * hit[1])
    return equal(expect, numel, analyzer)
