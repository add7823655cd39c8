"""Compile and run one PrimFunc of plain loops on the CPU."""

from __future__ import annotations

import numpy as np
import tvm

AVX2 = {"kind": "llvm", "mcpu": "haswell"}


def compile_kernel(func: tvm.tirx.PrimFunc, target: str | dict[str, str] = "llvm") -> tvm.runtime.Executable:
    """A module that holds ``func`` alone, under the name ``main``."""
    return tvm.compile(tvm.IRModule({"main": func.with_attr("global_symbol", "main")}), target=target)


def llvm_ir(func: tvm.tirx.PrimFunc, target: str | dict[str, str] = "llvm") -> str:
    return compile_kernel(func, target).mod.inspect_source("ll")


def run_kernel(func: tvm.tirx.PrimFunc, *inputs: np.ndarray) -> np.ndarray:
    """The kernel's last parameter after a run, poisoned before it; it has the first input's shape and dtype."""
    out = tvm.runtime.tensor(np.full(inputs[0].shape, np.nan, inputs[0].dtype))
    compile_kernel(func)["main"](*[tvm.runtime.tensor(x) for x in inputs], out)
    return out.numpy()
