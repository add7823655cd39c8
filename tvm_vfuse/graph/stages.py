"""Reads a PrimFunc's blocks as *stages*: one store over an iteration domain, no names consulted.

A softmax is three or four stages, an addition one. What can't be read (several stores, while loops, atomic
or opaque calls, already lowered code) raises :class:`Reject`; the caller then treats the kernel as opaque.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import tvm
import tvm_ffi
from tvm import tirx
from tvm.ir import Call, TensorLoad, Var
from tvm.tirx import IterVar

from tvm_vfuse.errors import Reject
from tvm_vfuse.graph.indices import INDEX, const_int, promote, substitute

Expr: TypeAlias = tvm.ir.Expr
PURE_CALL_EFFECT = 1  # CallEffectKind: ExprAnnotation 0, Pure 1


@dataclass(frozen=True)
class Tensor:
    """A tensor of a group: an input, an intermediate or an output (identity is ``key``)."""

    key: int
    name: str
    shape: tuple[Expr, ...]
    dtype: str

    @property
    def static_shape(self) -> tuple[int, ...] | None:
        dims = [const_int(s) for s in self.shape]
        return None if any(d is None for d in dims) else tuple(d for d in dims if d is not None)


@dataclass(frozen=True, eq=False)
class Joint:
    """Reductions that need each other's accumulators (argmax: the index and the maximum).

    ``fold(accumulators, elements)`` gives the new accumulators; it also joins two partial results.
    """

    outputs: tuple[Tensor, ...]
    elements: tuple[Expr, ...]
    inits: tuple[Expr, ...]
    fold: Callable[[list[Expr], list[Expr]], list[Expr]]


@dataclass(frozen=True, eq=False)
class Stage:
    """One block: ``output[indices] = value`` for every point of ``spatial`` x ``reduce``.

    Attributes
    ----------
    reads : mapping from the buffer variables in ``value`` to tensors of the group
    combine : None for an injective stage; else ``f(accumulator, element)``
    element : for a reduction the expression that is folded, else the stored value
    init : first value of the accumulator
    member : index of the operator (in the group's order) the stage belongs to
    joint : what the stage is a component of, or None
    """

    name: str
    output: Tensor
    indices: tuple[Expr, ...]
    element: Expr
    spatial: tuple[tuple[Var, Expr], ...]
    reduce: tuple[tuple[Var, Expr], ...] = ()
    combine: Callable[[Expr, Expr], Expr] | None = None
    combiner: str = ""
    init: Expr | None = None
    reads: Mapping[Var, Tensor] = field(default_factory=dict)
    member: int = 0
    joint: Joint | None = None

    @property
    def inits(self) -> tuple[Expr, ...]:
        """First values of all accumulators that are folded together."""
        return self.joint.inits if self.joint is not None else () if self.init is None else (self.init,)

    def fold(self, accumulators: list[Expr], elements: list[Expr]) -> list[Expr]:
        """New accumulators after ``elements``."""
        if self.joint is not None:
            return self.joint.fold(accumulators, elements)
        assert self.combine is not None
        return [self.combine(accumulators[0], elements[0])]


@dataclass(frozen=True)
class Kernel:
    """The stages of one PrimFunc, its parameters in order, and which of them it writes."""

    params: tuple[Var, ...]
    stages: tuple[Stage, ...]
    tensors: Mapping[Var, Tensor]
    outputs: tuple[Tensor, ...]
    inputs: tuple[Tensor, ...]
    scalars: tuple[Var, ...]


def is_buffer(param: Var) -> bool:
    return isinstance(param.ty, tirx.BufferType)


def read_kernel(func: tirx.PrimFunc, member: int = 0, first_key: int = 0) -> Kernel:
    """Parse a PrimFunc made of blocks into stages.

    Raises
    ------
    Reject
        With the statement and block that is not of the known form.
    """
    root = func.body
    if not isinstance(root, tvm.s_tir.SBlockRealize):
        raise Reject("opaque", "the kernel is not made of blocks (already lowered)")
    if any(k in func.attrs for k in ("tirx.is_scheduled", "tir.is_scheduled")):
        raise Reject("opaque", "the kernel is marked as already scheduled")
    block = root.block
    params = tuple(func.params)
    tensors: dict[Var, Tensor] = {}

    def declare(buf: Var) -> None:
        shape = tuple(promote(s) for s in buf.ty.shape)
        if any(s for s in getattr(buf.ty, "strides", ())):
            raise Reject("opaque", f"buffer {buf.name} has strides")
        tensors[buf] = Tensor(first_key + len(tensors), buf.name, shape, str(buf.ty.dtype))

    for buf in [*(p for p in params if is_buffer(p)), *block.alloc_buffers]:
        declare(buf)
    if block.match_buffers or block.init is not None:
        raise Reject("opaque", "the root block matches buffers")
    stages: list[Stage] = []
    _walk(block.body, tensors, stages, declare, member)
    written = {s.output.key for s in stages}
    seen: set[int] = set()
    for s in stages:
        if s.output.key in seen:
            raise Reject("opaque", f"buffer {s.output.name} is written by two blocks")
        seen.add(s.output.key)
    bufs = [p for p in params if is_buffer(p)]
    return Kernel(
        params=params,
        stages=tuple(stages),
        tensors=tensors,
        outputs=tuple(tensors[p] for p in bufs if tensors[p].key in written),
        inputs=tuple(tensors[p] for p in bufs if tensors[p].key not in written),
        scalars=tuple(p for p in params if not is_buffer(p)),
    )


def _walk(stmt: tirx.Stmt, tensors: dict, stages: list[Stage], declare: Callable, member: int) -> None:
    if isinstance(stmt, tirx.SeqStmt):
        for s in stmt.seq:
            _walk(s, tensors, stages, declare, member)
        return
    loops: dict[Var, Expr] = {}
    while isinstance(stmt, tirx.For):
        if const_int(stmt.min) != 0:
            raise Reject("opaque", f"loop {stmt.loop_var.name} does not start at 0")
        loops[stmt.loop_var] = stmt.extent
        stmt = stmt.body
        if isinstance(stmt, tirx.SeqStmt):
            raise Reject("opaque", "several blocks share a loop nest")
    if not isinstance(stmt, tvm.s_tir.SBlockRealize):
        raise Reject("opaque", f"a {type(stmt).__name__} stands outside a block")
    block = stmt.block
    if block.alloc_buffers or block.match_buffers:
        raise Reject("opaque", f"block {block.name_hint} allocates buffers of its own")
    _check_bindings(stmt, loops)
    parts = _part_joint_reduction(block)
    if len(parts) == 1 and isinstance(block.body, tirx.SeqStmt):
        stages.extend(joint_stages(block, _joint_stores(block), tensors, member))
    else:
        stages.extend(_stage(single, tensors, member) for single in parts)


def _check_bindings(realize: tvm.s_tir.SBlockRealize, loops: dict[Var, Expr]) -> None:
    """The loops must visit every point of the block's domain once."""
    name = realize.block.name_hint
    if const_int(realize.predicate) != 1:
        raise Reject("opaque", f"block {name} has a predicate")
    plain = {v for v in realize.iter_values if v in loops}
    rest = [v for v in realize.iter_values if v not in loops and const_int(v) != 0]
    if not rest and len(plain) + sum(const_int(v) == 0 for v in realize.iter_values) == len(realize.iter_values):
        return
    volume = points = 1
    for e in loops.values():
        volume *= const_int(e) or 0
    for iv in realize.block.iter_vars:
        points *= const_int(iv.dom.extent) or 0
    found = tvm.sym.detect_iter_map(
        list(realize.iter_values), {v: tvm.ir.Range(0, e) for v, e in loops.items()}, check_level="bijective"
    )
    if volume == 0 or volume != points or not found.indices:
        raise Reject("opaque", f"block {name} has bindings that are no bijection of its loops")


def _joint_stores(block: tvm.s_tir.SBlock) -> list[tirx.BufferStore] | None:
    """The stores of a block that folds several reductions, with its let-bindings resolved; None for anything else."""
    if not isinstance(block.body, tirx.SeqStmt) or not isinstance(block.init, tirx.SeqStmt):
        return None
    bound: dict[Var, Expr] = {}
    stores: list[tirx.BufferStore] = []
    for s in block.body.seq:
        if isinstance(s, tirx.Bind):
            bound[s.var] = substitute(s.value, bound)
        elif isinstance(s, tirx.BufferStore):
            stores.append(tirx.BufferStore(s.buffer, substitute(s.value, bound), list(s.indices)))
        else:
            return None
    started = [s.buffer for s in block.init.seq if isinstance(s, tirx.BufferStore)]
    return stores if all(any(s.buffer.same_as(b) for b in started) for s in stores) else None


def _part_joint_reduction(block: tvm.s_tir.SBlock) -> list[tvm.s_tir.SBlock]:
    """A block that folds several independent reductions, as one block for each (group norm: sum and sum of squares)."""
    stores = _joint_stores(block)
    if stores is None:
        return [block]
    written = [s.buffer for s in stores]
    if any(b in written and not b.same_as(s.buffer) for s in stores for b in _loaded(s.value)):
        return [block]  # the reductions need each other
    inits = {s.buffer: s for s in block.init.seq}
    return [
        tvm.s_tir.SBlock(list(block.iter_vars), [], [], f"{block.name_hint}_{i}", s, inits[s.buffer])
        for i, s in enumerate(stores)
    ]


def joint_stages(
    block: tvm.s_tir.SBlock, stores: list[tirx.BufferStore] | None, tensors: Mapping[Var, Tensor], member: int
) -> list[Stage]:
    """One stage for each of several reductions that need each other.

    Each value must choose between its accumulator and one plain element, so that two partial results can be joined
    by the same choice.
    """
    name = block.name_hint
    if stores is None:
        raise Reject("opaque", f"block {name} has no single store")
    spatial = [(iv.var, promote(iv.dom.extent)) for iv in block.iter_vars if iv.iter_type == IterVar.DataPar]
    reduce = [(iv.var, promote(iv.dom.extent)) for iv in block.iter_vars if iv.iter_type == IterVar.CommReduce]
    if len(spatial) + len(reduce) != len(block.iter_vars) or not reduce:
        raise Reject("opaque", f"block {name} has several stores but is no reduction")
    buffers = [s.buffer for s in stores]
    elements = [_chosen(s, name) for s in stores]
    reads: dict[Var, Tensor] = {}
    for e in elements:
        reads.update(_check_expr(e, name, tensors))
    if any(b in reads for b in buffers):
        raise Reject("opaque", f"block {name}: an element depends on an accumulator")
    for s in stores:
        _check_store_indices(s, {v for v, _ in spatial}, name)
    values = [s.value for s in stores]

    def fold(accumulators: list[Expr], parts: list[Expr]) -> list[Expr]:
        def swap(expr: Expr) -> Expr:
            for e, part in zip(elements, parts, strict=True):
                if tvm_ffi.structural_equal(expr, e):
                    return part
            for b, acc in zip(buffers, accumulators, strict=True):
                if isinstance(expr, TensorLoad) and expr.source.same_as(b):
                    return acc
            return expr

        kinds = [(TensorLoad, swap), (tirx.Cast, swap), (Var, swap)]
        return [tvm_ffi.structural_map(v, kinds, order="pre") for v in values]

    inits = {s.buffer: s.value for s in block.init.seq}
    outputs = tuple(tensors[b] for b in buffers)
    joint = Joint(outputs, tuple(elements), tuple(inits[b] for b in buffers), fold)
    return [
        Stage(
            f"{name}_{i}", outputs[i], tuple(s.indices), elements[i], tuple(spatial), tuple(reduce),
            combiner="joint", init=joint.inits[i], reads=reads, member=member, joint=joint,
        )
        for i, s in enumerate(stores)
    ]  # fmt: skip


def _chosen(store: tirx.BufferStore, name: str) -> Expr:
    """The element in ``select(condition, accumulator, element)``, whichever way round."""
    value = store.value
    if isinstance(value, tirx.Select):
        arms = [value.true_value, value.false_value]
        other = [a for a in arms if not (isinstance(a, TensorLoad) and a.source.same_as(store.buffer))]
        if len(other) == 1 and isinstance(other[0], (TensorLoad, Var, tirx.Cast)):
            return other[0]
    raise Reject("opaque", f"block {name}: reductions that need each other and do not choose between two values")


def _loaded(expr: Expr) -> list[Var]:
    found: list[Var] = []
    tvm_ffi.structural_walk(expr, [(TensorLoad, lambda load: found.append(load.source))], order="post")
    return found


def _stage(block: tvm.s_tir.SBlock, tensors: Mapping[Var, Tensor], member: int) -> Stage:
    name = block.name_hint
    if not isinstance(block.body, tirx.BufferStore):
        raise Reject("opaque", f"block {name} has no single store")
    store = block.body
    if getattr(store, "predicate", None) is not None:
        raise Reject("opaque", f"block {name} stores under a predicate")
    spatial, reduce = [], []
    for iv in block.iter_vars:
        if const_int(iv.dom.min) != 0:
            raise Reject("opaque", f"block {name}: axis {iv.var.name} does not start at 0")
        kinds = {IterVar.DataPar: spatial, IterVar.CommReduce: reduce}
        if iv.iter_type not in kinds:
            raise Reject("opaque", f"block {name}: axis {iv.var.name} is neither spatial nor a reduction")
        kinds[iv.iter_type].append((iv.var, promote(iv.dom.extent)))
    reads = _check_expr(store.value, name, tensors)
    for i in store.indices:
        reads.update(_check_expr(i, name, tensors))
    out = tensors[store.buffer]
    _check_store_indices(store, {v for v, _ in spatial}, name)
    common = dict(name=name, output=out, spatial=tuple(spatial), member=member)
    if not reduce:
        if block.init is not None:
            raise Reject("opaque", f"block {name} has an init but no reduction axis")
        if store.buffer in reads:
            raise Reject("in-place", f"block {name} reads the buffer it writes")
        return Stage(indices=tuple(store.indices), element=store.value, reads=reads, **common)
    if not isinstance(block.init, tirx.BufferStore):
        raise Reject("opaque", f"block {name}: reduction without a single init")
    combine, element, combiner = _combiner(store, name)
    own = {b: t for b, t in reads.items() if not b.same_as(store.buffer)}
    if store.buffer in _check_expr(element, name, tensors):
        raise Reject("opaque", f"block {name}: the reduction reads its accumulator twice")
    return Stage(
        indices=tuple(store.indices),
        element=element,
        reduce=tuple(reduce),
        combine=combine,
        combiner=combiner,
        init=block.init.value,
        reads=own,
        **common,
    )


def _check_store_indices(store: tirx.BufferStore, spatial: set[Var], name: str) -> None:
    used: set[Var] = set()
    for i in store.indices:
        if const_int(i) == 0:
            continue
        if not (isinstance(i, Var) and i in spatial) or i in used:
            raise Reject("scatter", f"block {name} writes at computed places")
        used.add(i)


def _combiner(store: tirx.BufferStore, name: str) -> tuple[Callable[[Expr, Expr], Expr], Expr, str]:
    kinds: dict[type, Callable[[Expr, Expr], Expr]] = {
        tirx.Add: lambda a, b: a + b, tirx.Mul: lambda a, b: a * b, tirx.Max: tirx.max, tirx.Min: tirx.min,
    }  # fmt: skip
    value = store.value
    if type(value) in kinds:
        for me, other in ((value.a, value.b), (value.b, value.a)):
            if isinstance(me, TensorLoad) and me.source.same_as(store.buffer):
                return kinds[type(value)], other, type(value).__name__
    raise Reject("opaque", f"block {name}: the reduction is no sum, product, max or min")


def _check_expr(expr: Expr, name: str, tensors: Mapping[Var, Tensor]) -> dict[Var, Tensor]:
    """Tensors read by ``expr``; rejects calls with side effects and loads from unknown buffers."""
    reads: dict[Var, Tensor] = {}
    bad: list[str] = []

    def on_load(load: TensorLoad) -> None:
        if load.source not in tensors:
            bad.append(f"reads {load.source.name}, which is no parameter or block buffer")
        else:
            reads[load.source] = tensors[load.source]

    def on_call(call: Call) -> None:
        op = call.op
        effect = op.get_attr("TCallEffectKind") if isinstance(op, tvm.ir.Op) else None
        if effect is None or int(effect) > PURE_CALL_EFFECT:
            bad.append(f"calls {getattr(op, 'name', op)}, which is not pure")

    tvm_ffi.structural_walk(expr, [(TensorLoad, on_load), (Call, on_call)], order="post")
    if bad:
        raise Reject("opaque", f"block {name} {bad[0]}")
    return reads


def dtype_is_float(dtype: str) -> bool:
    return dtype.startswith(("float", "bfloat"))


__all__ = ["INDEX", "Kernel", "Stage", "Tensor", "dtype_is_float", "is_buffer", "read_kernel", "substitute"]
