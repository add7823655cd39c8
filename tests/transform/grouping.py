"""A legalised module grouped by hand: names of bindings for each group."""

from __future__ import annotations

from collections.abc import Sequence

import tvm
import tvm_ffi
from tvm import relax

from tests.pipeline.columns import target
from tvm_vfuse.graph.extract import Region
from tvm_vfuse.plan.model import FusionPlan, Group, in_run_order
from tvm_vfuse.transform.fuse import FusedModule, group_module
from tvm_vfuse.transform.prepare import legalize, prepare
from tvm_vfuse.transform.respecialize import respecialize


def legal(mod: tvm.IRModule) -> tvm.IRModule:
    """Call_tirs of one operator each, as the planner sees them."""
    with target():
        return respecialize(legalize(prepare(mod)))


def grouped(mod: tvm.IRModule, *groups: str, clones: dict[str, str] | None = None) -> FusedModule:
    """``groups``: names of bindings, separated by blanks; ``clones``: for a group those that it computes again."""

    def planner(region: Region) -> FusionPlan:
        ops = region.graph.operators
        index = {o.name: o.index for o in ops}
        taken: list[Group] = []
        for names in groups:
            members = tuple(sorted(index[n] for n in names.split() if n in index))
            again = tuple(sorted(index[n] for n in (clones or {}).get(names, "").split() if n in index))
            if members:
                taken.append(Group(members, again))
        owned = {i for g in taken for i in g.members}
        taken += [Group((o.index,)) for o in ops if o.index not in owned]
        plan = FusionPlan(region.graph, in_run_order(region.graph, taken))
        plan.verify()
        return plan

    return group_module(mod, planner)


def primitives(mod: tvm.IRModule) -> dict[str, relax.Function]:
    return {
        gv.name_hint: f
        for gv, f in mod.functions.items()
        if isinstance(f, relax.Function) and "Primitive" in (f.attrs or {})
    }


def bindings_of(function: relax.Function) -> list[relax.Binding]:
    return [b for block in function.body.blocks for b in block.bindings]


def called(function: relax.Function) -> list[str]:
    """Names of the global functions and operators called, in order; kernels by their own name."""
    names = []
    for b in bindings_of(function):
        call = b.value
        if isinstance(call, tvm.ir.Call):
            if isinstance(call.op, tvm.ir.GlobalVar):
                names.append(call.op.name_hint)
            else:
                first = call.args[0] if call.args else None
                names.append(first.name_hint if isinstance(first, tvm.ir.GlobalVar) else call.op.name)
    return names


def same_module(a: tvm.IRModule, b: tvm.IRModule) -> bool:
    return bool(tvm_ffi.structural_equal(a, b))


def snapshot(mod: tvm.IRModule) -> str:
    return tvm.ir.save_json(mod)


def operator_names(mod: tvm.IRModule) -> Sequence[str]:
    return [b.var.name for b in bindings_of(mod["main"])]
