"""What blocks of every kind are read with: their axes, the tensors they read, the places they write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import tvm
import tvm_ffi
from tvm import tirx
from tvm.ir import Call, TensorLoad, Var
from tvm.s_tir import SBlock
from tvm.tirx import IterVar

from tvm_vfuse.errors import Reject
from tvm_vfuse.graph.indices import const_int, promote
from tvm_vfuse.graph.stages import Tensor

Expr: TypeAlias = tvm.ir.Expr
Axes: TypeAlias = tuple[tuple[Var, Expr], ...]
PURE_CALL_EFFECT = 1  # TVM's CallEffectKind: ExprAnnotation 0, Pure 1, everything above has effects


def block_axes(block: SBlock) -> tuple[Axes, Axes]:
    """The block's spatial and its reduction axes, each with a 64-bit extent.

    Raises
    ------
    Reject
        If an axis does not start at 0, or is of another kind (ordered, opaque).
    """
    spatial: list[tuple[Var, Expr]] = []
    reduce: list[tuple[Var, Expr]] = []
    kinds = {IterVar.DataPar: spatial, IterVar.CommReduce: reduce}
    for iv in block.iter_vars:
        if const_int(iv.dom.min) != 0:
            raise Reject("opaque", f"block {block.name_hint}: axis {iv.var.name} does not start at 0")
        if iv.iter_type not in kinds:
            raise Reject("opaque", f"block {block.name_hint}: axis {iv.var.name} is neither spatial nor a reduction")
        kinds[iv.iter_type].append((iv.var, promote(iv.dom.extent)))
    return tuple(spatial), tuple(reduce)


def tensors_read(expr: Expr, block_name: str, tensors: Mapping[Var, Tensor]) -> dict[Var, Tensor]:
    """Tensors that ``expr`` reads, by buffer variable.

    Raises
    ------
    Reject
        For calls with side effects and loads from unknown buffers.
    """
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
        raise Reject("opaque", f"block {block_name} {bad[0]}")
    return reads


def check_places(store: tirx.BufferStore, spatial: Axes, block_name: str) -> None:
    """Refuse stores whose indices are not each 0 or a spatial axis of its own.

    Raises
    ------
    Reject
        ``scatter``.
    """
    axes = {v for v, _ in spatial}
    used: set[Var] = set()
    for i in store.indices:
        if const_int(i) == 0:
            continue
        if not (isinstance(i, Var) and i in axes) or i in used:
            raise Reject("scatter", f"block {block_name} writes at computed places")
        used.add(i)


def loads_accumulator(expr: Expr, store: tirx.BufferStore) -> bool:
    """True if ``expr`` is nothing but a load of the buffer that ``store`` writes."""
    return isinstance(expr, TensorLoad) and expr.source.same_as(store.buffer)


def buffers_loaded(expr: Expr) -> Sequence[Var]:
    """Buffers of all loads in ``expr``, with repeats."""
    found: list[Var] = []
    tvm_ffi.structural_walk(expr, [(TensorLoad, lambda load: found.append(load.source))], order="post")
    return found
