"""Every case, by name."""

from __future__ import annotations

from tests.cases import (
    floats,
    functions,
    graphs,
    handwritten,
    indexing,
    integers,
    reductions,
    shapes,
    tuples,
)
from tests.cases.case import Case

FAMILIES = (tuples, shapes, indexing, reductions, integers, floats, graphs, handwritten, functions)
CASES: list[Case] = [case for family in FAMILIES for case in family.CASES]


def by_name(name: str) -> Case:
    (case,) = [c for c in CASES if c.name == name]
    return case
