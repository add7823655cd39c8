"""Graphs without TVM, written by hand or drawn at random, and an oracle that answers without evaluating anything."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from hypothesis import strategies as st

from tvm_vfuse.graph.model import Graph, Operator, Value
from tvm_vfuse.legality.verdict import Facts, Verdict
from tvm_vfuse.plan.model import Group
from tvm_vfuse.resource.time_model import Machine

MACHINE = Machine(bytes_per_us=10_000.0, vector_ops_per_us=20_000.0, launch_us=3.0, source="a test")
SHAPE = (256, 64)


@dataclass(frozen=True)
class Op:
    """An operator of a graph in short: what it reads (names of inputs or of earlier operators) and what it is.

    Parameters
    ----------
    reads : names of graph inputs or earlier operators, separated by blanks
    what : "pointwise", "reduction", "contraction", "exp" (expensive, pointwise) or "stretch" (reads from another place)
    kind : as in ``Operator``
    """

    name: str
    reads: str
    what: str = "pointwise"
    kind: str = "kernel"
    shape: tuple[int | str, ...] = SHAPE
    live: bool = False
    outputs: int = 1
    ops_per_element: float = 1.0


def make_graph(ops: Sequence[Op], shapes: dict[str, tuple[int | str, ...]] | None = None, name: str = "g") -> Graph:
    """A graph of short operators; what nobody reads is live out. Inputs have ``SHAPE`` unless ``shapes`` has theirs."""
    values: list[Value] = []
    by_name: dict[str, int] = {}
    operators: list[Operator] = []
    read = {r for o in ops for r in o.reads.split()}
    names = {o.name for o in ops}
    made_by: dict[str, int] = {o.name: i for i, o in enumerate(ops)}
    barrier: int | None = None

    def value(key: str, shape: tuple[int | str, ...], producer: int | None, live: bool) -> int:
        elements = 1
        for e in shape:
            elements *= e if isinstance(e, int) else 1024
        by_name[key] = len(values)
        values.append(Value(len(values), key, shape, "float32", 4 * elements, producer, live))
        return by_name[key]

    for index, o in enumerate(ops):
        for r in o.reads.split():
            if r not in by_name and r not in names:
                value(r, (shapes or {}).get(r, SHAPE), None, False)
        inputs = tuple(dict.fromkeys(by_name[r] for r in o.reads.split() if r in by_name))
        keys = [o.name] if o.outputs == 1 else [o.name, *(f"{o.name}.{k}" for k in range(1, o.outputs))]
        made: tuple[int, ...] = ()
        if o.kind in ("kernel", "opaque"):
            made = tuple(value(k, o.shape, index, o.live or k not in read) for k in keys)
        elements = 1
        for e in o.shape:
            elements *= e if isinstance(e, int) else 1024
        same = tuple(v for v in inputs if values[v].shape == o.shape)
        pointwise = o.what in ("pointwise", "exp") and o.outputs == 1
        requires = {made_by[r] for r in o.reads.split() if r in made_by and r not in by_name}
        requires |= set(range(index)) if o.kind == "barrier" else set() if barrier is None else {barrier}
        operators.append(
            Operator(
                index,
                o.name,
                o.name,
                o.kind,
                inputs,
                made,
                pointwise=pointwise and o.kind == "kernel",
                aligned=same if pointwise else (),
                reductions=int(o.what == "reduction" or o.what == "contraction"),
                contraction=o.what == "contraction",
                flops=float(elements),
                expensive=float(elements) if o.what == "exp" else 0.0,
                vector_ops=o.ops_per_element * elements * (20.0 if o.what == "exp" else 1.0),
                requires=tuple(sorted(requires)),
                why="" if o.kind == "kernel" else f"{o.name} is {o.kind}",
            )
        )
        if o.kind == "barrier":
            barrier = index
    return Graph.of(name, operators, values)


@dataclass
class FakeOracle:
    """Says yes but to the sets that ``refuses`` names; counts what it was asked.

    ``facts_of`` gives the facts of a legal set; by default those of a kernel that computes nothing twice.
    """

    graph: Graph
    refuses: Callable[[tuple[int, ...]], bool] = lambda _members: False
    extra_ops: Callable[[tuple[int, ...]], float] = lambda _members: 0.0
    asked: list[tuple[tuple[int, ...], tuple[int, ...]]] = field(default_factory=list)
    cuts: dict[tuple[tuple[int, ...], tuple[int, ...]], Verdict] = field(default_factory=dict)

    def __call__(self, members: tuple[int, ...], clones: tuple[int, ...] = ()) -> Verdict:
        self.asked.append((members, clones))
        if (members, clones) in self.cuts:
            return self.cuts[members, clones]
        inside = tuple(sorted({*members, *clones}))
        if self.refuses(inside):
            return Verdict("refused-here", f"operators {inside}")
        ops = sum(self.graph.operators[i].vector_ops for i in inside) + self.extra_ops(inside)
        return Verdict(facts=Facts("fake", ("256",), vector_ops=ops))


# ------------------------------------------------------------------------------------------------------------- drawing
@st.composite
def graphs(draw: st.DrawFn, max_ops: int = 12, only_kernels: bool = False) -> Graph:
    """Random dataflow: up to ``max_ops`` operators over a few sizes, some of them no kernels."""
    count = draw(st.integers(1, max_ops))
    whats = st.sampled_from(["pointwise", "pointwise", "pointwise", "exp", "reduction", "contraction", "stretch"])
    kinds = st.sampled_from(
        ["kernel"] * (1 if only_kernels else 12) + ([] if only_kernels else ["opaque", "other", "barrier"])
    )
    sizes = st.sampled_from([(8,), (256, 64), (256, 1), (1024, 1024)])
    ops: list[Op] = []
    for number in range(count):
        sources = [f"in{k}" for k in range(2)] + [o.name for o in ops]
        reads = draw(st.lists(st.sampled_from(sources), min_size=1, max_size=3, unique=True))
        ops.append(
            Op(
                f"op{number}",
                " ".join(reads),
                draw(whats),
                draw(kinds),
                draw(sizes),
                live=draw(st.integers(0, 5)) == 0,
                outputs=draw(st.sampled_from([1, 1, 1, 2])),
                ops_per_element=draw(st.sampled_from([1.0, 4.0, 8.0])),
            )
        )
    return make_graph(ops)


def random_graph(seed: int, max_ops: int) -> Graph:
    """Like :func:`graphs`, but the same for a seed whatever the version of hypothesis."""
    rng = random.Random(seed)
    ops: list[Op] = []
    for number in range(rng.randint(2, max_ops)):
        sources = ["in0", "in1", *(o.name for o in ops), *(o.name for o in ops[-2:])]
        reads = dict.fromkeys(rng.choice(sources) for _ in range(rng.randint(1, 3)))
        what = rng.choice(["pointwise", "pointwise", "pointwise", "exp", "reduction", "contraction", "stretch"])
        kind = "opaque" if rng.random() < 0.05 else "kernel"
        shape = rng.choice([(8,), (256, 64), (256, 1), (1024, 1024)])
        ops.append(Op(f"op{number}", " ".join(reads), what, kind, shape, live=rng.random() < 0.15))
    return make_graph(ops)


def quarrelling(graph: Graph, seed: int, share: float) -> FakeOracle:
    """An oracle that refuses each set with one of the pairs that can't be together (``share`` of all pairs)."""
    rng = random.Random(seed)
    ops = range(len(graph.operators))
    hostile = {(a, b) for a in ops for b in ops if a < b and rng.random() < share}
    return FakeOracle(graph, lambda members: any(p in hostile for p in itertools.combinations(members, 2)))


