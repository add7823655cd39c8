"""Blocks that fold several reductions at once: group norm's sum and sum of squares, argmax's index and maximum."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import tvm
import tvm_ffi
from tvm import tirx
from tvm.ir import TensorLoad, Var
from tvm.s_tir import SBlock

from tvm_vfuse.errors import Reject
from tvm_vfuse.graph.block_parts import block_axes, buffers_loaded, check_places, loads_accumulator, tensors_read
from tvm_vfuse.graph.indices import substitute
from tvm_vfuse.graph.stages import Joint, Stage, Tensor

Expr: TypeAlias = tvm.ir.Expr


def folding_stores(block: SBlock) -> list[tirx.BufferStore] | None:
    """The stores of a block that folds several reductions, its let-bindings resolved; None for any other block."""
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


def need_each_other(stores: list[tirx.BufferStore]) -> bool:
    """True if the new value of some accumulator depends on another one."""
    written = [s.buffer for s in stores]
    return any(b in written and not b.same_as(s.buffer) for s in stores for b in buffers_loaded(s.value))


def part_blocks(block: SBlock, stores: list[tirx.BufferStore]) -> list[SBlock]:
    """Independent reductions of one block, as one block for each."""
    inits = {s.buffer: s for s in block.init.seq}
    return [
        SBlock(list(block.iter_vars), [], [], f"{block.name_hint}_{i}", s, inits[s.buffer])
        for i, s in enumerate(stores)
    ]


def joint_stages(block: SBlock, stores: list[tirx.BufferStore], tensors: Mapping[Var, Tensor]) -> list[Stage]:
    """One stage for each of several reductions that need each other.

    Each value must choose between its accumulator and one plain element, so that two partial results can be joined
    by the same choice.

    Raises
    ------
    Reject
        If the block is of another form.
    """
    name = block.name_hint
    spatial, reduce = block_axes(block)
    if not reduce:
        raise Reject("opaque", f"block {name} has several stores but is no reduction")
    elements = [_chosen(s, name) for s in stores]
    reads: dict[Var, Tensor] = {}
    for e in elements:
        reads.update(tensors_read(e, name, tensors))
    if any(s.buffer in reads for s in stores):
        raise Reject("opaque", f"block {name}: an element depends on an accumulator")
    for s in stores:
        check_places(s, spatial, name)
    joint = _joint(block, stores, elements, tensors)
    return [
        Stage(
            f"{name}_{i}", joint.outputs[i], tuple(s.indices), elements[i], spatial, reduce,
            init=joint.inits[i], reads=reads, joint=joint,
        )
        for i, s in enumerate(stores)
    ]  # fmt: skip


def _chosen(store: tirx.BufferStore, name: str) -> Expr:
    """The element in ``select(condition, accumulator, element)``, whichever way round."""
    value = store.value
    if isinstance(value, tirx.Select):
        other = [a for a in (value.true_value, value.false_value) if not loads_accumulator(a, store)]
        if len(other) == 1 and isinstance(other[0], (TensorLoad, Var, tirx.Cast)):
            return other[0]
    raise Reject("opaque", f"block {name}: reductions that need each other and do not choose between two values")


def _joint(block: SBlock, stores: list[tirx.BufferStore], elements: list[Expr], tensors: Mapping[Var, Tensor]) -> Joint:
    """The stores' values as one fold over all accumulators and elements."""

    def fold(accumulators: list[Expr], parts: list[Expr]) -> list[Expr]:
        def swap(expr: Expr) -> Expr:
            for e, part in zip(elements, parts, strict=True):
                if tvm_ffi.structural_equal(expr, e):
                    return part
            for s, acc in zip(stores, accumulators, strict=True):
                if loads_accumulator(expr, s):
                    return acc
            return expr

        kinds = [(TensorLoad, swap), (tirx.Cast, swap), (Var, swap)]
        return [tvm_ffi.structural_map(s.value, kinds, order="pre") for s in stores]

    inits = {s.buffer: s.value for s in block.init.seq}
    return Joint(
        tuple(tensors[s.buffer] for s in stores), tuple(elements), tuple(inits[s.buffer] for s in stores), fold
    )
