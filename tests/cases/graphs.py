"""The shape of the graph: deep, wide, full of diamonds, with side paths, shared constants and dead ends."""

from __future__ import annotations

import numpy as np
import tvm

from tests.cases.case import REORDERED, Case, Tolerance
from tests.cases.modules import const, dataflow, tensor, uniform

DEEP = Tolerance(1e-4, 1e-6)
WEIGHT = np.linspace(-1, 1, 35, dtype="float32").reshape(5, 7)


def long_chain() -> tvm.IRModule:
    def body(g, x):
        for _ in range(500):
            x = g.multiply(g.add(x, const(0.25)), const(0.75))
        return x

    return dataflow({"x": tensor(16)}, body)


def tower_of_diamonds() -> tvm.IRModule:
    def body(g, x):
        for _ in range(24):
            x = g.subtract(g.tanh(x), g.multiply(x, const(0.5)))
        return x

    return dataflow({"x": tensor(8, 8)}, body)


def wide_fan() -> tvm.IRModule:
    def body(g, x):
        source = g.exp(x)
        level = [g.multiply(source, const(k / 64)) for k in range(64)]
        while len(level) > 1:
            level = [g.add(left, right) for left, right in zip(level[::2], level[1::2], strict=True)]
        return [level[0], source]

    return dataflow({"x": tensor(4, 8)}, body)


def side_path() -> tvm.IRModule:
    def body(g, x, weight):
        source = g.exp(x)
        product = g.matmul(g.multiply(source, const(0.5)), weight)
        return g.multiply(g.relu(g.add(source, product)), source)

    return dataflow({"x": tensor(5, 5), "weight": tensor(5, 5)}, body)


def shared_constants() -> tvm.IRModule:
    weight = const(WEIGHT)

    def body(g, x):
        columns = g.sum(g.add(x, weight), axis=0)
        return [columns, g.add(g.relu(g.multiply(x, weight)), const(0.125))]

    return dataflow({"x": tensor(5, 7)}, body)


def decision_tree() -> tvm.IRModule:
    def body(g, x):
        features = g.fields(g.split(x, 6, axis=1))
        nodes = [const(float(leaf)) for leaf in range(64)]
        for feature in reversed(features):
            positive = g.greater(feature, const(0.0))
            nodes = [g.where(positive, right, left) for left, right in zip(nodes[::2], nodes[1::2], strict=True)]
        return nodes[0]

    return dataflow({"x": tensor(10, 6)}, body)


def dead_end() -> tvm.IRModule:
    def body(g, x):
        size = g.abs(x)
        g.sum(g.exp(size), axis=0)
        return g.sqrt(g.add(size, const(2.0)))

    return dataflow({"x": tensor(5, 4)}, body)


def _long_chain(x: np.ndarray) -> list[np.ndarray]:
    for _ in range(500):
        x = (x + np.float32(0.25)) * np.float32(0.75)
    return [x]


def _tower(x: np.ndarray) -> list[np.ndarray]:
    for _ in range(24):
        x = np.tanh(x) - x * np.float32(0.5)
    return [x]


def _side_path(x: np.ndarray, weight: np.ndarray) -> list[np.ndarray]:
    source = np.exp(x)
    return [np.maximum(source + (source * np.float32(0.5)) @ weight, 0) * source]


def _leaf_number(x: np.ndarray) -> list[np.ndarray]:
    bits = (x > 0).astype("float32")
    return [bits @ np.array([[32], [16], [8], [4], [2], [1]], "float32")]


CASES = [
    Case(
        name="chain_of_a_thousand",
        source="apache/tvm#5798",
        what="a thousand dependent operators overflow a stack or take minutes to compile",
        build=long_chain,
        inputs=lambda: [uniform(1, 16)],
        expect=_long_chain,
        tolerance=DEEP,
        bitwise=True,
    ),
    Case(
        name="tower_of_24_diamonds",
        source="apache/tvm#6327",
        what="inlining both arms of each diamond doubles the expression 24 times",
        build=tower_of_diamonds,
        inputs=lambda: [uniform(2, 8, 8)],
        expect=_tower,
        tolerance=DEEP,
        bitwise=True,
    ),
    Case(
        name="one_producer_of_64_consumers",
        source="apache/tvm#15358",
        what="a producer with many readers that is also a result is computed again for each of them, or dropped",
        build=wide_fan,
        inputs=lambda: [uniform(3, 4, 8)],
        expect=lambda x: [np.exp(x) * np.float32(sum(range(64)) / 64), np.exp(x)],
        tolerance=DEEP,
        bitwise=True,
    ),
    Case(
        name="side_path_through_a_matmul",
        source="apache/tvm#16175",
        what="a value reaches the last operator directly and through a matmul: joining both ends makes a cycle",
        build=side_path,
        inputs=lambda: [uniform(4, 5, 5), uniform(5, 5, 5)],
        expect=_side_path,
        tolerance=REORDERED,
    ),
    Case(
        name="constants_shared_by_two_groups",
        source="apache/tvm#6436",
        what="a constant that two kernels read, one of them a reduction, ends up in only one of them",
        build=shared_constants,
        inputs=lambda: [uniform(18, 5, 7)],
        expect=lambda x: [(x + WEIGHT).sum(0), np.maximum(x * WEIGHT, 0) + np.float32(0.125)],
        tolerance=REORDERED,
    ),
    Case(
        name="decision_tree_of_masks",
        source="microsoft/hummingbird#232",
        what="63 choices nested six deep over columns that broadcast",
        build=decision_tree,
        inputs=lambda: [uniform(20, 10, 6)],
        expect=_leaf_number,
        bitwise=True,
    ),
    Case(
        name="reduction_nobody_reads",
        source="apache/tvm#15807",
        what="a dead reduction between two live operators keeps them apart or is compiled without an output",
        build=dead_end,
        inputs=lambda: [uniform(24, 5, 4)],
        expect=lambda x: [np.sqrt(np.abs(x) + np.float32(2))],
        bitwise=True,
    ),
]
