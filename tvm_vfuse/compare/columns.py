"""The columns of a comparison: three ways from one prepared module to a module of kernels."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import tvm
from tvm import relax

from tvm_vfuse import pipeline
from tvm_vfuse.errors import InputError
from tvm_vfuse.options import FusionOptions

COLUMNS = ("unfused", "stock", "vfuse")


@dataclass(frozen=True)
class Lowered:
    """A column's module of kernels.

    Parameters
    ----------
    column : str
    mod : tvm.ir.IRModule
        Relax functions of ``call_tir``s and their PrimFuncs.
    target : tvm.target.Target
        What to compile it for.
    ops : dict of str to list of str
        Members of each fused kernel, by the kernel's name; a kernel that is absent is one operator.
    seconds : float
        Time of the passes.
    predicted_us : float or None
        Sum of the model's times, in µs; None where some kernel has none.
    """

    column: str
    mod: tvm.ir.IRModule
    target: tvm.target.Target
    ops: dict[str, list[str]]
    seconds: float
    predicted_us: float | None = None
    plan: dict[str, Any] = field(default_factory=dict)


def lower_column(column: str, prepared: tvm.ir.IRModule, target: tvm.target.Target, options: FusionOptions) -> Lowered:
    """Take a prepared module to a column's module of kernels.

    Parameters
    ----------
    column : str
        ``unfused``: TVM's LegalizeOps, one kernel an operator. ``stock``: TVM's FuseOps and FuseTIR. ``vfuse``: ours.
    prepared : tvm.ir.IRModule
        Result of ``pipeline.prepare``; it is not changed.
    target : tvm.target.Target
    options : FusionOptions
        For ``vfuse`` only.
    """
    make = {"unfused": _unfused, "stock": _stock, "vfuse": _vfuse}.get(column)
    if make is None:
        raise InputError(f"column {column!r} is unknown; one of {', '.join(COLUMNS)}")
    start = time.perf_counter()
    with target:
        lowered = make(prepared.clone(), target, options)
    return Lowered(column=column, seconds=time.perf_counter() - start, **lowered)


def _unfused(mod: tvm.ir.IRModule, target: tvm.target.Target, _options: FusionOptions) -> dict[str, Any]:
    return {"mod": relax.transform.LegalizeOps()(mod), "target": target, "ops": {}}


def _stock(mod: tvm.ir.IRModule, target: tvm.target.Target, _options: FusionOptions) -> dict[str, Any]:
    """TVM's ``zero`` pipeline, stopped before FuseTIR to read which operators each kernel holds."""
    passes = relax.transform
    grouped = tvm.transform.Sequential(
        [passes.LegalizeOps(), passes.AnnotateTIROpPattern(), passes.FoldConstant(), passes.FuseOps()]
    )(mod)
    return {"mod": passes.FuseTIR()(grouped), "target": target, "ops": _members(grouped)}


def _members(grouped: tvm.ir.IRModule) -> dict[str, list[str]]:
    """Kernels called by each function that FuseOps made, by its name."""
    members: dict[str, list[str]] = {}
    for var, function in grouped.functions.items():
        if isinstance(function, relax.Function) and function.attrs.get("Primitive"):
            calls = [binding.value for block in function.body.blocks for binding in block.bindings]
            members[var.name_hint] = [
                call.args[0].name_hint
                for call in calls
                if isinstance(call, tvm.ir.Call) and call.args and isinstance(call.args[0], tvm.ir.GlobalVar)
            ]
    return members


def _vfuse(mod: tvm.ir.IRModule, target: tvm.target.Target, options: FusionOptions) -> dict[str, Any]:
    result = pipeline.run(mod, target, options)
    times = [group.get("predicted_us") for group in result.groups]
    return {
        "mod": result.mod,
        "target": with_attributes(target, pipeline.TARGET_ATTRS),
        "ops": {group["name"]: list(group["ops"]) for group in result.groups},
        "predicted_us": sum(times) if times and None not in times else None,
        "plan": {"groups": list(result.groups), "refused": list(result.refused)},
    }


def with_attributes(target: tvm.target.Target, attributes: dict[str, Any]) -> tvm.target.Target:
    """Return the target with attributes added."""
    return tvm.target.Target({**dict(target.export()), **attributes}) if attributes else target
