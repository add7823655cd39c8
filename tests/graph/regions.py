"""Regions of small modules, and what the evaluation says of a set of their operators."""

from __future__ import annotations

from collections.abc import Sequence

import tvm
from tvm import relax

from tests.pipeline.columns import target
from tvm_vfuse.device import cpu_device
from tvm_vfuse.graph.evaluate import Evaluation, evaluate
from tvm_vfuse.graph.extract import Region
from tvm_vfuse.legality.verdict import Verdict
from tvm_vfuse.plan.model import FusionPlan, Group
from tvm_vfuse.transform.fuse import group_module
from tvm_vfuse.transform.oracle import EvaluationOracle
from tvm_vfuse.transform.prepare import legalize, prepare
from tvm_vfuse.transform.respecialize import respecialize


def regions_of(mod: tvm.IRModule) -> list[Region]:
    """Every binding block of the legalised module."""
    found: list[Region] = []

    def alone(region: Region) -> FusionPlan:
        found.append(region)
        return FusionPlan(region.graph, tuple(Group((o.index,)) for o in region.graph.operators))

    with target():
        group_module(respecialize(legalize(prepare(mod))), alone)
    return [r for r in found if r.graph.operators]


def region_of(mod: tvm.IRModule) -> Region:
    (region,) = regions_of(mod)
    return region


def oracle_of(region: Region) -> EvaluationOracle:
    return EvaluationOracle(region, cpu_device(target()), {})


def everything(region: Region) -> tuple[int, ...]:
    """All kernels of a region."""
    return tuple(o.index for o in region.graph.operators if o.kind == "kernel")


def verdict_of(mod: tvm.IRModule) -> Verdict:
    """May all kernels of the module be one?"""
    region = region_of(mod)
    return oracle_of(region)(everything(region), ())


def evaluation_of(mod: tvm.IRModule, members: Sequence[int] | None = None) -> Evaluation:
    """The kernels of a module (or some of them), evaluated as one group; raises Reject."""
    region = region_of(mod)
    return evaluate(region.program(everything(region) if members is None else tuple(members)))


def with_kernel(
    func: tvm.tirx.PrimFunc, *shapes: Sequence[int], out: Sequence[int], dtype: str = "float32"
) -> tvm.IRModule:
    """A module that calls a hand-written kernel and adds its result to itself."""
    builder = relax.BlockBuilder()
    params = [relax.Var(f"x{i}", relax.TensorType(list(s), "float32")) for i, s in enumerate(shapes)]
    with builder.function("main", params):
        with builder.dataflow():
            kernel = builder.add_func(func, "kernel")
            made = builder.emit(relax.call_tir(kernel, relax.Tuple(params), relax.TensorType(list(out), "float32")))
            result = builder.emit_output(relax.op.add(made, made))
        builder.emit_func_output(result)
    return builder.get()
