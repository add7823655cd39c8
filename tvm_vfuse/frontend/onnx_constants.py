"""Values of an ONNX graph that do not depend on its inputs: what decides its control flow."""

from __future__ import annotations

from typing import Any

import numpy as np

SMALL_OPERATORS = (
    *("Identity", "Cast", "Shape", "Size", "Gather", "Slice", "Concat", "Squeeze", "Unsqueeze", "Reshape", "Range"),
    *("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Not", "And", "Or", "Xor", "Where"),
    *("Add", "Sub", "Mul", "Div", "Mod", "Neg", "Abs", "Min", "Max", "ReduceProd", "ReduceSum", "ConstantOfShape"),
)
"""Operators that exporters compute shapes and conditions with."""
MAX_ELEMENTS = 4096
"""Larger values are weights, not conditions."""


def constants_of(graph: Any) -> dict[str, np.ndarray]:
    """Initializers and the tensors of Constant nodes, by name."""
    from onnx import numpy_helper

    found = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    for node in graph.node:
        for attribute in node.attribute if node.op_type == "Constant" else ():
            if attribute.name == "value":
                found[node.output[0]] = numpy_helper.to_array(attribute.t)
    return found


def static_shapes(graph: Any) -> dict[str, list[int]]:
    """Shapes of the values whose every extent is known."""
    found = {t.name: list(t.dims) for t in graph.initializer}
    for value in [*graph.input, *graph.value_info, *graph.output]:
        tensor = value.type.tensor_type
        if tensor.HasField("shape") and all(d.dim_value > 0 for d in tensor.shape.dim):
            found[value.name] = [d.dim_value for d in tensor.shape.dim]
    return found


def known_values(model: Any) -> dict[str, np.ndarray]:
    """Propagate constants and static shapes through the operators that compute conditions.

    Parameters
    ----------
    model : onnx.ModelProto
        With shapes inferred, as far as they can be.

    Returns
    -------
    dict of str to numpy.ndarray
        The constants, and what follows from them.
    """
    known, shapes = constants_of(model.graph), static_shapes(model.graph)
    opsets = {entry.domain: entry.version for entry in model.opset_import}
    for node in model.graph.node:
        if node.domain or node.op_type not in SMALL_OPERATORS or node.output[0] in known:
            continue
        if node.op_type in ("Shape", "Size") and node.input[0] in shapes and not node.attribute:
            extents = np.array(shapes[node.input[0]], np.int64)
            known[node.output[0]] = extents if node.op_type == "Shape" else extents.prod()
            continue
        inputs = [known.get(name) for name in node.input if name]
        if inputs and all(value is not None and value.size <= MAX_ELEMENTS for value in inputs):
            _evaluate(node, opsets, known)
    return known


def _evaluate(node: Any, opsets: dict[str, int], known: dict[str, np.ndarray]) -> None:
    from onnx.reference import ReferenceEvaluator

    feeds = {name: known[name] for name in node.input if name}
    try:
        results = ReferenceEvaluator(node, opsets=opsets).run(None, feeds)
    except Exception:  # noqa: BLE001 - what the reference can't evaluate just stays unknown
        return
    known.update({name: np.asarray(value) for name, value in zip(node.output, results) if name})
