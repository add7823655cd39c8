"""Gives every call a kernel whose buffers have the call's own shapes, in 64 bits.

FuseTIR refuses a buffer that is dynamic (or has 32-bit extents) where the tensor is static, and the other way
round. A kernel whose stages are known is written anew for such a call::

    def twice(A: Buffer((h, w)), B: Buffer((h, w)))           called with Tensor((4, 6))
    def twice_4x6(A: Buffer((4, 6)), B: Buffer((4, 6)))
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import tvm
import tvm_ffi
from tvm import relax, tirx
from tvm.ir import Range, TensorLoad, Var
from tvm.s_tir import SBlock, SBlockRealize
from tvm.tirx import BufferLoad, BufferStore, For, ForKind, IterVar

from tvm_vfuse.errors import Reject
from tvm_vfuse.graph.bindings import is_call_tir, known_shape, output_types, scalars_of
from tvm_vfuse.graph.compose import Member, Program, compose
from tvm_vfuse.graph.extract import KernelReader
from tvm_vfuse.graph.indices import INDEX, const_int, index, promote
from tvm_vfuse.graph.stages import Stage, Tensor

Expr: TypeAlias = tvm.ir.Expr


def respecialize(mod: tvm.IRModule) -> tvm.IRModule:
    """A module in which the buffers of each readable kernel have their arguments' shapes."""
    work = mod.clone()
    reader = KernelReader(work)
    builder = relax.BlockBuilder(work)
    made: dict[object, tvm.ir.GlobalVar] = {}

    def visit(call: tvm.ir.Call) -> tvm.ir.Expr:
        if not is_call_tir(call) or not isinstance(call.args[1], tvm.ir.Tuple):
            return call
        tensors = _argument_tensors(call)
        if tensors is None or _fits(work[call.args[0]], tensors):
            return call
        try:
            kernel, _ = reader(call.args[0])
            if scalars_of(call) or kernel.scalars or any(s.joint for s in kernel.stages):
                return call
            program = compose([Member(kernel, tuple(tensors))], tensors[len(tensors) - len(kernel.outputs) :])
        except (Reject, ValueError):
            return call
        key = (call.args[0].name_hint, tuple((t.dtype, tuple(map(str, t.shape))) for t in tensors))
        if key not in made:
            made[key] = builder.add_func(write_blocks(program, tensors), call.args[0].name_hint)
        return relax.Call(call.op, [made[key], *call.args[1:]], call.attrs, call.ty_args)

    for gv, func in sorted(mod.functions.items(), key=lambda item: item[0].name_hint):
        if isinstance(func, relax.Function):
            new = tvm_ffi.structural_map(func, [(tvm.ir.Call, visit)], order="post")
            if not new.same_as(func):
                builder.update_func(gv, new)
    if not made:
        return work
    out = builder.get()
    for name, info in mod.global_infos.items():
        out.update_global_info(name, info)
    return out


def _argument_tensors(call: tvm.ir.Call) -> list[Tensor] | None:
    """A tensor for each buffer parameter (a variable passed twice is two of them), or None for an unknown rank."""
    fields = [f for f in call.args[1].fields if not tvm.ir.is_prim_expr(f)]
    out = []
    for number, ty in enumerate([*(f.ty for f in fields), *output_types(call)]):
        shape = known_shape(ty)
        if shape is None:
            return None
        out.append(Tensor(number, f"t{number}", tuple(map(promote, shape)), str(ty.dtype)))
    return out


def _fits(func: tirx.PrimFunc, tensors: Sequence[Tensor]) -> bool:
    buffers = [p for p in func.params if isinstance(p.ty, tirx.BufferType)]
    if len(buffers) != len(tensors):
        return True  # not ours to judge; the extractor calls it opaque
    for b, t in zip(buffers, tensors, strict=True):
        if len(b.ty.shape) != len(t.shape):
            return True
        for mine, theirs in zip(b.ty.shape, t.shape, strict=True):
            if const_int(theirs) is None:
                continue
            if const_int(mine) is None or str(mine.ty) != INDEX:
                return False
    return True


def write_blocks(program: Program, tensors: Sequence[Tensor]) -> tirx.PrimFunc:
    """A PrimFunc of one block a stage, as legalisation would have made it.

    Parameters
    ----------
    tensors : parameters in order
    """
    buffers = {t.key: tirx.decl_buffer(t.shape, t.dtype, t.name, layout=None) for t in tensors}
    params = [buffers[t.key] for t in tensors]
    local = {}
    for s in program.stages:
        if s.output.key not in buffers:
            local[s.output.key] = buffers[s.output.key] = tirx.decl_buffer(
                s.output.shape, s.output.dtype, s.output.name, layout=None
            )
    nests = [_write_stage(s, buffers) for s in program.stages]
    body = tirx.SeqStmt(nests) if len(nests) > 1 else nests[0]
    root = SBlock([], [], [], "root", body, None, list(local.values()))
    out = tirx.PrimFunc(params, SBlockRealize([], True, root))
    return out.with_attr("s_tir", True).with_attr("tirx.noalias", True)


def _write_stage(stage: Stage, buffers: dict[int, Var]) -> tirx.Stmt:
    axes = [*stage.spatial, *stage.reduce]
    fresh = {v: Var(v.name, INDEX) for v, _ in axes}
    kinds = [IterVar.DataPar] * len(stage.spatial) + [IterVar.CommReduce] * len(stage.reduce)
    target = buffers[stage.output.key]
    where = [promote(i, fresh) for i in stage.indices]
    regions: dict[Var, list[Expr]] = {}

    def on_load(load: TensorLoad) -> Expr:
        buf = buffers[stage.reads[load.source].key]
        idx = [promote(value(i), fresh) for i in load.indices]
        regions.setdefault(buf, idx)
        return BufferLoad(buf, idx)

    def on_var(var: Var) -> Expr:
        new = fresh.get(var)
        return var if new is None else new if str(var.ty) == INDEX else tirx.Cast(str(var.ty), new)

    def value(expr: Expr) -> Expr:
        return tvm_ffi.structural_map(expr, [(TensorLoad, on_load), (Var, on_var)], order="pre")

    element = value(stage.element)
    init = None
    if stage.combine is not None:
        element = stage.combine(BufferLoad(target, where), element)
        init = BufferStore(target, stage.init, where)
    reads = [tirx.BufferRegion(b, [Range.from_min_extent(index(0), d) for d in b.ty.shape]) for b in regions]
    writes = [tirx.BufferRegion(target, [Range.from_min_extent(i, index(1)) for i in where])]
    ivs = [IterVar(Range(index(0), e), fresh[v], k) for (v, e), k in zip(axes, kinds, strict=True)]
    block = SBlock(ivs, reads, writes, stage.name, BufferStore(target, element, where), init)
    loops = [Var(f"i{n}", INDEX) for n in range(len(axes))]
    stmt: tirx.Stmt = SBlockRealize(loops, True, block)
    for loop, (_, extent) in reversed(list(zip(loops, axes, strict=True))):
        stmt = For(loop, index(0), extent, ForKind.SERIAL, stmt)
    return stmt


__all__ = ["respecialize", "write_blocks"]
