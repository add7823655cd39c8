"""Reads a PrimFunc's blocks as stages, no names consulted.

What can't be read (several stores, while loops, atomic or opaque calls, already lowered code) raises
:class:`Reject`; the caller then treats the kernel as opaque.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import tvm
import tvm_ffi
from tvm import tirx
from tvm.ir import Var
from tvm.s_tir import SBlock, SBlockRealize

from tvm_vfuse.errors import Reject
from tvm_vfuse.graph.block_parts import block_axes, check_places, loads_accumulator, tensors_read
from tvm_vfuse.graph.indices import const_int, promote
from tvm_vfuse.graph.joint import folding_stores, joint_stages, need_each_other, part_blocks
from tvm_vfuse.graph.stages import Kernel, Stage, Tensor

Expr: TypeAlias = tvm.ir.Expr
SCHEDULED = ("tirx.is_scheduled", "tir.is_scheduled")
_COMBINERS: dict[type, Callable[[Expr, Expr], Expr]] = {
    tirx.Add: lambda a, b: a + b,
    tirx.Mul: lambda a, b: a * b,
    tirx.Max: tirx.max,
    tirx.Min: tirx.min,
}


def read_kernel(func: tirx.PrimFunc) -> Kernel:
    """Parse a PrimFunc made of blocks into stages.

    Raises
    ------
    Reject
        With the statement and block that is not of the known form.
    """
    block = _root_block(func)
    params = tuple(func.params)
    tensors: dict[Var, Tensor] = {}
    for buf in [*(p for p in params if _is_buffer(p)), *block.alloc_buffers]:
        tensors[buf] = _tensor(buf, len(tensors))
    stages: list[Stage] = []
    _walk(block.body, tensors, stages)
    written: set[int] = set()
    for s in stages:
        if s.output.key in written:
            raise Reject("opaque", f"buffer {s.output.name} is written by two blocks")
        written.add(s.output.key)
    passed = [tensors[p] for p in params if p in tensors]
    return Kernel(
        params=params,
        stages=tuple(stages),
        tensors=tensors,
        outputs=tuple(t for t in passed if t.key in written),
        inputs=tuple(t for t in passed if t.key not in written),
        scalars=tuple(p for p in params if p not in tensors),
    )


def _is_buffer(param: Var) -> bool:
    return isinstance(param.ty, tirx.BufferType)


def _root_block(func: tirx.PrimFunc) -> SBlock:
    if not isinstance(func.body, SBlockRealize):
        raise Reject("opaque", "the kernel is not made of blocks (already lowered)")
    if any(k in func.attrs for k in SCHEDULED):
        raise Reject("opaque", "the kernel is marked as already scheduled")
    block = func.body.block
    if block.match_buffers or block.init is not None:
        raise Reject("opaque", "the root block matches buffers")
    return block


def _tensor(buf: Var, key: int) -> Tensor:
    if any(s for s in getattr(buf.ty, "strides", ())):
        raise Reject("opaque", f"buffer {buf.name} has strides")
    return Tensor(key, buf.name, tuple(promote(s) for s in buf.ty.shape), str(buf.ty.dtype))


def _walk(stmt: tirx.Stmt, tensors: Mapping[Var, Tensor], stages: list[Stage]) -> None:
    """Append the stages of ``stmt``: loop nests, each around one block."""
    if isinstance(stmt, tirx.SeqStmt):
        for s in stmt.seq:
            _walk(s, tensors, stages)
        return
    loops: dict[Var, Expr] = {}
    while isinstance(stmt, tirx.For):
        if const_int(stmt.min) != 0:
            raise Reject("opaque", f"loop {stmt.loop_var.name} does not start at 0")
        loops[stmt.loop_var] = stmt.extent
        stmt = stmt.body
        if isinstance(stmt, tirx.SeqStmt):
            raise Reject("opaque", "several blocks share a loop nest")
    if not isinstance(stmt, SBlockRealize):
        raise Reject("opaque", f"a {type(stmt).__name__} stands outside a block")
    block = stmt.block
    if block.alloc_buffers or block.match_buffers:
        raise Reject("opaque", f"block {block.name_hint} allocates buffers of its own")
    _check_bindings(stmt, loops)
    stores = folding_stores(block)
    if stores is not None and need_each_other(stores):
        stages.extend(joint_stages(block, stores, tensors))
    else:
        parts = [block] if stores is None else part_blocks(block, stores)
        stages.extend(_stage(part, tensors) for part in parts)


def _check_bindings(realize: SBlockRealize, loops: dict[Var, Expr]) -> None:
    """The loops must visit every point of the block's domain once."""
    name = realize.block.name_hint
    if const_int(realize.predicate) != 1:
        raise Reject("opaque", f"block {name} has a predicate")
    if _is_one_to_one(realize, loops):
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


def _is_one_to_one(realize: SBlockRealize, loops: dict[Var, Expr]) -> bool:
    """True if each axis is a loop of its own with the same extent, or has one point only."""
    used: set[Var] = set()
    for iv, value in zip(realize.block.iter_vars, realize.iter_values, strict=True):
        if value in loops and value not in used:
            used.add(value)
            if not tvm_ffi.structural_equal(promote(loops[value]), promote(iv.dom.extent)):
                return False
        elif const_int(value) != 0 or const_int(iv.dom.extent) != 1:
            return False
    return True


def _stage(block: SBlock, tensors: Mapping[Var, Tensor]) -> Stage:
    """The stage of a block with a single store."""
    name, store = block.name_hint, block.body
    if not isinstance(store, tirx.BufferStore):
        raise Reject("opaque", f"block {name} has no single store")
    if getattr(store, "predicate", None) is not None:
        raise Reject("opaque", f"block {name} stores under a predicate")
    spatial, reduce = block_axes(block)
    reads = tensors_read(store.value, name, tensors)
    for i in store.indices:
        reads.update(tensors_read(i, name, tensors))
    check_places(store, spatial, name)
    output, indices = tensors[store.buffer], tuple(store.indices)
    if not reduce:
        if block.init is not None:
            raise Reject("opaque", f"block {name} has an init but no reduction axis")
        if store.buffer in reads:
            raise Reject("in-place", f"block {name} reads the buffer it writes")
        return Stage(name, output, indices, store.value, spatial, reads=reads)
    if not isinstance(block.init, tirx.BufferStore):
        raise Reject("opaque", f"block {name}: reduction without a single init")
    combine, element = _combiner(store, name)
    if store.buffer in tensors_read(element, name, tensors):
        raise Reject("opaque", f"block {name}: the reduction reads its accumulator twice")
    own = {b: t for b, t in reads.items() if not b.same_as(store.buffer)}
    return Stage(name, output, indices, element, spatial, reduce, combine, block.init.value, own)


def _combiner(store: tirx.BufferStore, name: str) -> tuple[Callable[[Expr, Expr], Expr], Expr]:
    """How the accumulator and the element are combined, and the element."""
    value = store.value
    if type(value) in _COMBINERS:
        for me, other in ((value.a, value.b), (value.b, value.a)):
            if loads_accumulator(me, store):
                return _COMBINERS[type(value)], other
    raise Reject("opaque", f"block {name}: the reduction is no sum, product, max or min")


__all__ = ["read_kernel"]
