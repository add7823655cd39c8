"""Plans and groups every function of a legalised module, then makes the kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import tvm
from tvm import relax, tirx
from tvm.ir import Var

from tvm_vfuse.graph.bindings import variables_in
from tvm_vfuse.graph.extract import KernelReader, extract
from tvm_vfuse.graph.region import Region
from tvm_vfuse.plan.model import FusionPlan, Group
from tvm_vfuse.transform.group import BlockRewriter

Planner = Callable[[Region], FusionPlan]


@dataclass
class FusedModule:
    """A module whose groups are Primitive functions, with the plan behind each.

    ``groups`` maps the name of a Primitive function to its uses as (region, plan, group): equal groups share one.
    """

    mod: tvm.IRModule
    plans: list[tuple[Region, FusionPlan]] = field(default_factory=list)
    groups: dict[str, list[tuple[Region, FusionPlan, Group]]] = field(default_factory=dict)


def group_module(mod: tvm.IRModule, planner: Planner) -> FusedModule:
    """Plan each binding block and rewrite it by its plan.

    The input module is not changed.
    """
    out = FusedModule(mod.clone())
    reader = KernelReader(out.mod)
    builder = relax.BlockBuilder(out.mod)
    for gv, func in sorted(mod.functions.items(), key=lambda item: item[0].name_hint):
        if not isinstance(func, relax.Function) or "Primitive" in (func.attrs or {}):
            continue
        rewriter = _FunctionRewriter(gv.name_hint, reader, planner, out, builder)
        body = rewriter.sequence(func.body, set())
        new = relax.Function(func.params, body, func.ret_ty, func.is_pure, func.attrs)
        builder.update_func(gv, new)
    out.mod = relax.transform.Normalize()(builder.get())
    for name, info in mod.global_infos.items():
        out.mod.update_global_info(name, info)
    return out


class _FunctionRewriter:
    def __init__(
        self, name: str, reader: KernelReader, planner: Planner, out: FusedModule, builder: relax.BlockBuilder
    ) -> None:
        self.name, self.reader, self.planner, self.out, self.builder = name, reader, planner, out, builder
        self.count = 0

    def sequence(self, seq: relax.SeqExpr, outer: set[Var]) -> relax.SeqExpr:
        used = [_used_in_block(b) for b in seq.blocks]
        tail = set(variables_in(seq.body))
        blocks = []
        for number, block in enumerate(seq.blocks):
            live = set().union(tail, outer, *(u for n, u in enumerate(used) if n != number))
            blocks.append(self.block(block, live))
        return relax.SeqExpr(blocks, seq.body)

    def block(self, block: relax.BindingBlock, live: set[Var]) -> relax.BindingBlock:
        block = type(block)([self.branches(b) for b in block.bindings])
        region = extract(f"{self.name}.{self.count}", block, live, self.reader)
        self.count += 1
        plan = self.planner(region)
        self.out.plans.append((region, plan))

        def add(name: str, group: Group, function: relax.Function) -> tvm.ir.GlobalVar:
            gv = self.builder.add_func(function, name)
            self.out.groups.setdefault(gv.name_hint, []).append((region, plan, group))
            return gv

        return BlockRewriter(region, plan, add).run(block, live)

    def branches(self, binding: relax.Binding) -> relax.Binding:
        """The branches of an If are blocks of their own."""
        value = binding.value
        if not isinstance(value, relax.If):
            return binding
        new = relax.If(value.cond, self.sequence(value.true_branch, set()), self.sequence(value.false_branch, set()))
        return relax.VarBinding(binding.var, new)


def _used_in_block(block: relax.BindingBlock) -> set[Var]:
    return {v for b in block.bindings for v in variables_in(b.value)}


def map_kernels(mod: tvm.IRModule, change: Callable[[str, tirx.PrimFunc], tirx.PrimFunc]) -> tvm.IRModule:
    """A new module with every PrimFunc replaced by what ``change`` makes of it."""
    out = mod.clone()
    for gv, func in sorted(mod.functions.items(), key=lambda item: item[0].name_hint):
        if isinstance(func, tirx.PrimFunc):
            new = change(gv.name_hint, func)
            if new is not func:
                out.update_func(gv, new)
    return out
