"""Evaluates a group at one symbolic point of its axes: the single source of legality, traffic and code.

Every tensor element that the group's outputs need at the point becomes a :class:`Node`. The same element (same
tensor, same place) is one node, so a diamond is evaluated once; the same tensor at another place is another node,
and its price (``Evaluation.evaluations``) shows how often a producer would be computed again.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TypeAlias

import tvm
import tvm_ffi
from tvm import tirx
from tvm.ir import Call, TensorLoad, Var

from tvm_vfuse.errors import Reject
from tvm_vfuse.graph.axes import Axis, Placement, linear_terms
from tvm_vfuse.graph.compose import Program
from tvm_vfuse.graph.cost import element_cost
from tvm_vfuse.graph.indices import (
    IF_THEN_ELSE,
    INDEX,
    const_int,
    equal,
    free_vars,
    has_load,
    product,
    promote,
    structural_key,
)
from tvm_vfuse.graph.placement import place
from tvm_vfuse.graph.stages import Stage, Tensor

Expr: TypeAlias = tvm.ir.Expr
MAX_NODES = 20_000


@dataclass(eq=False)
class Node:
    """One value at the point.

    Attributes
    ----------
    var : placeholder that stands for the value in the expressions of its users
    kind : "load" (of an input), "compute", "reduce", or "part" (one result of a joint reduction)
    index : place of the element in its tensor
    exprs : value in terms of the placeholders of ``deps`` and the axes (reduce: the folded elements; load: none)
    axes : the axes the value depends on
    level : number of reductions that must be finished before it
    guards : index conditions under which it is needed; a guarded load is 0 elsewhere
    """

    var: Var
    kind: str
    tensor: Tensor
    index: tuple[Expr, ...]
    guards: tuple[Expr, ...] = ()
    stage: Stage | None = None
    exprs: tuple[Expr, ...] = ()
    deps: tuple[Node, ...] = ()
    axes: frozenset[Var] = frozenset()
    level: int = 0

    @property
    def dtype(self) -> str:
        return self.tensor.dtype


@dataclass(frozen=True)
class Store:
    """An output of the group: written with ``node`` at ``indices``."""

    tensor: Tensor
    node: Node
    indices: tuple[Expr, ...]
    full: bool


@dataclass
class Evaluation:
    """The group at a point: nodes in execution order, and the stores."""

    program: Program
    placement: Placement
    nodes: list[Node] = field(default_factory=list)
    stores: list[Store] = field(default_factory=list)

    @property
    def reductions(self) -> list[Node]:
        return [n for n in self.nodes if n.kind == "reduce"]

    @property
    def levels(self) -> int:
        return 1 + max((n.level + (n.kind == "reduce") for n in self.nodes), default=0)

    def in_reduce(self, node: Node) -> bool:
        """True if the value changes along the reduce axes (it then is computed inside their loops)."""
        reduce = {a.var for a in self.placement.reduce}
        return bool(node.axes & reduce)


def evaluate(program: Program) -> Evaluation:
    """Place the group's tensors and evaluate all outputs.

    Raises
    ------
    Reject
        Where the group can't be one kernel: no shared axes, a reduction read by another row, an expensive
        producer computed again.
    """
    if any(const_int(d) == 0 for s in program.stages for d in s.output.shape):
        raise Reject("zero-size", "a tensor of the group has no elements")
    where = place(program)
    point = _Point(program, where)
    out = Evaluation(program, where)
    reduce = {a.var for a in where.reduce}
    for tensor in program.outputs:
        indices = where.places[tensor.key]
        node = point.demand(tensor, indices, (), None)
        full = any(v in reduce for i in indices for v in free_vars(i))
        out.stores.append(Store(tensor, node, indices, full))
    point.settle()
    out.nodes = point.in_order([s.node for s in out.stores])
    check_recompute(out)
    return out


class _Point:
    """Demands become nodes at once and are worked out later, last stage first: no deep recursion."""

    def __init__(self, program: Program, where: Placement) -> None:
        self.program, self.where, self.analyzer = program, where, where.analyzer
        self.number = {s.output.key: i for i, s in enumerate(program.stages)}
        self.memo: dict[object, Node] = {}
        self.by_var: dict[Var, Node] = {}
        self.pending: list[list[Node]] = [[] for _ in program.stages]
        self.axis_vars = {a.var for a in where.axes}
        self.reduce_vars = {a.var for a in where.reduce}
        self.refusal: Reject | None = None

    def demand(self, tensor: Tensor, idx: tuple[Expr, ...], guards: tuple[Expr, ...], reader: Stage | None) -> Node:
        """The value of ``tensor`` at ``idx``."""
        number = self.number.get(tensor.key)
        stage = None if number is None else self.program.stages[number]
        if stage is not None and stage.reduce:
            self.must_be_home(tensor, idx, stage, reader)
            guards = ()
        key = (tensor.key, tuple(map(structural_key, idx)), tuple(map(structural_key, guards)))
        node = self.memo.get(key)
        if node is None:
            if len(self.memo) >= MAX_NODES:
                raise Reject("too-large", f"the group needs more than {MAX_NODES} values at one point")
            kind = "load" if stage is None else "reduce" if stage.reduce else "compute"
            node = self.memo[key] = self.new(kind, tensor, idx, guards, stage)
            if stage is not None and stage.joint is not None:
                node.kind = "part"
                node.deps = (self.joint_node(stage, reader),)
            elif number is not None:
                self.pending[number].append(node)
        return node

    def new(
        self, kind: str, tensor: Tensor, idx: tuple[Expr, ...], guards: tuple[Expr, ...], stage: Stage | None
    ) -> Node:
        node = Node(self.fresh(tensor), kind, tensor, tuple(idx), guards, stage)
        self.by_var[node.var] = node
        return node

    def joint_node(self, stage: Stage, reader: Stage | None) -> Node:
        """The node that folds all components of a joint reduction."""
        assert stage.joint is not None
        key = ("joint", id(stage.joint))
        node = self.memo.get(key)
        if node is None:
            home = self.where.places.get(stage.output.key, ())
            node = self.memo[key] = self.new("reduce", stage.output, home, (), stage)
            self.pending[self.number[stage.output.key]].append(node)
        return node

    def settle(self) -> None:
        """Works out the expressions of all demanded values."""
        for waiting in reversed(self.pending):
            for node in waiting:
                with contextlib.ExitStack() as scopes:
                    for g in node.guards:
                        scopes.enter_context(self.analyzer.constraint_scope(g))
                    self.work_out(node)

    def work_out(self, node: Node) -> None:
        stage = node.stage
        assert stage is not None
        if stage.reduce:
            env = self.where.envs[id(stage)]
        else:
            env = {i: p for i, p in zip(stage.indices, node.index, strict=True) if isinstance(i, Var)}
            for v, _ in stage.spatial:
                env.setdefault(v, tirx.IntImm(INDEX, 0))
        elements = stage.joint.elements if stage.joint is not None else (stage.element,)
        node.exprs = tuple(self.rewrite(e, env, node.guards, stage) for e in elements)
        if self.refusal is not None:
            raise self.refusal

    def in_order(self, wanted: list[Node]) -> list[Node]:
        """``wanted`` and what they need, producers first; fills deps, axes and levels."""
        order: list[Node] = []
        state: dict[int, int] = {}
        stack = list(reversed(wanted))
        while stack:
            node = stack[-1]
            if state.get(id(node)) == 2:
                stack.pop()
                continue
            if id(node) not in state:
                state[id(node)] = 1
                node.deps = self.deps_of(node)
                stack.extend(d for d in reversed(node.deps) if id(d) not in state)
                continue
            stack.pop()
            state[id(node)] = 2
            self.finish(node)
            order.append(node)
        return order

    def deps_of(self, node: Node) -> tuple[Node, ...]:
        if node.kind == "part":
            return node.deps
        parts = node.exprs or node.index
        found: dict[Var, Node] = {}

        def visit(var: Var) -> None:
            if var in self.by_var:
                found.setdefault(var, self.by_var[var])

        for e in (*parts, *node.guards):
            tvm_ffi.structural_walk(e, [(Var, visit)], order="post")
        return tuple(found.values())

    def finish(self, node: Node) -> None:
        parts = () if node.kind == "part" else node.exprs or node.index
        used = {v for e in (*parts, *node.guards) for v in free_vars(e)} & self.axis_vars
        for d in node.deps:
            used |= d.axes
            node.level = max(node.level, d.level + (d.kind == "reduce"))
        node.axes = frozenset(used - self.reduce_vars if node.kind == "reduce" else used)

    def must_be_home(self, tensor: Tensor, idx: tuple[Expr, ...], stage: Stage, reader: Stage | None) -> None:
        home = self.where.places.get(tensor.key)
        if home is None or not all(equal(i, p, self.analyzer) for i, p in zip(idx, home, strict=True)):
            by = reader.name if reader else "an output"
            raise Reject(
                "reduction-read-by-other-row",
                f"{by} reads the reduction {stage.name} at [{', '.join(map(str, idx))}], the group computes it at "
                f"[{', '.join(map(str, home or ('?',)))}]",
                reader.member if reader else stage.member,
            )

    def fresh(self, tensor: Tensor) -> Var:
        clean = "".join(c if c.isalnum() else "_" for c in tensor.name[:24])
        return Var(f"{clean}_{len(self.memo)}", tensor.dtype)

    # ------------------------------------------------------------------------ expressions
    def rewrite(self, expr: Expr, env: dict[Var, Expr], guards: tuple[Expr, ...], stage: Stage) -> Expr:
        def on_load(load: TensorLoad) -> Expr:
            tensor = stage.reads[load.source]
            try:
                idx = tuple(self.index_of(i, env, guards, stage) for i in load.indices)
                return self.demand(tensor, idx, guards, stage).var
            except Reject as why:  # an exception would lose its class on its way through TVM
                self.refusal = self.refusal or why
                return tirx.const(0, tensor.dtype)

        def on_call(call: Call) -> Expr:
            if getattr(call.op, "name", "") != IF_THEN_ELSE:
                return call
            return self.branch(call.args[0], call.args[1], call.args[2], env, guards, stage)

        def on_select(select: tirx.Select) -> Expr:
            return self.branch(select.condition, select.true_value, select.false_value, env, guards, stage)

        def on_var(var: Var) -> Expr:
            found = env.get(var)
            if found is None:
                return var
            return found if str(found.ty) == str(var.ty) else tirx.Cast(str(var.ty), found)

        return tvm_ffi.structural_map(
            expr, [(TensorLoad, on_load), (Call, on_call), (tirx.Select, on_select), (Var, on_var)], order="pre"
        )

    def index_of(self, expr: Expr, env: dict[Var, Expr], guards: tuple[Expr, ...], stage: Stage) -> Expr:
        if isinstance(expr, Var) and expr in env:
            return env[expr]
        if has_load(expr):
            expr = self.rewrite(expr, env, guards, stage)
            return self.analyzer.simplify(promote(expr))
        return self.analyzer.simplify(promote(expr, env))

    def branch(self, cond: Expr, yes: Expr, no: Expr, env: dict, guards: tuple[Expr, ...], stage: Stage) -> Expr:
        if has_load(cond):
            parts = [self.rewrite(e, env, guards, stage) for e in (cond, yes, no)]
            return tirx.Select(*parts)
        known = self.analyzer.simplify(negate_le(promote(cond, env)))
        value = const_int(known)
        if value is not None:
            return self.rewrite(yes if value else no, env, guards, stage)
        other = self.analyzer.simplify(tirx.Not(known))
        with self.analyzer.constraint_scope(known):
            a = self.rewrite(yes, env, (*guards, known), stage)
        with self.analyzer.constraint_scope(other):
            b = self.rewrite(no, env, (*guards, other), stage)
        return tirx.Select(known, a, b)


def negate_le(expr: Expr) -> Expr:
    """``a <= b`` as ``not (b < a)``: the analyzer divides only ``<`` by a common factor."""
    return tvm_ffi.structural_map(
        expr,
        [(tirx.LE, lambda x: tirx.Not(tirx.LT(x.b, x.a))), (tirx.GE, lambda x: tirx.Not(tirx.LT(x.a, x.b)))],
        order="post",
    )


# ---------------------------------------------------------------------------------- what it costs
def loop_axes(evaluation: Evaluation, node: Node) -> tuple[Axis, ...]:
    """The loops around ``node``: the space axes, and the reduce axes if its value changes along them."""
    where = evaluation.placement
    if node.kind == "reduce" or evaluation.in_reduce(node):
        return where.axes
    if not where.reduce and where.space and where.space[-1].var not in node.axes:
        return where.space[:-1]  # elementwise groups hoist what does not change along the innermost axis
    return where.space


def loop_points(evaluation: Evaluation, node: Node) -> Expr:
    """How often the kernel evaluates ``node``."""
    return evaluation.placement.analyzer.simplify(product([a.extent for a in loop_axes(evaluation, node)]))


def check_recompute(evaluation: Evaluation) -> None:
    """Refuses to evaluate an expensive stage more often than it has elements."""
    a = evaluation.placement.analyzer
    by_stage: dict[int, list[Node]] = {}
    for n in evaluation.nodes:
        if n.kind == "compute" and n.stage is not None and element_cost(n.stage).expensive:
            by_stage.setdefault(id(n.stage), []).append(n)
    for nodes in by_stage.values():
        stage = nodes[0].stage
        assert stage is not None
        numel = a.simplify(product(stage.output.shape))
        if all(n.guards and is_injective(evaluation, n) for n in nodes):
            continue  # the guards part the elements among the nodes
        total = a.simplify(sum((loop_points(evaluation, n) for n in nodes[1:]), loop_points(evaluation, nodes[0])))
        if equal(total, numel, a):
            continue
        times, elements = const_int(total), const_int(numel)
        if times is not None and elements is not None and times <= elements * 1.02:
            continue
        if (times is None or elements is None) and a.can_prove(tirx.LE(total, numel)):
            continue
        raise Reject(
            "expensive-recompute",
            f"{stage.name} ({element_cost(stage).expensive} expensive operations) has {numel} elements and would be "
            f"evaluated {total} times",
            stage.member,
        )


def is_injective(evaluation: Evaluation, node: Node) -> bool:
    """True if different points of the group's axes surely need different elements of the node's tensor."""
    axes = [a for a in evaluation.placement.axes if a.size != 1]
    seen: set[Var] = set()
    for i in node.index:
        here = [a for a in axes if a.var in free_vars(i)]
        terms = linear_terms(i, here) if here else []
        if terms is None or any(a.var in seen for a in here):
            return False
        seen |= {a.var for a in here}
        reach = 0  # what the axes with smaller strides span
        for stride, a in sorted(
            ((abs(const_int(t) or 0), a) for t, a in zip(terms, here, strict=False)), key=lambda x: x[0]
        ):
            if stride <= reach or (a.size is None and len(here) > 1):
                return False
            reach += stride * ((a.size or 2) - 1)
    return len(seen) == len(axes)
