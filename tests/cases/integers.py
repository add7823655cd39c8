"""Integers and truth values: wrap-around, division of negatives, width, folding of comparisons."""

from __future__ import annotations

import numpy as np
import tvm
from tvm.script import tirx as T

from tests.cases.case import Case
from tests.cases.modules import const, dataflow, tensor, uniform


@T.prim_func(private=True, s_tir=True)
def steep_ramp(X: T.Buffer((9,), "int64"), Y: T.Buffer((9,), "int64")):
    T.func_attr({"tirx.noalias": True})
    for i in range(9):
        with T.sblock("steep_ramp"):
            vi = T.axis.spatial(9, i)
            Y[vi] = X[vi] + T.Cast("int64", vi) * T.int64(1500000000)


def division_put_together_again() -> tvm.IRModule:
    def body(g, x, y):
        quotient, rest = g.floor_divide(x, y), g.floor_mod(x, y)
        return [quotient, rest, g.add(g.multiply(quotient, y), rest)]

    return dataflow({"x": tensor(9, dtype="int32"), "y": tensor(9, dtype="int32")}, body)


def guarded_division() -> tvm.IRModule:
    def body(g, x, divisor):
        quotient = g.floor_divide(x, g.maximum(divisor, const(1, "int64")))
        return g.add(quotient, const(3, "int64"))

    return dataflow({"x": tensor(8, dtype="int64"), "divisor": tensor(8, dtype="int64")}, body)


def bytes_that_wrap() -> tvm.IRModule:
    def body(g, x):
        total = g.add(x, x)
        return [g.astype(total, "int16"), g.astype(g.less(total, const(4, "uint8")), "int32")]

    return dataflow({"x": tensor(5, dtype="uint8")}, body)


def negated_bytes() -> tvm.IRModule:
    def body(g, x, y):
        negative = g.subtract(const([0], "uint8"), x)
        return [g.less(negative, const(4, "uint8")), g.add(g.astype(negative, "float32"), y)]

    return dataflow({"x": tensor(4, dtype="uint8"), "y": tensor(4)}, body)


def products_beyond_32_bits() -> tvm.IRModule:
    def body(g, x):
        return g.subtract(g.kernel(steep_ramp, [x], tensor(9, dtype="int64")), const(1, "int64"))

    return dataflow({"x": tensor(9, dtype="int64")}, body)


def any_but_not_all() -> tvm.IRModule:
    def body(g, mask, y):
        small = g.astype(mask, "int8")
        some = g.astype(g.max(small, axis=1), "bool")
        every = g.astype(g.min(small, axis=1), "bool")
        return g.where(g.logical_and(some, g.logical_not(every)), y, g.negative(y))

    return dataflow({"mask": tensor(5, 7, dtype="bool"), "y": tensor(5)}, body)


def comparison_of_constants() -> tvm.IRModule:
    def body(g, x):
        chosen = g.less(const([1, 5, 2]), const([2, 4, 3]))
        return [g.where(chosen, g.multiply(x, const(2.0)), x), chosen]

    return dataflow({"x": tensor(3)}, body)


def exclusive_or_of_equals() -> tvm.IRModule:
    def body(g, x):
        first, second = (g.not_equal(x, const(0, "int32")) for _ in range(2))
        differs = g.astype(g.logical_xor(first, second), "float32")
        return g.atan2(differs, differs)

    return dataflow({"x": tensor(7, dtype="int32")}, body)


def _dividends() -> list[np.ndarray]:
    low, high = np.iinfo("int32").min, np.iinfo("int32").max
    return [
        np.array([7, -7, 7, -7, high, low, -1, 0, 24], "int32"),
        np.array([3, 3, -3, -3, 10, 10, 10, -4, 10], "int32"),
    ]


def _any_but_not_all(mask: np.ndarray, y: np.ndarray) -> list[np.ndarray]:
    return [np.where(mask.any(1) & ~mask.all(1), y, -y)]


CASES = [
    Case(
        name="floor_division_of_every_sign",
        source="apache/tvm#18684",
        what="quotient and remainder of negatives, up to the limits of int32, no longer add up to the dividend",
        build=division_put_together_again,
        inputs=_dividends,
        expect=lambda x, y: [x // y, x % y, x],
        bitwise=True,
    ),
    Case(
        name="divisor_guarded_by_its_producer",
        source="apache/tvm#20400",
        what="the maximum that keeps a divisor away from zero is simplified away or evaluated too late",
        build=guarded_division,
        inputs=lambda: [
            np.random.default_rng(5).integers(-50, 50, size=8),
            np.array([0, 1, -3, 5, 0, 2, 0, 7], "int64"),
        ],
        expect=lambda x, divisor: [x // np.maximum(divisor, 1) + 3],
        bitwise=True,
    ),
    Case(
        name="bytes_wrap_before_they_widen",
        source="pytorch/pytorch#105264",
        what="a sum of bytes is held in a wider register and loses its wrap at 256",
        build=bytes_that_wrap,
        inputs=lambda: [np.array([128, 200, 255, 0, 127], "uint8")],
        expect=lambda x: [(x + x).astype("int16"), (x + x < 4).astype("int32")],
        bitwise=True,
    ),
    Case(
        name="negated_bytes_wrap_before_they_are_compared",
        source="pytorch/pytorch#93829",
        what="the negative of a byte (6 gives 250) is compared or converted as a signed number",
        build=negated_bytes,
        inputs=lambda: [np.array([6, 0, 7, 255], "uint8"), uniform(9, 4)],
        expect=lambda x, y: [-x < 4, (-x).astype("float32") + y],
        bitwise=True,
    ),
    Case(
        name="products_beyond_32_bits",
        source="pytorch/pytorch#183901",
        what="narrowing of index arithmetic reaches data that were computed from a loop index",
        build=products_beyond_32_bits,
        inputs=lambda: [np.zeros(9, "int64")],
        expect=lambda x: [x + np.arange(9) * 1_500_000_000 - 1],
        bitwise=True,
        isolated=True,
    ),
    Case(
        name="any_but_not_all_through_int8",
        source="apache/tvm#19415",
        what="truth values reduced as small integers are cast on both sides and combined by logic",
        build=any_but_not_all,
        inputs=lambda: [np.random.default_rng(6).integers(0, 2, size=(5, 7)).astype("bool"), uniform(7, 5)],
        expect=_any_but_not_all,
    ),
    Case(
        name="folded_comparison_stays_a_truth_value",
        source="apache/tvm#20282",
        what="a comparison of constants folds into a number and no longer fits the result it is returned as",
        build=comparison_of_constants,
        inputs=lambda: [uniform(8, 3)],
        expect=lambda x: [x * np.array([2, 1, 2], "float32"), np.array([True, False, True])],
        bitwise=True,
    ),
    Case(
        name="exclusive_or_of_equal_comparisons",
        source="openxla/xla#44705",
        what="two equal comparisons give zeros, whose angle is zero; folding makes it NaN",
        build=exclusive_or_of_equals,
        inputs=lambda: [np.arange(-2, 5, dtype="int32")],
        expect=lambda x: [np.zeros(7, "float32")],
        bitwise=True,
    ),
]
