"""The whole way from a Relax module to fused and scheduled kernels, and its packaging for users of TVM.

* :func:`make` - a pass from a Relax module to call_tirs of scheduled kernels
* :func:`passes` - the same as a list for ``tvm.transform.Sequential``
* :func:`full` - a complete pipeline for ``tvm.compile(mod, target, relax_pipeline=...)``; registered as ``"vfuse"``
* :func:`run` - the same with the plan, for reports
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import relax, tirx

from tvm_vfuse.device import CpuDevice, cpu_device
from tvm_vfuse.errors import InputError, Reject
from tvm_vfuse.graph.region import Region
from tvm_vfuse.legality.verdict import Verdict
from tvm_vfuse.options import FusionOptions
from tvm_vfuse.plan.directives import apply_directives, check_names
from tvm_vfuse.plan.model import FusionPlan, Group
from tvm_vfuse.plan.search import search
from tvm_vfuse.resource.time_model import Machine, cpu_machine
from tvm_vfuse.schedule.cpu import schedule_cpu
from tvm_vfuse.transform.fuse import FusedModule, group_module, map_kernels
from tvm_vfuse.transform.oracle import EvaluationOracle
from tvm_vfuse.transform.prepare import legalize, prepare
from tvm_vfuse.transform.respecialize import respecialize

# Attributes for the LLVM target; none are needed (exact numerics want no fast-math flags).
TARGET_ATTRS: dict[str, Any] = {}
PIPELINE_NAME = "vfuse"
MAX_ROUNDS = 24
FUSE_TIR_ERRORS = (RuntimeError, ValueError, TypeError)


@dataclass(frozen=True)
class FusionResult:
    """A fused module and why it is as it is.

    Attributes
    ----------
    mod : call_tirs of scheduled PrimFuncs, ready for TVM's lowering passes
    groups : one dict a kernel with several operators or of our making, keys as ``explain --json``
    refused : one dict a refused edge: producer, consumer, reason, detail, slack
    plans : the plan of each binding block
    """

    mod: tvm.IRModule
    groups: list[dict[str, Any]]
    refused: list[dict[str, Any]]
    plans: tuple[FusionPlan, ...]


class _Run:
    """One fusion of one module: ``cuts`` holds what was found unbuildable, by region."""

    def __init__(self, target: tvm.target.Target, options: FusionOptions) -> None:
        if target.kind.name != "llvm":
            raise InputError(
                f"target {target.kind.name}: kernels are built for llvm only in this version; use --target llvm"
            )
        self.target, self.options = target, options
        self.device: CpuDevice = cpu_device(target)
        self.machine: Machine = cpu_machine(self.device.cores, self.device.vector_bits)
        self.cuts: dict[str, dict[tuple[tuple[int, ...], tuple[int, ...]], Verdict]] = {}
        self.groups_left = options.first_groups

    def _plan(self, region: Region) -> FusionPlan:
        """The plan of one block, within what is left of ``--first-groups``."""
        oracle = EvaluationOracle(region, self.device, self.cuts.get(region.graph.name, {}))
        plan = apply_directives(region.graph, oracle, self.machine, self.options, search)
        if self.groups_left is not None:
            plan, self.groups_left = plan.first(self.groups_left)
        return plan

    def run(self, legal: tvm.IRModule) -> tuple[FusedModule, tvm.IRModule]:
        """Plan, group, fuse and schedule; a group that can't be built is cut and planned again."""
        for _ in range(MAX_ROUNDS):
            self.groups_left = self.options.first_groups
            fused = group_module(legal, self._plan)
            kernels, failed = self._build(fused)
            if not failed:
                return fused, kernels
            for name, why in failed.items():
                for region, _, group in fused.groups[name]:
                    cut = self.cuts.setdefault(region.graph.name, {})
                    cut[(group.members, group.clones)] = Verdict(why.reason, why.detail)
        raise InputError(
            f"no buildable plan after {MAX_ROUNDS} rounds; last refusal: {next(iter(failed.values()))}; "
            "try --max-group-size"
        )

    def _build(self, fused: FusedModule) -> tuple[tvm.IRModule, dict[str, Reject]]:
        """The kernels, and for each group that can't be built the reason."""
        failed: dict[str, Reject] = {}
        try:
            mod = relax.transform.FuseTIR()(fused.mod)
        except FUSE_TIR_ERRORS:
            failed = self._blame(fused)
            if not failed:
                raise
            return fused.mod, failed
        mod = relax.transform.DeadCodeElimination()(mod)

        def schedule(name: str, func: tirx.PrimFunc) -> tirx.PrimFunc:
            try:
                return schedule_cpu(func, self.device, self.options)
            except Reject as why:
                if name in fused.groups:
                    failed[name] = why
                return func

        return map_kernels(mod, schedule), failed

    def _blame(self, fused: FusedModule) -> dict[str, Reject]:
        """Which groups FuseTIR refuses, each tried with the others left out."""
        failed: dict[str, Reject] = {}
        for name in fused.groups:
            only = fused.mod.clone()
            for other in fused.groups:
                if other != name:
                    gv = only.get_global_var(other)
                    only.update_func(gv, only[gv].without_attr("Primitive"))
            try:
                relax.transform.FuseTIR()(only)
            except FUSE_TIR_ERRORS as error:
                line = next((t for t in str(error).splitlines() if "heck failed" in t), str(error).splitlines()[-1])
                failed[name] = Reject("fuse-tir-refused", line.strip()[:200])
        return failed


