"""Elementwise groups: one kernel, equal to the unfused operators bit for bit, for every dtype, rank and odd extent."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.ir import Var

from tests.cases.modules import const
from tests.pipeline.columns import LIBM, fused_column, unfused_column
from tests.schedule.equivalence import (
    assert_close,
    assert_one_kernel,
    assert_same_bits,
    check,
    check_sizes,
    draw,
    draws,
    graph,
    wide,
)
from tvm_vfuse.options import FusionOptions

ODD_SHAPES = [(), (1,), (7,), (1023,), (1, 1), (2, 33), (9, 31), (77, 8), (3, 1, 7), (2, 3, 4, 5), (2, 1, 3, 2, 9)]


def multiply_add(g, x, y, z):
    return g.relu(g.add(g.multiply(x, y), z))


@pytest.mark.parametrize("shape", ODD_SHAPES, ids=str)
def test_multiply_add_relu_is_not_contracted(shape, rng):
    mod = graph(multiply_add, shape, shape, shape)
    check(mod, draws(rng, shape, shape, shape), lambda x, y, z: np.maximum(x * y + z, 0), "elementwise", bitwise=True)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


@pytest.mark.parametrize("shape", [(5,), (33, 77), (1, 1023)], ids=str)
def test_transcendental_chains_and_several_outputs(shape, rng):
    def body(g, x, y):
        e = g.exp(x)
        t = g.tanh(g.add(e, y))
        return [e, g.multiply(t, g.sigmoid(y)), g.subtract(t, e)]

    def expected(x, y):
        t = np.tanh(np.exp(x) + y)
        return np.exp(x), t * sigmoid(y), t - np.exp(x)

    check(graph(body, shape, shape), draws(rng, shape, shape), expected, "elementwise", bitwise=True)


BROADCASTS = [
    ((7, 33), (33,), (7, 1)),
    ((1, 9), (31, 1), ()),
    ((3, 1, 8), (2, 1), (3, 2, 8)),
    ((2, 3, 4, 5), (3, 1, 1), (1, 1, 4, 5)),
    ((1,), (77, 1), (77, 3)),
    ((5, 1, 1, 1, 2), (1, 2, 3, 1, 1), (2,)),
]


@pytest.mark.parametrize("shapes", BROADCASTS, ids=str)
def test_broadcast_operands_are_read_at_their_own_size(shapes, rng):
    def body(g, x, y, z):
        return g.multiply(g.subtract(g.add(x, y), z), g.add(x, z))

    mod = graph(body, *shapes)
    column = check(mod, draws(rng, *shapes), lambda x, y, z: (x + y - z) * (x + z), "elementwise", bitwise=True)
    boundary, _, _ = column.traffic(draws(rng, *shapes))
    out = np.broadcast_shapes(*shapes)
    assert boundary == 4 * sum(int(np.prod(s)) for s in (*shapes, out))


# --------------------------------------------------------------------------------------------------------------- dtypes
@pytest.mark.parametrize("dtype", ["float16", "float64", "bfloat16"])
@pytest.mark.parametrize("shape", [(9, 31), (1023,)], ids=str)
def test_each_float_keeps_its_own_rounding(dtype, shape, rng):
    def body(g, x, y):
        return g.add(g.multiply(g.add(g.multiply(x, y), x), y), g.divide(x, g.add(g.abs(y), const(1, dtype))))

    def expected(x, y):
        return (x * y + x) * y + x / (np.abs(y) + 1)

    mod = graph(body, shape, shape, dtype=dtype)
    check(mod, draws(rng, shape, shape, dtype=dtype), expected, "elementwise", bitwise=True)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_math_of_narrow_floats_is_rounded_to_them(dtype, rng):
    mod = graph(lambda g, x: g.add(g.exp(x), g.tanh(x)), (33, 8), dtype=dtype)
    check(mod, draws(rng, (33, 8), dtype=dtype), lambda x: np.exp(x) + np.tanh(x), "elementwise", bitwise=True)


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8"])
def test_integers_wrap_and_divide_alike(dtype, rng):
    def body(g, x, y):
        one = const(1, dtype)
        low = g.minimum(g.multiply(x, x), g.add(y, x))
        quotient = g.floor_divide(x, g.add(g.maximum(y, one), one))
        return [g.subtract(low, quotient), g.maximum(quotient, y)]

    def expected(x, y):
        one = np.array(1, x.dtype)
        quotient = x // (np.maximum(y, one) + one)
        return np.minimum(x * x, y + x) - quotient, np.maximum(quotient, y)

    inputs = draws(rng, (9, 31), (31,), dtype=dtype)
    check(graph(body, (9, 31), (31,), dtype=dtype), inputs, expected, "elementwise", bitwise=True)


def test_truth_values_and_comparisons(rng):
    def body(g, x, y, flag):
        both = g.logical_and(g.greater(x, y), flag)
        either = g.logical_or(both, g.logical_not(g.less_equal(x, y)))
        return [both, either, g.where(either, x, y), g.astype(both, "float32")]

    def expected(x, y, flag):
        both = (x > y) & flag
        either = both | ~(x <= y)
        return both, either, np.where(either, x, y), both.astype("float64")

    shapes, dtypes = [(7, 33), (33,), (7, 1)], ["float32", "float32", "bool"]
    inputs = draws(rng, *shapes, dtype=dtypes)
    check(graph(body, *shapes, dtype=dtypes), inputs, expected, "elementwise", bitwise=True)


CASTS = """
float32 int32 int8
int64 float32 float16
uint8 int32 float64
float64 float32 bool
float32 bfloat16 float32
bool int8 float32
float32 float16 float32
""".strip().splitlines()


@pytest.mark.parametrize("chain", CASTS)
def test_casts_round_at_each_step(chain, rng):
    start, middle, end = chain.split()
    mod = graph(lambda g, x: g.astype(g.astype(x, middle), end), (31, 9), dtype=start)
    inputs = draws(rng, (31, 9), dtype=start)
    got = fused_column(mod, LIBM)
    assert_one_kernel(got, inputs, "elementwise")
    assert_same_bits(got.run(inputs), unfused_column(mod).run(inputs))


# ------------------------------------------------------------------------------------------------------- special values
SPECIAL = np.array(
    [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, -1e-40, 3.4e38, -3.4e38, 1.0, -1.0, 88.8, -104.0], "float32"
)
SPECIAL_BODIES = {
    "x - x": lambda g, x, y: g.subtract(g.add(x, y), g.add(x, y)),
    "x / x": lambda g, x, y: g.divide(g.multiply(x, y), g.multiply(x, y)),
    "x * 0": lambda g, x, y: g.add(g.multiply(x, const(0.0)), y),
    "x == x": lambda g, x, y: g.where(g.equal(g.add(x, y), g.add(x, y)), x, y),
    "x != x": lambda g, x, y: g.where(g.not_equal(x, x), y, g.negative(x)),
    "maximum": lambda g, x, y: g.maximum(g.minimum(g.negative(x), y), x),
    "clip": lambda g, x, y: g.clip(g.multiply(x, y), -1.0, 2.0),
    "overflow": lambda g, x, y: g.subtract(g.multiply(g.multiply(x, x), y), g.exp(g.abs(x))),
    "narrow": lambda g, x, y: g.astype(g.astype(g.add(x, y), "float16"), "float32"),
    "exp of exp": lambda g, x, y: g.add(g.exp(g.exp(x)), g.tanh(y)),
}


@pytest.mark.parametrize("name", SPECIAL_BODIES)
def test_nan_infinities_zeros_and_denormals_pass_as_they_do_unfused(name):
    x, y = (np.ascontiguousarray(a) for a in np.meshgrid(SPECIAL, SPECIAL))
    mod = graph(SPECIAL_BODIES[name], x.shape, y.shape)
    column = fused_column(mod, LIBM)
    assert_one_kernel(column, [x, y], "elementwise")
    assert_same_bits(column.run([x, y]), unfused_column(mod).run([x, y]))


@pytest.mark.parametrize("name", ["overflow", "exp of exp"])
def test_nan_and_infinities_are_where_numpy_has_them(name):
    x, y = (np.ascontiguousarray(a) for a in np.meshgrid(SPECIAL, SPECIAL))
    numpy_bodies = {
        "overflow": lambda x, y: x * x * y - np.exp(np.abs(x)),
        "exp of exp": lambda x, y: np.exp(np.exp(x)) + np.tanh(y),
    }
    (got,) = fused_column(graph(SPECIAL_BODIES[name], x.shape, y.shape)).run([x, y])
    with np.errstate(all="ignore"):
        expected = numpy_bodies[name](x, y)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(expected))
    np.testing.assert_array_equal(np.isposinf(got), np.isposinf(expected))
    np.testing.assert_array_equal(np.isneginf(got), np.isneginf(expected))


# ------------------------------------------------------------------------------------------------------------- symbolic
SIZES = [1, 2, 3, 7, 8, 9, 31, 33, 77, 1023]


@pytest.mark.parametrize("fixed", ["columns", "rows", "neither"])
def test_symbolic_extents_take_every_size(fixed, rng):
    n, m = Var("n", "int64"), Var("m", "int64")
    rows, columns = (n if fixed != "rows" else 5), (m if fixed != "columns" else 33)
    mod = graph(lambda g, x, y: g.tanh(g.add(g.multiply(x, y), x)), (rows, columns), (columns,))
    pairs = {
        "columns": [(s, 33) for s in SIZES],
        "rows": [(5, s) for s in SIZES],
        "neither": [(1, 1), (7, 77), (9, 31)],
    }
    inputs = [draws(rng, (r, c), (c,)) for r, c in pairs[fixed]]
    check_sizes(mod, inputs, lambda x, y: np.tanh(x * y + x), "elementwise")


def test_a_symbolic_extent_that_is_zero_leaves_an_empty_result(rng):
    n = Var("n", "int64")
    mod = graph(lambda g, x: g.relu(g.add(x, x)), (n, 33))
    (got,) = fused_column(mod).run([draw(rng, (0, 33))])
    assert got.shape == (0, 33)


def test_symbols_in_arithmetic(rng):
    """Concatenating a tensor with itself has 2 n rows."""
    n = Var("n", "int64")
    mod = graph(lambda g, x: g.exp(g.concat([g.relu(x), x], axis=0)), (n, 9))
    check_sizes(
        mod,
        [draws(rng, (s, 9)) for s in (1, 7, 33)],
        lambda x: np.exp(np.concatenate([np.maximum(x, 0), x])),
        "elementwise",
    )


# -------------------------------------------------------------------------------------------------------------- options
def test_fast_numerics_stay_within_the_tolerance(rng):
    mod = graph(multiply_add, (33, 77), (77,), (33, 1))
    inputs = draws(rng, (33, 77), (77,), (33, 1))
    x, y, z = wide(inputs)
    assert_close(fused_column(mod, FusionOptions(numerics="fast")).run(inputs), [np.maximum(x * y + z, 0)])


def test_exact_numerics_keep_a_product_apart_where_fast_ones_contract_it():
    """x * x - round(x * x) is 0 exactly; contracted it is the product's rounding error."""
    x = np.linspace(1.0, 2.0, 4096, dtype="float32")
    mod = graph(lambda g, x, y: g.subtract(g.multiply(x, x), y), x.shape, x.shape)
    (exact,) = fused_column(mod).run([x, x * x])
    assert not exact.any()


def test_the_module_of_a_chain_has_no_other_function():
    mod = graph(multiply_add, (8, 8), (8, 8), (8, 8))
    functions = fused_column(mod).mod.functions
    assert sum(isinstance(f, tvm.tirx.PrimFunc) for f in functions.values()) == 1
    assert sum(isinstance(f, relax.Function) for f in functions.values()) == 1
