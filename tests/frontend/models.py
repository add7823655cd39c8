"""Small ONNX models, made here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: dict[str, Sequence[int | str]],
    outputs: dict[str, Sequence[int | str]],
    weights: dict[str, np.ndarray] | None = None,
    kinds: dict[str, int] | None = None,
    opset: int = 17,
) -> onnx.ModelProto:
    """A model of float32 values, except those whose element type `kinds` gives."""
    kind = {**dict.fromkeys([*inputs, *outputs], TensorProto.FLOAT), **(kinds or {})}
    graph = helper.make_graph(
        list(nodes),
        "test",
        [helper.make_tensor_value_info(n, kind[n], list(s)) for n, s in inputs.items()],
        [helper.make_tensor_value_info(n, kind[n], list(s)) for n, s in outputs.items()],
        [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def relu_model(shape: Sequence[int | str] = (2, 3)) -> onnx.ModelProto:
    return model([helper.make_node("Relu", ["x"], ["y"])], {"x": shape}, {"y": shape})


def saved(made: onnx.ModelProto, folder: Path, name: str = "net.onnx") -> str:
    onnx.save(made, str(folder / name))
    return str(folder / name)


def onnxruntime_results(made: onnx.ModelProto | str, feed: dict[str, np.ndarray]) -> list[np.ndarray]:
    source = made if isinstance(made, str) else made.SerializeToString()
    return onnxruntime.InferenceSession(source, providers=["CPUExecutionProvider"]).run(None, feed)
