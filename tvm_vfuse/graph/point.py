"""Works out the values of a program at one symbolic point of its axes."""

from __future__ import annotations

import contextlib
from typing import TypeAlias

import tvm
import tvm_ffi
from tvm import tirx
from tvm.ir import Call, TensorLoad, Var

from tvm_vfuse.errors import Reject
from tvm_vfuse.graph.axes import Placement
from tvm_vfuse.graph.compose import Program
from tvm_vfuse.graph.indices import IF_THEN_ELSE, INDEX, const_int, equal, free_vars, has_load, promote, structural_key
from tvm_vfuse.graph.nodes import Node
from tvm_vfuse.graph.stages import Stage, Tensor

Expr: TypeAlias = tvm.ir.Expr
Env: TypeAlias = dict[Var, Expr]
Guards: TypeAlias = tuple[Expr, ...]
MAX_NODES = 20_000


class Point:
    """Demands become nodes at once and are worked out later, last stage first: no deep recursion."""

    def __init__(self, program: Program, where: Placement) -> None:
        self.program, self.where, self.analyzer = program, where, where.analyzer
        self.number = {s.output.key: i for i, s in enumerate(program.stages)}
        self.memo: dict[object, Node] = {}
        self.by_var: dict[Var, Node] = {}
        self.pending: list[list[Node]] = [[] for _ in program.stages]
        self.axis_vars = {a.var for a in where.axes}
        self.reduce_vars = where.reduce_vars
        self.refusal: Reject | None = None

    def demand(self, tensor: Tensor, idx: tuple[Expr, ...], guards: Guards, reader: Stage | None) -> Node:
        """The value of ``tensor`` at ``idx``; a new one is worked out by :meth:`settle`.

        Raises
        ------
        Reject
            If ``tensor`` is a reduction and ``idx`` is not where the group computes it, or there are too many values.
        """
        number = self.number.get(tensor.key)
        stage = None if number is None else self.program.stages[number]
        if stage is not None and stage.reduce:
            self._must_be_home(tensor, idx, stage, reader)
            guards = ()
        key = (tensor.key, tuple(map(structural_key, idx)), tuple(map(structural_key, guards)))
        node = self.memo.get(key)
        if node is None:
            if len(self.memo) >= MAX_NODES:
                raise Reject("too-large", f"the group needs more than {MAX_NODES} values at one point")
            kind = "load" if stage is None else "reduce" if stage.reduce else "compute"
            node = self.memo[key] = self._new(kind, tensor, idx, guards, stage)
            if stage is not None and stage.joint is not None:
                node.kind = "part"
                node.deps = (self._joint_node(stage),)
            elif number is not None:
                self.pending[number].append(node)
        return node

    def _new(self, kind: str, tensor: Tensor, idx: tuple[Expr, ...], guards: Guards, stage: Stage | None) -> Node:
        node = Node(self._fresh(tensor), kind, tensor, tuple(idx), guards, stage)
        self.by_var[node.var] = node
        return node

    def _joint_node(self, stage: Stage) -> Node:
        """The node that folds all components of a joint reduction."""
        assert stage.joint is not None
        key = ("joint", id(stage.joint))
        node = self.memo.get(key)
        if node is None:
            home = self.where.places.get(stage.output.key, ())
            node = self.memo[key] = self._new("reduce", stage.output, home, (), stage)
            self.pending[self.number[stage.output.key]].append(node)
        return node

    def settle(self) -> None:
        """Works out the expressions of all demanded values."""
        for waiting in reversed(self.pending):
            for node in waiting:
                with contextlib.ExitStack() as scopes:
                    for g in node.guards:
                        scopes.enter_context(self.analyzer.constraint_scope(g))
                    self._work_out(node)

    def _work_out(self, node: Node) -> None:
        """Fills the node's expressions; what they read is demanded on the way."""
        stage = node.stage
        assert stage is not None
        if stage.reduce:
            env = self.where.envs[id(stage)]
        else:
            env = {i: p for i, p in zip(stage.indices, node.index, strict=True) if isinstance(i, Var)}
            for v, _ in stage.spatial:
                env.setdefault(v, tirx.IntImm(INDEX, 0))
        elements = stage.joint.elements if stage.joint is not None else (stage.element,)
        node.exprs = tuple(self._rewrite(e, env, node.guards, stage) for e in elements)
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
                node.deps = self._deps_of(node)
                stack.extend(d for d in reversed(node.deps) if id(d) not in state)
                continue
            stack.pop()
            state[id(node)] = 2
            self._finish(node)
            order.append(node)
        return order

    def _deps_of(self, node: Node) -> tuple[Node, ...]:
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

    def _finish(self, node: Node) -> None:
        """Fills the node's axes and level from those of its deps."""
        parts = () if node.kind == "part" else node.exprs or node.index
        used = {v for e in (*parts, *node.guards) for v in free_vars(e)} & self.axis_vars
        for d in node.deps:
            used |= d.axes
            node.level = max(node.level, d.level + (d.kind == "reduce"))
        node.axes = frozenset(used - self.reduce_vars if node.kind == "reduce" else used)

    def _must_be_home(self, tensor: Tensor, idx: tuple[Expr, ...], stage: Stage, reader: Stage | None) -> None:
        home = self.where.places.get(tensor.key)
        if home is None or not all(equal(i, p, self.analyzer) for i, p in zip(idx, home, strict=True)):
            by = reader.name if reader else "an output"
            raise Reject(
                "reduction-read-by-other-row",
                f"{by} reads the reduction {stage.name} at [{', '.join(map(str, idx))}], the group computes it at "
                f"[{', '.join(map(str, home or ('?',)))}]",
                reader.member if reader else stage.member,
            )

    def _fresh(self, tensor: Tensor) -> Var:
        clean = "".join(c if c.isalnum() else "_" for c in tensor.name[:24])
        return Var(f"{clean}_{len(self.memo)}", tensor.dtype)

    # ------------------------------------------------------------------------ expressions
    def _rewrite(self, expr: Expr, env: Env, guards: Guards, stage: Stage) -> Expr:
        """``expr`` of ``stage`` over the group's axes (``env``) and the placeholders of the values it reads."""

        def on_load(load: TensorLoad) -> Expr:
            tensor = stage.reads[load.source]
            try:
                idx = tuple(self._index_of(i, env, guards, stage) for i in load.indices)
                return self.demand(tensor, idx, guards, stage).var
            except Reject as why:  # an exception would lose its class on its way through TVM
                self.refusal = self.refusal or why
                return tirx.const(0, tensor.dtype)

        def on_call(call: Call) -> Expr:
            if getattr(call.op, "name", "") != IF_THEN_ELSE:
                return call
            return self._branch(call.args[0], call.args[1], call.args[2], env, guards, stage)

        def on_select(select: tirx.Select) -> Expr:
            return self._branch(select.condition, select.true_value, select.false_value, env, guards, stage)

        def on_var(var: Var) -> Expr:
            found = env.get(var)
            if found is None:
                return var
            return found if str(found.ty) == str(var.ty) else tirx.Cast(str(var.ty), found)

        return tvm_ffi.structural_map(
            expr, [(TensorLoad, on_load), (Call, on_call), (tirx.Select, on_select), (Var, on_var)], order="pre"
        )

    def _index_of(self, expr: Expr, env: Env, guards: Guards, stage: Stage) -> Expr:
        if isinstance(expr, Var) and expr in env:
            return env[expr]
        if has_load(expr):
            expr = self._rewrite(expr, env, guards, stage)
            return self.analyzer.simplify(promote(expr))
        return self.analyzer.simplify(promote(expr, env))

    def _branch(self, cond: Expr, yes: Expr, no: Expr, env: Env, guards: Guards, stage: Stage) -> Expr:
        if has_load(cond):
            parts = [self._rewrite(e, env, guards, stage) for e in (cond, yes, no)]
            return tirx.Select(*parts)
        known = self.analyzer.simplify(_as_less_than(promote(cond, env)))
        value = const_int(known)
        if value is not None:
            return self._rewrite(yes if value else no, env, guards, stage)
        other = self.analyzer.simplify(tirx.Not(known))
        with self.analyzer.constraint_scope(known):
            a = self._rewrite(yes, env, (*guards, *conjuncts(known)), stage)
        with self.analyzer.constraint_scope(other):
            b = self._rewrite(no, env, (*guards, *conjuncts(other)), stage)
        return tirx.Select(known, a, b)


def _as_less_than(expr: Expr) -> Expr:
    """``a <= b`` as ``not (b < a)``: the analyzer divides only ``<`` by a common factor."""
    return tvm_ffi.structural_map(
        expr,
        [(tirx.LE, lambda x: tirx.Not(tirx.LT(x.b, x.a))), (tirx.GE, lambda x: tirx.Not(tirx.LT(x.a, x.b)))],
        order="post",
    )


def conjuncts(condition: Expr) -> list[Expr]:
    """The parts of a conjunction: each then constrains, and is tested, by itself."""
    if isinstance(condition, tirx.And):
        return [*conjuncts(condition.a), *conjuncts(condition.b)]
    return [condition]
