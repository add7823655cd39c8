"""Spreads placements from a placed stage along the reads, until nothing changes.

Backward: a consumer at a point needs its producer at some place. Forward: a placed producer fixes the axes of its
consumer. A stage that no read fixes takes any bijection of its domain onto the group's axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import tvm
from tvm.ir import TensorLoad, Var

from tvm_vfuse.errors import Reject
from tvm_vfuse.graph.axes import Axis, Placement, is_mixed_radix
from tvm_vfuse.graph.compose import Program
from tvm_vfuse.graph.indices import const_int, contains, equal, flatten, index, product, promote, unravel
from tvm_vfuse.graph.stages import Stage, Tensor, loads_of

Expr: TypeAlias = tvm.ir.Expr


class Refine(Exception):
    """The axes must be split further: a reshape cuts through the middle of one."""

    def __init__(self, factors: dict[int, list[int]]) -> None:
        super().__init__("refine")
        self.factors = factors


def common_factors(a: Sequence[int], b: Sequence[int]) -> list[int] | None:
    """The coarsest list of factors that refines both ``a`` and ``b`` (equal products), or None."""
    out: list[int] = []
    left, right = list(a), list(b)
    while left and right:
        x, y = left[0], right[0]
        step = min(x, y)
        if max(x, y) % step:
            return None
        out.append(step)
        left[:1] = [x // step] if x > step else []
        right[:1] = [y // step] if y > step else []
    return out


class Spread:
    """Settles stage after stage; the result lies in ``where``.

    Parameters
    ----------
    factors : how the anchor's axes are split so far, by their number; None if they must not be split further
    """

    def __init__(self, program: Program, where: Placement, factors: dict[int, list[int]] | None) -> None:
        self.program, self.where, self.factors = program, where, factors
        self.producer = program.producer()
        self.loads = {id(s): loads_of(s) for s in program.stages}
        self.todo: list[Stage] = []
        self.readers: dict[int, list[Stage]] = {}
        for s in program.stages:
            for t in {t.key: t for t in s.reads.values()}.values():
                self.readers.setdefault(t.key, []).append(s)

    # ---------------------------------------------------------------- settling a stage
    def settle(self, stage: Stage, env: dict[Var, Expr]) -> None:
        """Places ``stage`` at ``env``, its own axes in terms of the group's; its neighbours are next."""
        self.where.envs[id(stage)] = env
        self.where.places[stage.output.key] = tuple(self.simplify(i, env) for i in stage.indices)
        self.todo.append(stage)

    def simplify(self, expr: Expr, env: dict[Var, Expr]) -> Expr:
        """An index of a stage that is placed at ``env``, over the group's axes and in 64 bits."""
        return self.where.analyzer.simplify(promote(expr, env))

    def run(self) -> None:
        """Spreads from all stages settled since the last run."""
        while self.todo:
            stage = self.todo.pop(0)
            env = self.where.envs[id(stage)]
            for load in self.loads[id(stage)]:
                self._backward(stage.reads[load.source], [self.simplify(i, env) for i in load.indices])
            for reader in self.readers.get(stage.output.key, ()):
                self._forward(reader)

    def _backward(self, tensor: Tensor, place: list[Expr]) -> None:
        """A placed stage reads ``tensor`` at ``place``: the producer lies there, if that visits each element once."""
        stage = self.producer.get(tensor.key)
        if stage is None or tensor.key in self.where.places or not self._is_bijection(tensor, place):
            return
        env = self._match(stage.reduce, self.where.reduce) if stage.reduce else {}
        if env is None or (stage.reduce and any(contains(p, self.where.reduce_vars) for p in place)):
            return
        for i, p in zip(stage.indices, place, strict=True):
            if isinstance(i, Var):
                env[i] = p
        self._fill_unit(stage, env)
        self.settle(stage, env)

    def _forward(self, stage: Stage) -> None:
        """``stage`` reads a placed tensor: it lies where one of its reads hits that place."""
        if stage.output.key in self.where.places:
            return
        for load in self.loads[id(stage)]:
            place = self.where.places.get(stage.reads[load.source].key)
            env = None if place is None else self._solve(stage, load, place)
            if env is not None:
                self.settle(stage, env)
                return

    def _solve(self, stage: Stage, load: TensorLoad, place: tuple[Expr, ...]) -> dict[Var, Expr] | None:
        """Axes of ``stage`` such that ``load`` reads the element at ``place``."""
        axes = dict((*stage.spatial, *stage.reduce))
        env: dict[Var, Expr] = {}
        plain = True
        for e, p in zip(load.indices, place, strict=True):
            if isinstance(e, Var) and e in axes and env.setdefault(e, p) is p:
                continue
            if const_int(e) is not None and equal(promote(e), p, self.where.analyzer):
                continue
            plain = False
        if not plain:
            return self._by_flat(stage, load, place)
        self._fill_unit(stage, env)
        if not self._fill_rest(stage, env):
            return None
        return env if self._is_good(stage, env) else None

    def _fill_unit(self, stage: Stage, env: dict[Var, Expr]) -> None:
        """Axes of one point that are still open are 0."""
        for v, e in (*stage.spatial, *stage.reduce):
            if v not in env and const_int(e) == 1:
                env[v] = index(0)

    def _fill_rest(self, stage: Stage, env: dict[Var, Expr]) -> bool:
        """Gives the axes that are still open to the reduce axes, in order."""
        for axes in (stage.spatial, stage.reduce):
            left = [(v, e) for v, e in axes if v not in env]
            if not left:
                continue
            found = self._match(left, self.where.reduce)
            if found is None:
                return False
            env.update(found)
        return True

    def _match(self, axes: Sequence[tuple[Var, Expr]], onto: Sequence[Axis]) -> dict[Var, Expr] | None:
        """``axes`` as the axes ``onto``: one by one if the extents agree, else through the flat index."""
        a = self.where.analyzer
        mine = [(v, e) for v, e in axes if const_int(e) != 1]
        theirs = [x for x in onto if x.size != 1]
        out: dict[Var, Expr] = {v: index(0) for v, e in axes if const_int(e) == 1}
        if len(mine) == len(theirs) and all(equal(e, x.extent, a) for (_, e), x in zip(mine, theirs, strict=True)):
            return out | {v: x.var for (v, _), x in zip(mine, theirs, strict=True)}
        if not mine or not equal(product([e for _, e in mine]), product([x.extent for x in theirs]), a):
            return None
        self._refine([const_int(e) for _, e in mine], theirs)
        flat = a.simplify(flatten([x.var for x in theirs], [x.extent for x in theirs]))
        return out | dict(zip([v for v, _ in mine], unravel(flat, [e for _, e in mine], a), strict=True))

    def _refine(self, sizes: list[int | None], onto: list[Axis]) -> None:
        """Starts again with finer axes if ``sizes`` cut through one of ``onto``."""
        if self.factors is None or None in sizes or any(x.size is None or x.origin < 0 for x in onto):
            return
        fine = common_factors([s for s in sizes if s is not None], [x.size or 1 for x in onto])
        if fine is None or len(fine) == len(onto):
            return
        cut: dict[int, list[int]] = {}
        rest = list(fine)
        for x in onto:
            size = x.size or 1
            while size > 1:
                cut.setdefault(x.origin, []).append(rest[0])
                size //= rest.pop(0)
        raise Refine(self.factors | cut)  # axes that are not walked here keep their parts

    def _by_flat(self, stage: Stage, load: TensorLoad, place: tuple[Expr, ...]) -> dict[Var, Expr] | None:
        """A reshape: the stage walks the same flat order as one of the homes."""
        a = self.where.analyzer
        shape = stage.reads[load.source].shape
        for onto in (self.where.space, self.where.order):
            env = self._match(stage.spatial, onto)
            if env is None:
                continue
            rest = self._match(stage.reduce, self.where.reduce) if stage.reduce else {}
            if rest is None:
                continue
            env |= rest
            idx = [self.simplify(i, env) for i in load.indices]
            if equal(flatten(idx, shape), flatten(place, shape), a) and self._is_good(stage, env):
                return env
        return None

    def by_extent(self, stage: Stage) -> None:
        """No read fixes the stage: any bijection of its domain onto the axes will do."""
        for onto in (self.where.space, self.where.order):
            env = self._match(stage.spatial, onto)
            if env is None or (stage.reduce and onto is self.where.order and self.where.reduce):
                continue
            rest = self._match(stage.reduce, self.where.reduce) if stage.reduce else {}
            if rest is not None and self._is_good(stage, env | rest):
                return self.settle(stage, env | rest)
        mine = " x ".join(str(e) for _, e in (*stage.spatial, *stage.reduce))
        ours = " x ".join(str(x.extent) for x in self.where.axes)
        what = "reduction" if stage.reduce else "output"
        raise Reject(
            "no-common-axes",
            f"{what} {stage.name} walks {mine or '1'}, the group {ours or '1'}: no shared block axes",
            stage.member,
        )

    # ---------------------------------------------------------------- tests
    def _is_good(self, stage: Stage, env: dict[Var, Expr]) -> bool:
        """The stage's output must be a bijection of the space (or of all) axes, a reduction's of the space axes."""
        place = [self.simplify(i, env) for i in stage.indices]
        if not self._is_bijection(stage.output, place):
            return False
        if not stage.reduce:
            return True
        if any(contains(p, self.where.reduce_vars) for p in place):
            return False
        mine, ours = [e for _, e in stage.reduce], [a.extent for a in self.where.reduce]
        if not equal(product(mine), product(ours), self.where.analyzer):
            return False  # each of its elements would be folded more than once
        space = {a.var for a in self.where.space}
        return not any(contains(env[v], space) for v, _ in stage.reduce)

    def _is_bijection(self, tensor: Tensor, place: Sequence[Expr]) -> bool:
        """True if ``place`` visits each element of ``tensor`` once, over all axes or the space axes."""
        a = self.where.analyzer
        flat = a.simplify(flatten(place, tensor.shape))
        numel = a.simplify(product(tensor.shape))
        for axes in (self.where.order, self.where.space):
            if equal(numel, product([x.extent for x in axes]), a) and is_mixed_radix(flat, axes, numel, a):
                return True
        return False
