"""Make an ONNX model fit for TVM's importer: fixed shapes, constants folded, control flow on constants resolved."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tvm_vfuse.frontend.module_workload import check_dims
from tvm_vfuse.frontend.onnx_gather import slice_constant_gathers
from tvm_vfuse.frontend.onnx_recurrent import lower_recurrent
from tvm_vfuse.frontend.onnx_subgraphs import fold_constant_ifs

_ROUNDS = 6
"""Ifs inside branches come to light one level a round; the models seen need three."""


def prepare(model: Any, dims: Mapping[str, int], name: str) -> Any:
    """Rewrite `model` for the importer; the result computes the same.

    Parameters
    ----------
    model : onnx.ModelProto
        As read from the file; changed in place.
    dims : mapping of str to int
        Values of symbolic dimensions (by their name in the file, or ``INPUT_AXIS``) and of integer scalar inputs, which
        then stop being inputs.
    name : str
        For messages.

    Returns
    -------
    onnx.ModelProto

    Raises
    ------
    InputError
        Where `dims` names something that the model does not have.
    """
    graph = model.graph
    _drop_initialized_inputs(graph)
    symbols, scalars = symbolic_dims(graph), integer_scalars(graph)
    given = {key if key in scalars else identifier(key): value for key, value in dims.items()}
    check_dims(given, [*dict.fromkeys([*symbols.values(), *symbols, *scalars])], name)
    _set_dims(graph, symbols, {symbols.get(k, k): v for k, v in given.items()})
    _set_scalars(graph, {k: v for k, v in given.items() if k in scalars})
    del graph.value_info[:]
    for _ in range(_ROUNDS):
        model = _infer_shapes(model)
        if not fold_constant_ifs(model):
            break
    model = simplify(model)
    if lower_recurrent(model.graph):
        model = simplify(model)
    model = _infer_shapes(model)
    return simplify(model) if slice_constant_gathers(model) else model


def symbolic_dims(graph: Any) -> dict[str, str]:
    """Each unfixed dimension of the inputs: ``INPUT_AXIS`` -> its name in the file (or the same, where it has none)."""
    found: dict[str, str] = {}
    for value in graph.input:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if dim.dim_value <= 0:
                key = identifier(f"{value.name}_{axis}")
                named = dim.dim_param and dim.dim_param != "?"
                found[key] = identifier(dim.dim_param) if named else key
    return found


def integer_scalars(graph: Any) -> list[str]:
    """Inputs that are one integer, such as a sampling rate: often what decides the graph's control flow."""
    from onnx import TensorProto

    integers = (TensorProto.INT64, TensorProto.INT32)
    types = {value.name: value.type.tensor_type for value in graph.input}
    return [n for n, t in types.items() if t.elem_type in integers and t.HasField("shape") and not t.shape.dim]


def identifier(name: str) -> str:
    """A dimension's name as it can stand in a module: ``p2o.Dim.0`` as ``p2o_Dim_0``."""
    return re.sub(r"\W", "_", name)


def simplify(model: Any) -> Any:
    """Fold constants and infer shapes with onnxsim; where that is missing or gives up, the model as it was."""
    try:
        import onnxsim
    except ImportError:
        return model
    try:
        return onnxsim.simplify(model)[0]
    except Exception:  # noqa: BLE001 - any failure of a third-party optimiser means: go on without it
        return model


def _infer_shapes(model: Any) -> Any:
    import onnx

    try:
        return onnx.shape_inference.infer_shapes(model, data_prop=True)
    except Exception:  # noqa: BLE001 - an invalid graph is reported by the importer, with more to say
        return model


def _drop_initialized_inputs(graph: Any) -> None:
    initialized = {tensor.name for tensor in graph.initializer}
    kept = [value for value in graph.input if value.name not in initialized]
    if len(kept) < len(graph.input):
        del graph.input[:]
        graph.input.extend(kept)


def _set_dims(graph: Any, symbols: Mapping[str, str], dims: Mapping[str, int]) -> None:
    for value in graph.input:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            key = identifier(f"{value.name}_{axis}")
            if key not in symbols:
                continue
            size = dims.get(symbols[key])
            if size is None:
                dim.dim_param = symbols[key]
            else:
                dim.dim_value = size


def _set_scalars(graph: Any, values: Mapping[str, int]) -> None:
    import numpy as np
    from onnx import helper, numpy_helper

    types = {value.name: value.type.tensor_type.elem_type for value in graph.input}
    for name, number in values.items():
        dtype = helper.tensor_dtype_to_np_dtype(types[name])
        graph.initializer.append(numpy_helper.from_array(np.asarray(number, dtype=dtype), name))
    _drop_initialized_inputs(graph)
