"""Give imported ``take``s what their importers promise: indices in bounds, and a slice where one constant is taken.

Rewrite
-------
``take(x[2, 5, 7], -1, axis=1)``  becomes  ``squeeze(strided_slice(x, axis 1, 4, 5), 1)``;
``take(x, i, mode="fast")``  becomes  ``take(x, i, mode="clip")``.

TVM 0.27's importers emit mode "fast", which reads whatever lies at an index out of bounds: PyTorch's ``x[:, -1]`` reads
before the tensor. A slice is also an affine access, which fuses with its neighbours, where a gather does not.

Checks
------
The index is a constant scalar (for the slice), and the extent along the axis is static.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm
from tvm import relax

from tvm_vfuse.errors import InputError


def make_takes_safe(mod: tvm.IRModule, name: str) -> tvm.IRModule:
    """Rewrite every ``take`` of ``main``.

    Parameters
    ----------
    mod : tvm.IRModule
        Not changed.
    name : str
        For messages.

    Returns
    -------
    tvm.IRModule
        The same module where there is no ``take``.

    Raises
    ------
    InputError
        Where a constant index is out of bounds.
    """
    takes: list[Any] = []
    relax.analysis.post_order_visit(mod["main"], lambda e: takes.append(e) if _is_take(e) else None)
    if not takes:
        return mod
    copy = mod.clone()
    rewriter = _Rewriter(copy)
    copy["main"] = rewriter.visit_expr(copy["main"])
    if rewriter.problem:
        raise InputError(f"{name}: {rewriter.problem}; correct the model")
    return copy


def _is_take(expr: Any) -> bool:
    return isinstance(expr, relax.Call) and getattr(expr.op, "name", "") == "relax.take"


@relax.expr_functor.mutator
class _Rewriter(relax.expr_functor.PyExprMutator):
    def __init__(self, mod: tvm.IRModule) -> None:
        super().__init__(mod)
        self.problem = ""

    def visit_call_(self, call: Any) -> Any:
        call = self.visit_expr_post_order(call)
        if not _is_take(call):
            return call
        x, indices, axis = call.args[0], call.args[1], call.attrs.axis
        extent = _static_extent(x, axis)
        if extent is None or not hasattr(indices, "value"):
            return relax.op.take(x, indices, axis, mode="clip") if call.attrs.mode == "fast" else call
        raw = _array(indices)
        chosen = np.where(raw < 0, raw + extent, raw).astype(raw.dtype)
        if chosen.size and not (chosen.min() >= 0 and chosen.max() < extent):
            self.problem = f"a take has indices {raw.min()} to {raw.max()} on an axis of {extent}"
            return call
        if chosen.ndim == 0:
            low = int(chosen)
            piece = self.builder_.emit(relax.op.strided_slice(x, [int(axis)], [low], [low + 1]))
            return relax.op.squeeze(piece, [int(axis)])
        return relax.op.take(x, relax.const(chosen), axis, mode="clip")


def _static_extent(x: Any, axis: Any) -> int | None:
    shape = x.ty.shape
    if axis is None or shape is None or not hasattr(shape, "values"):
        return None
    extent = shape.values[int(axis)]
    return int(extent) if hasattr(extent, "value") else None


def _array(constant: Any) -> np.ndarray:
    value = constant.value
    return value.numpy() if hasattr(value, "numpy") else np.asarray(int(value), np.int64)
