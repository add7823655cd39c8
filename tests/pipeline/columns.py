"""The two columns of a test, our pipeline and TVM's legalisation, compiled and run on poisoned outputs."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import relax, tirx

from tvm_vfuse import pipeline
from tvm_vfuse.build import Runner, compile_module, to_arrays, to_device
from tvm_vfuse.compare.kernel_memory import in_kernel_bytes
from tvm_vfuse.compare.trace import Trace, trace
from tvm_vfuse.compare.traffic import boundary_bytes, ideal_bytes
from tvm_vfuse.device import host_target
from tvm_vfuse.options import FusionOptions
from tvm_vfuse.pipeline import FusionResult

Arrays = Sequence[np.ndarray]
LIBM = FusionOptions(math="libm")


@functools.cache
def target() -> tvm.target.Target:
    """This machine's CPU."""
    return host_target()


def fuse(mod: tvm.IRModule, options: FusionOptions | None = None) -> FusionResult:
    """Our pipeline's result; raises if it changed the module it was given or made an ill-formed one."""
    before = tvm.ir.save_json(mod)
    result = pipeline.run(mod, target(), options or FusionOptions())
    if tvm.ir.save_json(mod) != before:
        raise AssertionError("the pipeline changed the caller's module")
    relax.analysis.well_formed(result.mod)
    return result


def unfused(mod: tvm.IRModule) -> tvm.IRModule:
    """One kernel for each operator."""
    with target():
        return relax.transform.LegalizeOps()(pipeline.prepare(mod))


@dataclass
class Column:
    """A module of kernels that can be run.

    Parameters
    ----------
    mod : IRModule
        call_tirs and their PrimFuncs.
    result : FusionResult or None
        Where it came out of our pipeline.
    """

    mod: tvm.IRModule
    result: FusionResult | None = None

    @functools.cached_property
    def runner(self) -> Runner:
        return Runner(compile_module(self.mod, target()))

    def trace(self, inputs: Sequence[Any]) -> Trace:
        return trace(self.mod, inputs)

    def run(self, inputs: Sequence[Any]) -> list[np.ndarray]:
        """Results; every output of every kernel is filled with 0xFF (NaN in floats) before it runs."""
        waiting = list(self.trace(inputs).launches)

        def poison(_function: Any, name: str, is_before: bool, _result: Any, *arguments: Any) -> None:
            launch = next((x for x in waiting if x.name == name), None)
            if launch is None or not is_before:
                return
            waiting.remove(launch)
            read = {s for value in launch.inputs for s in value.storages}
            for value, tensor in zip(launch.outputs, arguments[len(arguments) - len(launch.outputs) :], strict=True):
                if not value.storages & read:
                    host = tensor.numpy()
                    tensor.copyfrom(np.full(host.nbytes, 0xFF, "uint8").view(host.dtype).reshape(host.shape))

        self.runner.instrument(poison)
        arguments = to_device(inputs)
        results = to_arrays(self.runner(*arguments))
        for given, kept in zip(arguments, inputs, strict=True):
            if hasattr(given, "numpy") and given.numpy().tobytes() != np.asarray(kept).tobytes():
                raise AssertionError("an argument was overwritten")
        return results

    # ------------------------------------------------------------------------------------------------ facts
    def kernels(self, inputs: Sequence[Any]) -> list[str]:
        """Names of the kernels launched, in order."""
        return [launch.name for launch in self.trace(inputs).launches]

    def traffic(self, inputs: Sequence[Any]) -> tuple[int | None, int | None, int]:
        """Boundary bytes, ideal bytes, and bytes that kernels keep in memory."""
        walked = self.trace(inputs)
        held = sum(in_kernel_bytes(x.function, x.bindings) or 0 for x in walked.launches)
        return boundary_bytes(walked), ideal_bytes(walked), held

    def functions(self, inputs: Sequence[Any]) -> list[tirx.PrimFunc]:
        return [launch.function for launch in self.trace(inputs).launches]


def fused_column(mod: tvm.IRModule, options: FusionOptions | None = None) -> Column:
    result = fuse(mod, options)
    return Column(result.mod, result)


def unfused_column(mod: tvm.IRModule) -> Column:
    return Column(unfused(mod))


def allocations(function: tirx.PrimFunc) -> dict[str, int | None]:
    """Bytes of each buffer that a scheduled kernel allocates; None where an extent is symbolic."""
    import tvm_ffi

    found: dict[str, int | None] = {}

    def visit(stmt: tirx.AllocBuffer) -> None:
        extents = [int(e) if isinstance(e, tirx.IntImm) else None for e in stmt.buffer.ty.shape]
        bits = tvm.DataType(stmt.buffer.ty.dtype).bits
        known = None if None in extents else int(np.prod(extents, dtype="int64")) * max(1, bits // 8)
        found[stmt.buffer.name] = known

    tvm_ffi.structural_walk(function.body, (tirx.AllocBuffer, visit))
    return found
