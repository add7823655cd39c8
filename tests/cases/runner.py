"""Builds a case with or without fusion, runs it, and says what was wrong with the results.

``python -m tests.cases.runner CASE TARGET...`` makes every check of a fused case in a process of its own.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.relax.backend.cpu_generic import pipeline as cpu

from tests.cases import registry
from tests.cases.case import EXACT, Case, difference
from tvm_vfuse import pipeline
from tvm_vfuse.options import FusionOptions

Passes = list[Any]
TARGETS: dict[str, dict[str, Any]] = {
    "native": {"kind": "llvm"},
    "haswell": {"kind": "llvm", "mcpu": "haswell"},
}


def unfused(_target: tvm.target.Target) -> Passes:
    """One kernel for each operator."""
    return [relax.backend.DispatchSampling(), relax.backend.DispatchSortScan(), relax.transform.LegalizeOps()]


def fused(target: tvm.target.Target) -> Passes:
    return [pipeline.make(target)]


def fused_with_platform_math(target: tvm.target.Target) -> Passes:
    return [pipeline.make(target, FusionOptions(math="libm"))]


def lowering_passes(target: tvm.target.Target, plans_memory: bool) -> Passes:
    passes = [*cpu.dataflow_lower_passes(target), *cpu.finalize_passes(target)]
    return [p for p in passes if plans_memory or p.info.name != "StaticPlanBlockMemory"]


def compile_case(case: Case, column: Callable[[tvm.target.Target], Passes], target_name: str) -> tvm.runtime.Executable:
    """The case's executable; raises if the passes changed the module they were given or left an ill-formed one."""
    is_fused = column is not unfused
    target = tvm.target.Target(TARGETS[target_name] | (pipeline.TARGET_ATTRS if is_fused else {}))
    original = case.build()
    before = tvm.ir.save_json(original)
    with target:
        kernels = tvm.transform.Sequential(column(target))(original)
    if tvm.ir.save_json(original) != before:
        raise AssertionError("the passes changed the caller's module")
    relax.analysis.well_formed(kernels)
    lowering = tvm.transform.Sequential(lowering_passes(target, is_fused or case.unfused_plans_memory))
    return relax.build(kernels, target, relax_pipeline=lowering)


def run_case(case: Case, executable: tvm.runtime.Executable) -> list[np.ndarray]:
    """The results of every function of the case; raises if a run changed its arguments or a second one differs."""
    vm = relax.VirtualMachine(executable, tvm.cpu())
    inputs = case.inputs()
    runs = []
    for _ in range(2):
        arguments = [tvm.runtime.tensor(x) for x in inputs]
        runs.append([leaf for name in case.functions for leaf in _leaves(vm[name](*arguments))])
        for index, (argument, original) in enumerate(zip(arguments, inputs, strict=True)):
            if argument.numpy().tobytes() != original.tobytes():
                raise AssertionError(f"argument {index} was overwritten")
    if [r.tobytes() for r in runs[0]] != [r.tobytes() for r in runs[1]]:
        raise AssertionError("two runs on the same arguments differ")
    return runs[0]


def unfused_fault(case: Case, target_name: str) -> str | None:
    """What is wrong with the unfused results, against NumPy's, in words, or None."""
    return _fault_against_numpy(case, compile_case(case, unfused, target_name))


def fused_fault(case: Case, target_name: str) -> str | None:
    """What is wrong with the fused results, against NumPy's, in words, or None."""
    return _fault_against_numpy(case, compile_case(case, fused, target_name))


def bitwise_fault(case: Case, target_name: str) -> str | None:
    """Where fused and unfused results differ in any bit, both with the platform's math functions, or None."""
    one, other = (run_case(case, compile_case(case, c, target_name)) for c in (fused_with_platform_math, unfused))
    exact = replace(case, tolerance=EXACT, compare_zero_signs=True)
    return difference(exact, one, other)


def _fault_against_numpy(case: Case, executable: tvm.runtime.Executable) -> str | None:
    return difference(case, run_case(case, executable), case.expect(*case.inputs()))


def _leaves(result: Any) -> Iterator[np.ndarray]:
    if hasattr(result, "numpy"):
        yield result.numpy()
    else:
        for field in result:
            yield from _leaves(field)


def main(case_name: str, target_names: list[str]) -> None:
    """Print one line for each check as it ends, so that a crash shows how far it came."""
    case = registry.by_name(case_name)
    for target_name in target_names:
        print(json.dumps(["fused", target_name, fused_fault(case, target_name)]), flush=True)
        if case.bitwise:
            print(json.dumps(["bitwise", target_name, bitwise_fault(case, target_name)]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