def run(mod: tvm.IRModule, target: tvm.target.Target, options: FusionOptions | None = None) -> FusionResult:
    """Fuse a Relax module and keep the reasons.

    Parameters
    ----------
    mod : a Relax module with high-level operators, call_tirs, or both; it is not changed
    target : an LLVM target
    options : see :class:`FusionOptions`

    Raises
    ------
    InputError
        For a target that is not supported, or a hand-given plan that does not fit the module.
    """
    options = options or FusionOptions()
    work = _Run(target, options)
    with target:
        fused, kernels = work.run(respecialize(legalize(prepare(mod))))
    plans = tuple(plan for _, plan in fused.plans)
    check_names([plan.graph for plan in plans], options)
    refused = [
        {
            "producer": plan.graph.operators[r.producer].name,
            "consumer": plan.graph.operators[r.consumer].name,
            "reason": r.reason,
            "detail": r.detail,
            "slack": r.slack,
        }
        for plan in plans
        for r in plan.refused
    ]
    return FusionResult(kernels, _describe_groups(fused), refused, plans)


def _describe_groups(fused: FusedModule) -> list[dict[str, Any]]:
    names = {(id(plan), group.members): name for name, uses in fused.groups.items() for _, plan, group in uses}
    out = []
    for _, plan in fused.plans:
        kept = plan.kept_values()
        for g in plan.groups:
            ops = [plan.graph.operators[i] for i in g.members]
            if ops[0].kind not in ("kernel", "opaque"):
                continue
            if not any(v in kept for o in ops for v in o.outputs):
                continue  # computed again by its readers; no kernel of its own
            out.append(_describe(plan, g, names.get((id(plan), g.members), ops[0].op)))
    return out


def _describe(plan: FusionPlan, group: Group, name: str) -> dict[str, Any]:
    graph = plan.graph
    members = group.all_members
    values = graph.values
    inside = {v for i in members for v in graph.operators[i].outputs}
    inputs, outputs = graph.inputs_of(members), graph.outputs_of(group.members)
    apart = sum(values[v].num_bytes for i in members for v in (*graph.operators[i].inputs, *graph.operators[i].outputs))
    together = sum(values[v].num_bytes for v in (*inputs, *outputs))
    facts = group.facts
    scopes = {values[v].name: "register" for v in sorted(inside) if v not in outputs}
    if facts:
        scopes |= dict(facts.scopes)
    pointwise = all(graph.operators[i].pointwise for i in members)
    shape = [str(d) for d in values[outputs[0]].shape] if outputs else []
    return {
        "name": name,
        "ops": [graph.operators[i].op for i in members],
        "members": [graph.operators[i].name for i in members],
        "inputs": [values[v].name for v in inputs],
        "outputs": [values[v].name for v in outputs],
        "block_axes": list(facts.block_axes) if facts else shape,
        "scopes": scopes,
        "registers_predicted": None,
        "registers_ptxas": None,
        "saved_bytes": apart - together,
        "predicted_us": group.predicted_us,
        "template": facts.template if facts else "elementwise" if pointwise else None,
    }


def make(target: tvm.target.Target, options: FusionOptions | None = None) -> tvm.transform.Pass:
    """A pass from a Relax module (parameters bound or not) to call_tirs of fused, scheduled PrimFuncs."""

    @tvm.transform.module_pass(opt_level=0, name="VerticalFusion")
    def vertical_fusion(mod: tvm.IRModule, ctx: tvm.transform.PassContext) -> tvm.IRModule:
        return run(mod, target, options).mod

    return vertical_fusion


def passes(target: tvm.target.Target, options: FusionOptions | None = None) -> list[tvm.transform.Pass]:
    """Drop-in list for a Sequential, in the place of LegalizeOps, FuseOps, FuseTIR and the default schedules."""
    return [make(target, options)]


def full(target: tvm.target.Target, options: FusionOptions | None = None) -> tvm.transform.Pass:
    """A complete pipeline for ``tvm.compile(mod, target, relax_pipeline=...)``: ours, then TVM's lowering passes."""
    from tvm.relax.backend.cpu_generic import pipeline as cpu

    @tvm.transform.module_pass(opt_level=0, name="FinalizeCpu")
    def finalize(mod: tvm.IRModule, ctx: tvm.transform.PassContext) -> tvm.IRModule:
        rest = list(cpu.finalize_passes(target))
        if has_branches(mod):  # memory planning frees what the other branch returns (apache/tvm#20191)
            rest = [p for p in rest if p.info.name != "StaticPlanBlockMemory"]
        return tvm.transform.Sequential(rest)(mod)

    return tvm.transform.Sequential(
        [*passes(target, options), *cpu.dataflow_lower_passes(target), finalize], name=PIPELINE_NAME
    )


def has_branches(mod: tvm.IRModule) -> bool:
    """True if some function of the module holds an If."""
    found: list[relax.If] = []
    for func in mod.functions.values():
        if isinstance(func, relax.Function):
            tvm_ffi.structural_walk(func, (relax.If, found.append))
    return bool(found)


def register() -> None:
    """Register :func:`full` as ``"vfuse"`` for ``relax.get_pipeline``; a second call does nothing."""
    known = relax.pipeline.PIPELINE_MAP
    if PIPELINE_NAME in known:
        return

    @relax.register_pipeline(PIPELINE_NAME)
    def vfuse_pipeline() -> tvm.transform.Pass:
        @tvm.transform.module_pass(opt_level=0, name="VerticalFusionPipeline")
        def apply(mod: tvm.IRModule, ctx: tvm.transform.PassContext) -> tvm.IRModule:
            target = tvm.target.Target.current(allow_none=True) or tvm.target.Target("llvm")
            return full(target)(mod)

        return apply


register()

__all__ = ["PIPELINE_NAME", "TARGET_ATTRS", "FusionResult", "full", "make", "passes", "prepare", "register", "run"]
