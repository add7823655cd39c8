"""Existing TVM passes in the right order, before anything is fused."""

from __future__ import annotations

import tvm
from tvm import relax


def prepare(mod: tvm.IRModule) -> tvm.IRModule:
    """Bring an imported module into the form that every pipeline starts from; still high-level operators.

    Batch norm after a convolution with constant weights is folded into them, elsewhere decomposed, sampling and
    sorting are dispatched as the stock CPU pipeline does, bindings are canonical, what is constant is folded, what is
    dead is gone. The input module is not changed.
    """
    passes = [
        relax.backend.DispatchSampling(),
        relax.backend.DispatchSortScan(),
        relax.transform.CanonicalizeBindings(),
        relax.transform.FoldBatchnormToConv2D(),
        relax.transform.DecomposeOpsForInference(),
        relax.transform.CanonicalizeBindings(),
        relax.transform.DeadCodeElimination(),
        relax.transform.FoldConstant(),
        relax.transform.CanonicalizeBindings(),
    ]
    return tvm.transform.Sequential(passes, name="vfuse.prepare")(mod.clone())


def legalize(mod: tvm.IRModule) -> tvm.IRModule:
    """Operators as calls of PrimFuncs, constants folded again, dead code removed."""
    passes = [
        relax.transform.LegalizeOps(),
        relax.transform.FoldConstant(),
        relax.transform.DeadCodeElimination(),
    ]
    return tvm.transform.Sequential(passes, name="vfuse.legalize")(mod)