def picky(graph: Graph, salt: int, refused_share: int = 3) -> FakeOracle:
    """An oracle that refuses one set of ``refused_share``, the same ones in every process, and no operator alone."""

    def digest(members: tuple[int, ...]) -> int:
        h = 2166136261 ^ salt
        for m in members:
            h = ((h ^ (m + 1)) * 16777619) & 0xFFFFFFFF
        return h >> 7

    def refuses(members: tuple[int, ...]) -> bool:
        return len(members) > 1 and digest(members) % refused_share == 0

    return FakeOracle(graph, refuses, lambda members: 2000.0 * (digest(members) % 5) if len(members) > 1 else 0.0)


# -------------------------------------------------------------------------------------------------- independent checks
def reach(graph: Graph) -> list[set[int]]:
    """For each operator all that must come before it, directly or not."""
    before: list[set[int]] = []
    for o in graph.operators:
        direct = graph.predecessors(o.index)
        before.append(set(direct).union(*(before[p] for p in direct)) if direct else set())
    return before


def is_convex(graph: Graph, members: Iterable[int]) -> bool:
    """No operator outside lies on a path between two members."""
    inside = set(members)
    before = reach(graph)
    return not any(
        o.index not in inside and before[o.index] & inside and any(o.index in before[m] for m in inside)
        for o in graph.operators
    )


def can_run_in_order(graph: Graph, groups: Sequence[Group]) -> bool:
    """Each group finds what it needs in groups before it."""
    done: set[int] = set()
    for g in groups:
        inside = set(g.all_members)
        if any(p not in inside and p not in done for i in inside for p in graph.predecessors(i)):
            return False
        done |= set(g.members)
    return done == set(range(len(graph.operators)))


def joined(graph: Graph, a: int, b: int) -> bool:
    """A data edge between two operators, or a tensor (no constant) that both read."""
    x, y = graph.operators[a], graph.operators[b]
    shared = {v for v in x.inputs if not graph.values[v].constant} & set(y.inputs)
    return bool(shared or set(x.outputs) & set(y.inputs) or set(y.outputs) & set(x.inputs))


def is_connected(members: Sequence[int], linked: Callable[[int, int], bool]) -> bool:
    seen, todo = {members[0]}, [members[0]]
    while todo:
        at = todo.pop()
        for m in members:
            if m not in seen and linked(at, m):
                seen.add(m)
                todo.append(m)
    return len(seen) == len(members)


def partitions(items: Sequence[int]) -> Iterator[list[list[int]]]:
    """All partitions of a sequence (Bell number of them)."""
    if not items:
        yield []
        return
    first, rest = items[0], items[1:]
    for smaller in partitions(rest):
        for k in range(len(smaller)):
            yield [*smaller[:k], [first, *smaller[k]], *smaller[k + 1 :]]
        yield [[first], *smaller]


def pairs(graph: Graph) -> Iterator[tuple[int, int]]:
    """Data edges between operators."""
    for value in graph.values:
        if value.producer is not None:
            yield from zip(itertools.repeat(value.producer), graph.consumers[value.index])
