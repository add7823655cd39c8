"""Turn ONNX ``Gather`` with one constant index into ``Slice`` and ``Reshape``.

Rewrite
-------
``Gather(x[2, 1, 128], 1, axis=0)``  becomes  ``Reshape(Slice(x, 1, 2, axis 0), [1, 128])``.

A slice is an affine access that fuses with its neighbours. TVM's importer would wrap even a constant index in operators
that count negative ones from the end.

Checks
------
The index is a constant scalar within bounds, and the shape of x is static.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tvm_vfuse.frontend.onnx_constants import constants_of, static_shapes

_SLICE_TAKES_INPUTS = 10
"""Opset from which Slice reads its bounds from inputs."""


def slice_constant_gathers(model: Any) -> int:
    """Rewrite every such Gather of the graph.

    Parameters
    ----------
    model : onnx.ModelProto
        Changed in place; shapes inferred.

    Returns
    -------
    int
        How many were rewritten.
    """
    if any(entry.version < _SLICE_TAKES_INPUTS for entry in model.opset_import if entry.domain in ("", "ai.onnx")):
        return 0
    constants, shapes = constants_of(model.graph), static_shapes(model.graph)
    nodes: list[Any] = []
    for node in model.graph.node:
        nodes += _sliced(model.graph, node, constants, shapes) or [node]
    count = (len(nodes) - len(model.graph.node)) if nodes else 0
    if count:
        del model.graph.node[:]
        model.graph.node.extend(nodes)
    return count


def _sliced(graph: Any, node: Any, constants: dict[str, Any], shapes: dict[str, list[int]]) -> list[Any] | None:
    from onnx import helper, numpy_helper

    if node.op_type != "Gather" or node.input[0] not in shapes or node.input[0] in constants:
        return None
    index = constants.get(node.input[1])
    if index is None or index.ndim:
        return None
    shape = shapes[node.input[0]]
    axis = next((a.i for a in node.attribute if a.name == "axis"), 0) % len(shape)
    low = int(index) + (shape[axis] if index < 0 else 0)
    if not 0 <= low < shape[axis]:
        return None
    rest = [extent for i, extent in enumerate(shape) if i != axis]
    names = []
    for part, values in (("low", [low]), ("high", [low + 1]), ("axis", [axis]), ("shape", rest)):
        names.append(f"{node.output[0]}/{part}")
        graph.initializer.append(numpy_helper.from_array(np.array(values, np.int64), names[-1]))
    piece = f"{node.output[0]}/slice"
    return [
        helper.make_node("Slice", [node.input[0], *names[:3]], [piece]),
        helper.make_node("Reshape", [piece, names[3]], [node.output[0]]),
    ]
