"""The dataflow of one region as plain data: what the planner and the legality rules look at. No TVM here."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["kernel", "opaque", "other", "barrier"]


@dataclass(frozen=True)
class Value:
    """A tensor of the region.

    Attributes
    ----------
    producer : index of the operator that makes it, or None for what comes from outside
    shape : extents, symbolic ones as text
    num_bytes : size in bytes; symbolic extents counted as 1024
    live_out : True if it is read outside of the region's operators (an output of the block, a return value)
    """

    index: int
    name: str
    shape: tuple[int | str, ...]
    dtype: str
    num_bytes: int
    producer: int | None = None
    live_out: bool = False
    constant: bool = False


@dataclass(frozen=True)
class Operator:
    """A binding of the region.

    Attributes
    ----------
    kind : "kernel" (its stages are known), "opaque" (a kernel that can't be read), "other" (no kernel: shape
        arithmetic, packed calls, calls of other functions), "barrier" (side effects: nothing moves across it)
    inputs, outputs : indices of values, without repeats, in the order of first use
    pointwise : True if every output element needs only the element at the same place of equally shaped inputs
        (others may be broadcast)
    aligned : the inputs that are read at the output's own place
    reductions : number of reduction stages
    contraction : True if a reduction reads its inputs more often than once (matmul, convolution, window)
    flops : arithmetic operations of one run
    expensive : transcendental operations of one run
    vector_ops : weighted operations of one run
    requires : operators that must come before it for other reasons than data (shape symbols, barriers)
    why : for opaque, other and barrier: the reason
    """

    index: int
    name: str
    op: str
    kind: Kind
    inputs: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()
    pointwise: bool = False
    aligned: tuple[int, ...] = ()
    reductions: int = 0
    contraction: bool = False
    flops: float = 0.0
    expensive: float = 0.0
    vector_ops: float = 0.0
    requires: tuple[int, ...] = ()
    why: str = ""


@dataclass(frozen=True)
class Graph:
    """The operators of one region in program order.

    Invariant (:meth:`verify`): an operator reads values from outside or of earlier operators only.
    """

    name: str
    operators: tuple[Operator, ...]
    values: tuple[Value, ...]
    consumers: tuple[tuple[int, ...], ...] = field(default=())

    @staticmethod
    def of(name: str, operators: Iterable[Operator], values: Iterable[Value]) -> Graph:
        """A verified graph of ``operators``, numbered in order, with each value's consumers filled in."""
        ops, vals = tuple(operators), tuple(values)
        readers: list[list[int]] = [[] for _ in vals]
        for o in ops:
            for v in o.inputs:
                readers[v].append(o.index)
        graph = Graph(name, ops, vals, tuple(map(tuple, readers)))
        graph.verify()
        return graph

    def verify(self) -> None:
        """Check the invariant.

        Raises
        ------
        ValueError
            If an operator reads a value of a later one, or the numbering has gaps.
        """
        for number, o in enumerate(self.operators):
            if o.index != number:
                raise ValueError(f"operator {o.name} has index {o.index} at place {number}")
            for before in (*o.requires, *(p for v in o.inputs if (p := self.values[v].producer) is not None)):
                if before >= number:
                    raise ValueError(f"operator {o.name} needs operator {before}, which comes later")

    def predecessors(self, index: int) -> tuple[int, ...]:
        """Operators that must run before ``index``, sorted."""
        op = self.operators[index]
        found = {p for v in op.inputs if (p := self.values[v].producer) is not None}
        return tuple(sorted(found | set(op.requires)))

    def successors(self) -> list[list[int]]:
        """For each operator those that must run after it, sorted."""
        out: list[list[int]] = [[] for _ in self.operators]
        for o in self.operators:
            for p in self.predecessors(o.index):
                out[p].append(o.index)
        return out

    def inputs_of(self, members: Iterable[int]) -> tuple[int, ...]:
        """Values a group reads from outside, in the order of first use."""
        inside = sorted(members)
        made = {v for i in inside for v in self.operators[i].outputs}
        return tuple(dict.fromkeys(v for i in inside for v in self.operators[i].inputs if v not in made))

    def outputs_of(self, members: Iterable[int]) -> tuple[int, ...]:
        """Values of a group that somebody outside reads, in program order."""
        inside = set(members)
        return tuple(
            v
            for i in sorted(inside)
            for v in self.operators[i].outputs
            if self.values[v].live_out or any(c not in inside for c in self.consumers[v])
        )
