"""Tuples: fields taken apart, results that appear twice, results that are inputs."""

from __future__ import annotations

import numpy as np
import tvm
from tvm import relax

from tests.cases.case import Case
from tests.cases.modules import const, dataflow, tensor, uniform


def field_of_a_field() -> tvm.IRModule:
    def body(g, p, q):
        pair = g.builder.emit(relax.Tuple([p, q]))
        outer = g.builder.emit(relax.Tuple([pair, p]))
        picked, _ = g.fields(outer)
        return g.fields(picked)[1]

    return dataflow({"p": tensor(3, 5), "q": tensor(3, 5)}, body)


def three_way_split() -> tvm.IRModule:
    def body(g, x):
        left, middle, right = g.fields(g.split(x, 3, axis=1))
        return [g.exp(left), g.tanh(middle), g.add(g.abs(right), const(1.0))]

    return dataflow({"x": tensor(2, 9)}, body)


def result_twice_and_its_producer() -> tvm.IRModule:
    def body(g, x):
        log = g.log(x)
        scaled = g.multiply(log, const(3.0))
        return [scaled, scaled, log]

    return dataflow({"x": tensor(4, 7)}, body)


def inputs_among_the_results() -> tvm.IRModule:
    def body(g, x, y):
        return [x, g.relu(g.add(x, y)), y, x]

    return dataflow({"x": tensor(5, 4), "y": tensor(5, 4)}, body)


def two_triangles() -> tvm.IRModule:
    def body(g, x):
        y = g.add(g.multiply(x, const(2.0)), const(1.0))
        return [g.tril(y), g.triu(y, 1)]

    return dataflow({"x": tensor(6, 6)}, body)


CASES = [
    Case(
        name="field_of_a_field_of_a_tuple",
        source="apache/tvm#20194",
        what="a dataflow block without any operator, only a tensor picked out of nested tuples, makes an empty group",
        build=field_of_a_field,
        inputs=lambda: [uniform(1, 3, 5), uniform(2, 3, 5)],
        expect=lambda p, q: [q],
        bitwise=True,
        isolated=True,
    ),
    Case(
        name="three_fields_go_three_ways",
        source="apache/tvm#3867",
        what="the fields of an operator with three outputs reach the wrong consumers",
        build=three_way_split,
        inputs=lambda: [uniform(5, 2, 9)],
        expect=lambda x: [np.exp(x[:, :3]), np.tanh(x[:, 3:6]), np.abs(x[:, 6:]) + np.float32(1)],
        bitwise=True,
    ),
    Case(
        name="one_result_returned_twice",
        source="apache/tvm#3039",
        what="a value that fills two places of the result, beside its own producer, is lost or written once",
        build=result_twice_and_its_producer,
        inputs=lambda: [uniform(7, 4, 7, low=0.1, high=3.0)],
        expect=lambda x: [np.log(x) * np.float32(3), np.log(x) * np.float32(3), np.log(x)],
        bitwise=True,
    ),
    Case(
        name="an_input_is_a_result",
        source="NVIDIA/Fuser#4367",
        what="inputs handed through unchanged beside a computed result are dropped or overwritten",
        build=inputs_among_the_results,
        inputs=lambda: [uniform(8, 5, 4), uniform(9, 5, 4)],
        expect=lambda x, y: [x, np.maximum(x + y, 0), y, x],
        bitwise=True,
    ),
    Case(
        name="both_triangles_of_one_producer",
        source="apache/tvm#18612",
        what="the second of two masked results takes the mask of the first",
        build=two_triangles,
        inputs=lambda: [uniform(11, 6, 6)],
        expect=lambda x: [np.tril(x * 2 + 1), np.triu(x * 2 + 1, k=1)],
        bitwise=True,
    ),
]
