"""Turn a Relax module into the same module in float64: the reference that errors are measured against.

TVM writes a module as a graph of typed nodes, where each dtype stands in a node or an attribute of its own. Every float
dtype there becomes float64, in Relax types, operator attributes and the TIR of user-written kernels alike; constants
are set aside and converted from their own bits.
"""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import relax, tirx

_FLOAT = re.compile(r"^(?:b?float\d+(?:_\w+?)?)(x\d+)?$")
# What computes on the bits of a dtype, or calls code written for one: it would not mean the same in float64.
_DTYPE_BOUND = ("reinterpret", "call_extern", "call_pure_extern", "call_llvm_intrin", "call_llvm_pure_intrin", "ptx")
_PACKED = ("relax.call_packed", "relax.call_pure_packed", "relax.call_inplace_packed", "relax.call_dps_packed")
# Packed kernels of TVM's own that take any float dtype.
_ANY_DTYPE = ("tvm.contrib.sort.",)


def to_float64(mod: tvm.ir.IRModule) -> tvm.ir.IRModule:
    """Return the module with every float of it in float64; integers stay.

    Parameters
    ----------
    mod : IRModule
        A prepared Relax module, high-level operators and user-written PrimFuncs alike. It is not changed.

    Raises
    ------
    ValueError
        If some part is bound to its dtype (see :func:`dtype_bound_part`).
    """
    bound = dtype_bound_part(mod)
    if bound is not None:
        raise ValueError(f"{bound} is bound to its dtype")
    constants: list[Any] = []

    def lift(constant: tvm.ir.GenericConst) -> Any:
        if not isinstance(constant.value, tvm.runtime.Tensor):
            return constant
        constants.append(constant)
        return tvm.ir.GenericConst(tvm.runtime.tensor(np.int64(len(constants) - 1)), constant.ty)

    def restore(constant: tvm.ir.GenericConst) -> Any:
        if not isinstance(constant.value, tvm.runtime.Tensor):
            return constant
        return _constant64(constants[int(constant.value.numpy())])

    graph = json.loads(tvm.ir.save_json(tvm_ffi.structural_map(mod, (tvm.ir.GenericConst, lift))))
    for node in graph["nodes"]:
        data = node.get("data")
        if isinstance(data, dict):
            node["data"] = {key: _dtype64(value) for key, value in data.items()}
        elif node["type"] == "DataType":
            node["data"] = _dtype64(data)
    return tvm_ffi.structural_map(tvm.ir.load_json(json.dumps(graph)), (tvm.ir.GenericConst, restore))


def dtype_bound_part(mod: tvm.ir.IRModule) -> str | None:
    """Name what in a module can't be turned into another dtype, or None where everything can.

    Bit patterns, external functions and target intrinsics are written for one dtype; so are packed functions.
    """
    for var, function in mod.functions.items():
        found: list[str] = []

        def visit(call: tvm.ir.Call, found: list[str] = found) -> None:
            name = str(getattr(call.op, "name", ""))
            if name in _PACKED and not str(getattr(call.args[0], "global_symbol", "")).startswith(_ANY_DTYPE):
                found.append(f"packed function {getattr(call.args[0], 'global_symbol', name)}")
            elif any(part in name for part in _DTYPE_BOUND):
                found.append(name)

        tvm_ffi.structural_walk(function, (tvm.ir.Call, visit))
        if found:
            kind = "PrimFunc" if isinstance(function, tirx.PrimFunc) else "function"
            return f"{found[0]} in {kind} {var.name_hint}"
    return None


def as_float64(value: Any) -> Any:
    """An input array (or nested sequence of arrays) with floats widened to float64."""
    if isinstance(value, tuple | list):
        return type(value)(as_float64(item) for item in value)
    array = np.asarray(value)
    return array.astype(np.float64) if is_float(array.dtype) else array


def is_float(dtype: np.dtype[Any]) -> bool:
    """Whether an array dtype is a float, narrow ones from ml_dtypes included."""
    return dtype.kind == "f" or "float" in dtype.name


def _dtype64(value: Any) -> Any:
    """A node's field, with a float dtype made float64; lanes stay."""
    match = _FLOAT.match(value) if isinstance(value, str) else None
    return f"float64{match.group(1) or ''}" if match else value


def _constant64(constant: tvm.ir.GenericConst) -> Any:
    array = constant.value.numpy()
    return relax.const(array.astype(np.float64), "float64") if is_float(array.dtype) else constant
