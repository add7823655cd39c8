"""Unroll ONNX ``LSTM`` nodes into matmuls and gates: TVM 0.27's importer has no recurrent operator.

Source: the operator's definition, https://onnx.ai/onnx/operators/onnx__LSTM.html (gate order i, o, f, c).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvm_vfuse.frontend.onnx_constants import constants_of, static_shapes

MAX_STEPS = 64
"""Longest sequence that is unrolled; each step adds about 20 nodes."""


@dataclass
class _Lstm:
    """One LSTM node, its attributes and constant weights read."""

    name: str
    inputs: list[str]
    outputs: list[str]
    hidden: int
    reverse: tuple[bool, ...]
    weights: list[np.ndarray]
    steps: int
    batch: int


def lower_recurrent(graph: Any) -> int:
    """Replace each LSTM that can be unrolled; others stay, for the importer to refuse by name.

    An LSTM is unrolled where its sequence length (up to `MAX_STEPS`) and batch are known, its weights are constants,
    its activations are the default ones, and it has no peepholes, sequence lengths, clipping or coupled gates.

    Parameters
    ----------
    graph : onnx.GraphProto
        Changed in place; shapes must have been inferred.

    Returns
    -------
    int
        How many were replaced.
    """
    constants, shapes = constants_of(graph), static_shapes(graph)
    nodes: list[Any] = []
    lowered = 0
    for node in graph.node:
        lstm = _read(node, constants, shapes) if node.op_type == "LSTM" else None
        if lstm is None:
            nodes.append(node)
        else:
            nodes += _unroll(lstm, graph)
            lowered += 1
    if lowered:
        del graph.node[:]
        graph.node.extend(nodes)
    return lowered


def _read(node: Any, constants: dict[str, Any], shapes: dict[str, list[int]]) -> _Lstm | None:
    from onnx import helper

    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    inputs = [*node.input, *([""] * (8 - len(node.input)))]
    plain = {"hidden_size", "direction", "layout", "input_forget"}
    if set(attributes) - plain or attributes.get("layout", 0) or attributes.get("input_forget", 0):
        return None
    if inputs[4] or inputs[7] or inputs[0] not in shapes or any(i and i not in constants for i in inputs[1:4]):
        return None
    steps, batch, _ = shapes[inputs[0]]
    if steps > MAX_STEPS:
        return None
    direction = attributes.get("direction", b"forward").decode()
    reverse = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}[direction]
    hidden = int(attributes["hidden_size"])
    weight, recurrent = constants[inputs[1]], constants[inputs[2]]
    bias = constants[inputs[3]] if inputs[3] else np.zeros((len(reverse), 8 * hidden), weight.dtype)
    return _Lstm(
        name=node.name or node.output[0],
        inputs=inputs,
        outputs=[*node.output, *([""] * (3 - len(node.output)))],
        hidden=hidden,
        reverse=reverse,
        weights=[weight, recurrent, bias],
        steps=steps,
        batch=batch,
    )


class _Emitter:
    """Makes nodes and constants under names that start with the LSTM's."""

    def __init__(self, graph: Any, prefix: str) -> None:
        self.nodes: list[Any] = []
        self._graph = graph
        self._prefix = prefix
        self._count = 0

    def _name(self) -> str:
        self._count += 1
        return f"{self._prefix}/unrolled_{self._count}"

    def constant(self, value: np.ndarray) -> str:
        from onnx import numpy_helper

        name = self._name()
        self._graph.initializer.append(numpy_helper.from_array(value, name))
        return name

    def op(self, kind: str, *inputs: str, to: str = "", **attributes: Any) -> str:
        from onnx import helper

        output = to or self._name()
        self.nodes.append(helper.make_node(kind, list(inputs), [output], **attributes))
        return output

    def reshape(self, x: str, *shape: int, to: str = "") -> str:
        return self.op("Reshape", x, self.constant(np.array(shape, np.int64)), to=to)

    def pick(self, x: str, index: int) -> str:
        return self.op("Gather", x, self.constant(np.array(index, np.int64)), axis=0)

    def columns(self, x: str, low: int, high: int) -> str:
        return self.op("Slice", x, *(self.constant(np.array([value], np.int64)) for value in (low, high, 1)))


def _unroll(lstm: _Lstm, graph: Any) -> list[Any]:
    emit = _Emitter(graph, lstm.name)
    ends: list[tuple[list[str], str, str]] = []
    for direction, reverse in enumerate(lstm.reverse):
        state = [_initial(emit, lstm, source, direction) for source in lstm.inputs[5:7]]
        order = range(lstm.steps)[::-1] if reverse else range(lstm.steps)
        hidden = _direction(emit, lstm, direction, order, state)
        ends.append((hidden[::-1] if reverse else hidden, state[0], state[1]))
    _results(emit, lstm, ends)
    return emit.nodes


def _initial(emit: _Emitter, lstm: _Lstm, source: str, direction: int) -> str:
    if source:
        return emit.pick(source, direction)
    return emit.constant(np.zeros((lstm.batch, lstm.hidden), lstm.weights[0].dtype))


def _direction(emit: _Emitter, lstm: _Lstm, direction: int, order: Iterable[int], state: list[str]) -> list[str]:
    """Run one direction over the steps in `order`; `state` (h, c) is updated to the last; returns every h."""
    weight, recurrent, bias = (w[direction] for w in lstm.weights)
    size = lstm.hidden
    turn = emit.constant(np.ascontiguousarray(recurrent.T))
    shift = emit.constant(bias[: 4 * size] + bias[4 * size :])
    drive = emit.op("MatMul", lstm.inputs[0], emit.constant(np.ascontiguousarray(weight.T)))
    drive = emit.op("Add", drive, shift)
    outputs = []
    for step in order:
        gates = emit.op("Add", emit.pick(drive, step), emit.op("MatMul", state[0], turn))
        enter, leave, forget, candidate = (emit.columns(gates, i * size, (i + 1) * size) for i in range(4))
        kept = emit.op("Mul", emit.op("Sigmoid", forget), state[1])
        fresh = emit.op("Mul", emit.op("Sigmoid", enter), emit.op("Tanh", candidate))
        state[1] = emit.op("Add", kept, fresh)
        state[0] = emit.op("Mul", emit.op("Sigmoid", leave), emit.op("Tanh", state[1]))
        outputs.append(state[0])
    return outputs


def _results(emit: _Emitter, lstm: _Lstm, ends: list[tuple[list[str], str, str]]) -> None:
    """Y [steps, directions, batch, hidden]; Y_h and Y_c [directions, batch, hidden]."""
    every, last_hidden, last_cell = lstm.outputs
    single = (1, lstm.batch, lstm.hidden)
    if every:
        rows = [emit.reshape(hidden[step], *single) for step in range(lstm.steps) for hidden, _, _ in ends]
        joined = emit.op("Concat", *rows, axis=0)
        emit.reshape(joined, lstm.steps, len(ends), lstm.batch, lstm.hidden, to=every)
    for target, finals in ((last_hidden, [e[1] for e in ends]), (last_cell, [e[2] for e in ends])):
        if target:
            emit.op("Concat", *(emit.reshape(final, *single) for final in finals), to=target, axis=0)
