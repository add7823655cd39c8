"""Floating point: rounding at every step, NaN, infinities, the sign of zero."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import tvm

from tests.cases.case import BFLOAT, EXACT, Case
from tests.cases.modules import const, dataflow, tensor, uniform


def through_half() -> tvm.IRModule:
    def body(g, x):
        rounded = g.astype(g.astype(x, "float16"), "float32")
        return [rounded, g.subtract(rounded, x)]

    return dataflow({"x": tensor(4, 6)}, body)


def narrow_multiply_add(dtype: str) -> tvm.IRModule:
    def body(g, x, y, z):
        return g.astype(g.add(g.multiply(x, y), z), "float32")

    return dataflow({name: tensor(32, dtype=dtype) for name in "xyz"}, body)


def guard_against_nan() -> tvm.IRModule:
    def body(g, x):
        return g.multiply(g.where(g.isnan(x), x, g.relu(x)), const(2.0))

    return dataflow({"x": tensor(7)}, body)


def equal_producers() -> tvm.IRModule:
    def body(g, x):
        first, second = g.exp(x), g.exp(x)
        differs = g.astype(g.logical_not(g.equal(first, second)), "int32")
        return [differs, g.subtract(first, second)]

    return dataflow({"x": tensor(5)}, body)


def signs_of_zero() -> tvm.IRModule:
    def body(g, x, y):
        product = g.multiply(x, y)
        total = g.add(g.add(product, g.multiply(x, g.subtract(y, y))), y)
        return [g.negative(x), product, g.abs(x), g.divide(const(1.0), total)]

    return dataflow({"x": tensor(4), "y": tensor(4)}, body)


def rounding_of_halves() -> tvm.IRModule:
    def body(g, x):
        return [g.astype(g.clip(g.round(x), 0, 255), "uint8"), g.add(g.ceil(x), g.floor(x))]

    return dataflow({"x": tensor(9)}, body)


def _signs_of_zero(x: np.ndarray, y: np.ndarray) -> list[np.ndarray]:
    with np.errstate(divide="ignore"):
        return [-x, x * y, np.abs(x), 1 / (x * y + x * (y - y) + y)]


CASES = [
    Case(
        name="half_rounding_is_kept",
        source="pytorch/pytorch#185337",
        what="a round trip through float16 is dropped because both ends are float32",
        build=through_half,
        inputs=lambda: [np.arange(24, dtype="float32").reshape(4, 6) / 7],
        expect=lambda x: [x.astype("float16").astype("float32"), x.astype("float16").astype("float32") - x],
        tolerance=EXACT,
        bitwise=True,
    ),
    Case(
        name="bfloat_product_and_sum",
        source="modular/modular#6159",
        what="product and sum of bfloat16 are kept in float32 between the two operators",
        build=lambda: narrow_multiply_add("bfloat16"),
        inputs=lambda: [uniform(seed, 32).astype(ml_dtypes.bfloat16) for seed in (10, 11, 12)],
        expect=lambda x, y, z: [(x * y + z).astype("float32")],
        tolerance=BFLOAT,
        bitwise=True,
    ),
    Case(
        name="half_product_and_sum",
        source="variant of modular/modular#6159",
        what="product and sum of float16 contract into one operation with one rounding",
        build=lambda: narrow_multiply_add("float16"),
        inputs=lambda: [uniform(seed, 32, dtype="float16") for seed in (10, 11, 12)],
        expect=lambda x, y, z: [(x * y + z).astype("float32")],
        tolerance=EXACT,
        bitwise=True,
    ),
    Case(
        name="guard_against_nan_is_kept",
        source="apache/tvm#19579",
        what="a choice between x and relu(x) on isnan(x) is simplified into relu, which drops the NaN",
        build=guard_against_nan,
        inputs=lambda: [np.array([np.nan, -1, 2, np.nan, -np.inf, np.inf, 0], "float32")],
        expect=lambda x: [np.where(np.isnan(x), x, np.maximum(x, 0)) * np.float32(2)],
        bitwise=True,
    ),
    Case(
        name="equal_producers_are_not_equal_for_nan",
        source="variant of openxla/xla#44705",
        what="once two equal producers are inlined, e == e becomes true and e - e becomes zero, NaN or not",
        build=equal_producers,
        inputs=lambda: [np.array([np.nan, 1, -np.inf, 800, -0.0], "float32")],
        expect=lambda x: [np.array([1, 0, 0, 0, 0], "int32"), np.array([np.nan, 0, 0, np.nan, 0], "float32")],
        tolerance=EXACT,
        bitwise=True,
    ),
    Case(
        name="signs_of_zero_are_kept",
        source="pytorch/pytorch#196799",
        what="the sign of a zero product, difference or absolute value flips; one over it shows",
        build=signs_of_zero,
        inputs=lambda: [np.array([0.0, -0.0, 1, -1], "float32"), np.array([-1, 1, -0.0, -0.0], "float32")],
        expect=_signs_of_zero,
        compare_zero_signs=True,
        bitwise=True,
    ),
    Case(
        name="halves_round_to_even",
        source="pytorch/pytorch#179570",
        what="round, floor and ceil of exact halves, then a clip and a conversion to bytes",
        build=rounding_of_halves,
        inputs=lambda: [np.array([0.5, 1.5, 2.5, -0.5, -1.5, 3.49999, 254.5, 300, -9], "float32")],
        expect=lambda x: [np.clip(np.rint(x), 0, 255).astype("uint8"), np.ceil(x) + np.floor(x)],
        tolerance=EXACT,
        bitwise=True,
    ),
]
