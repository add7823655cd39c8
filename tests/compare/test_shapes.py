from hypothesis import given
from hypothesis import strategies as st
from tvm import tirx

from tvm_vfuse.compare.shapes import bind_shape, element_bits, evaluate, evaluate_shape, num_bytes

N = tirx.Var("n", "int64")
M = tirx.Var("m", "int64")
BIG = st.integers(-(2**40), 2**40)


@given(BIG, BIG)
def test_integer_arithmetic_is_that_of_python_and_truncation_that_of_c(n, m):
    values = {N: n, M: m}
    assert evaluate(N * 3 + M - 7, values) == n * 3 + m - 7
    assert evaluate(tirx.min(N, M) + tirx.max(N, M), values) == n + m
    assert evaluate(tirx.floordiv(N, tirx.IntImm("int64", 5)), values) == n // 5
    assert evaluate(tirx.floormod(N, tirx.IntImm("int64", 5)), values) == n % 5
    quotient, rest = evaluate(tirx.truncdiv(N, 7 + 0 * M), values), evaluate(tirx.truncmod(N, 7 + 0 * M), values)
    assert quotient == (abs(n) // 7) * (-1 if n < 0 else 1)
    assert quotient * 7 + rest == n


def test_a_choice_takes_the_side_that_its_condition_says():
    expr = tirx.if_then_else(N > 3, N * 2, N + 100)
    assert evaluate(expr, {N: 4}) == 8
    assert evaluate(expr, {N: 3}) == 103
    assert evaluate(tirx.Select(N > 3, N * 2, N + 100), {N: 3}) == 103


def test_what_has_no_value_is_none_and_not_an_error():
    assert evaluate(N + 1, {}) is None
    assert evaluate(N * M, {N: 3}) is None
    assert evaluate(tirx.floordiv(N, M), {N: 3, M: 0}) is None
    assert evaluate(tirx.FloatImm("float32", 1.5), {}) is None


def test_variables_that_stand_alone_are_bound_and_known_values_stay():
    bindings = {}
    bind_shape([N, N * 2, M], [4, 8, 5], bindings)
    assert bindings == {N: 4, M: 5}
    bind_shape([N], [9], bindings)
    assert bindings[N] == 4
    assert evaluate_shape([N * M, tirx.IntImm("int64", 7)], bindings) == (20, 7)


def test_bytes_follow_the_dtype():
    expected = {"float32": 4, "float16": 2, "bfloat16": 2, "int8": 1, "bool": 1, "float64": 8, "float8_e4m3fn": 1}
    from tvm.ir import PrimType

    for name, size in expected.items():
        assert num_bytes((3, 5), element_bits(PrimType(name))) == 15 * size
    assert num_bytes((3, 5), element_bits(PrimType("int4"))) == 8  # 60 bits
    assert num_bytes((3,), element_bits(PrimType("float32x4"))) == 48
    assert num_bytes((), 32) == 4
    assert num_bytes((0, 5), 32) == 0
    assert num_bytes((3, None), 32) is None
