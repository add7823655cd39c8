"""Build a Relax module for this CPU and run it; compare with a float64 reference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tvm
from tvm import relax

Pipeline = Callable[[tvm.IRModule], tvm.IRModule]
EPSILON = {"float32": 1.2e-7, "float16": 9.8e-4, "bfloat16": 7.9e-3}
"""Distance from 1.0 to the next number, by dtype."""


def cpu_target() -> tvm.target.Target:
    cpu = tvm.get_global_func("target.llvm_get_system_cpu")()
    return tvm.target.Target({"kind": "llvm", "mcpu": cpu, "num-cores": 2})


def unfused(mod: tvm.IRModule) -> tvm.IRModule:
    """One kernel an operator: the result that fusion has to keep."""
    passes = [
        relax.transform.DecomposeOpsForInference(),
        relax.transform.CanonicalizeBindings(),
        relax.transform.LegalizeOps(),
    ]
    return tvm.transform.Sequential(passes)(mod)


def fused(mod: tvm.IRModule) -> tvm.IRModule:
    from tvm_vfuse import pipeline

    return pipeline.make(cpu_target())(mod)


def run(mod: tvm.IRModule, inputs: Sequence[np.ndarray], passes: Pipeline) -> list[np.ndarray]:
    target = cpu_target()
    with target:
        lowered = passes(mod)
    executable = tvm.compile(lowered, target=target, relax_pipeline=relax.get_pipeline("default_build"))
    machine = relax.VirtualMachine(executable, tvm.cpu())
    result: Any = machine["main"](*[tvm.runtime.tensor(x) for x in inputs])
    return [t.numpy() for t in ([result] if hasattr(result, "numpy") else result)]


def error(outputs: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> float:
    """Largest |output - expected| over |expected| + its root mean square; infinite where shapes or NaNs disagree."""
    assert [x.shape for x in outputs] == [x.shape for x in expected]
    worst = 0.0
    for got, want in zip(outputs, expected, strict=True):
        wide, goal = got.astype(np.float64), want.astype(np.float64)
        scale = np.abs(goal) + np.sqrt(np.mean(goal**2)) + 1e-30
        difference = np.max(np.abs(wide - goal) / scale, initial=0.0)
        worst = max(worst, float(difference) if np.isfinite(difference) else float("inf"))
    return worst
