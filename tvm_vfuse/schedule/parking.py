"""Decides what happens to values that a later level needs again: read back, parked, or computed again.

Nothing full-size is kept for it: a value that is an output is read back from there (its line is still in the
cache); an expensive one waits in the place of an output that is written later, element by element; a cheap one is
computed again from the inputs. Only where no output fits does the kernel keep a row in a scratch buffer.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field

from tvm.ir import Var

from tvm_vfuse.graph.cost import element_cost
from tvm_vfuse.graph.indices import free_vars
from tvm_vfuse.graph.nodes import Evaluation, Node, Store


@dataclass
class Parking:
    """``slots``: output that holds a node's value between levels; ``scratch``: nodes that need a row of their own."""

    slots: dict[int, Store] = field(default_factory=dict)
    scratch: list[int] = field(default_factory=list)
    stored_at: dict[int, int] = field(default_factory=dict)
    explicit: dict[int, list[Node]] = field(default_factory=dict)

    def at(self, level: int) -> list[Node]:
        """Nodes whose value must be put away at ``level`` (outputs are stored anyway and not among them)."""
        return self.explicit.get(level, [])

    def is_stored(self, node: Node, level: int) -> bool:
        """True if the value was put away before ``level``."""
        return id(node) in self.stored_at and self.stored_at[id(node)] < level


def park(evaluation: Evaluation, inner: Set[Var]) -> Parking:
    """Find a place for every value that crosses levels and is not worth computing again."""
    out = Parking()
    full = [s for s in evaluation.stores if any(free_vars(i) & inner for i in s.indices)]
    for s in full:
        if id(s.node) not in out.slots:
            out.slots[id(s.node)] = s
            out.stored_at[id(s.node)] = s.node.level
    free_from: dict[int, int] = {}
    last = _last_use(evaluation, inner)
    for n in evaluation.nodes:
        crosses = n.kind == "compute" and bool(n.axes & inner) and last.get(id(n), n.level) > n.level
        if not crosses or id(n) in out.slots or n.stage is None or not element_cost(n.stage).expensive:
            continue
        slot = next((s for s in full if s.tensor.dtype == n.dtype and _is_free(s, n, last[id(n)], free_from)), None)
        if slot is None:
            out.scratch.append(id(n))
        else:
            free_from[slot.tensor.key] = last[id(n)]
            out.slots[id(n)] = slot
        out.stored_at[id(n)] = n.level
        out.explicit.setdefault(n.level, []).append(n)
    return out


def _is_free(store: Store, node: Node, last: int, free_from: dict[int, int]) -> bool:
    """True if the output's place is empty while ``node`` would wait in it.

    At one level everything is read before anything is put away, so a place can change hands at a level.
    """
    return store.node.level >= last and free_from.get(store.tensor.key, 0) <= node.level


def _last_use(evaluation: Evaluation, inner: Set[Var]) -> dict[int, int]:
    """Latest level at which each inner node's value is needed; users that are computed again need it again."""
    last: dict[int, int] = {}
    kept = {id(s.node) for s in evaluation.stores}
    for s in evaluation.stores:
        last[id(s.node)] = max(last.get(id(s.node), 0), s.node.level)
    for n in reversed(evaluation.nodes):
        stays = n.kind == "reduce" or id(n) in kept or (n.stage is not None and element_cost(n.stage).expensive > 0)
        at = n.level if stays else max(n.level, last.get(id(n), n.level))
        for d in n.deps:
            if d.axes & inner and d.kind != "reduce":
                last[id(d)] = max(last.get(id(d), 0), at)
    return last
