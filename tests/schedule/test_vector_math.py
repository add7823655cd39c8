"""Vector math: within 2 ULP for every kind of float32 and every kind of target, in vector instructions only."""

from __future__ import annotations

import re

import numpy as np
import pytest
from tvm import tirx
from tvm.ir import Expr, TensorLoad
from tvm.script import tirx as T

from tests.schedule.vector_math_kernels import CHUNK, FUNCTIONS, compiled, errors, kernel, run, samples, targets
from tvm_vfuse.schedule.vector_math import EXPANDABLE, cost, expand

TARGETS = targets()
NATIVE = TARGETS["native"]
OP_NAMES = {name: f.call(tirx.Var("x", "float32")).op.name for name, f in FUNCTIONS.items()}


def fence(product: Expr) -> Expr:
    return T.call_llvm_pure_intrin("float32", "llvm.arithmetic.fence", product)


def expanded(name: str) -> list[Expr]:
    """Every expression of a function's form: the held ones, then the result."""
    parts: list[Expr] = []

    def hold(value: Expr) -> Expr:
        parts.append(value)
        return tirx.BufferLoad(tirx.decl_buffer((1,), str(value.ty), f"r{len(parts)}"), [0])

    result = expand(FUNCTIONS[name].call(tirx.BufferLoad(tirx.decl_buffer((1,), "float32", "A"), [0])), hold)
    return [*parts, result]


def operands(value: Expr) -> list[Expr]:
    if isinstance(value, tirx.Select):
        return [value.condition, value.true_value, value.false_value]
    if isinstance(value, tirx.Cast):
        return [value.value]
    if hasattr(value, "args"):
        return list(value.args)
    return [value.a, value.b] if hasattr(value, "a") else []


def is_leaf(value: Expr) -> bool:
    return isinstance(value, (TensorLoad, tirx.FloatImm, tirx.IntImm))


# ---------------------------------------------------------------------------------------------------------- results
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_result_is_within_2_ulp_and_nan_and_zero_signs_agree(name, target, rng):
    function = FUNCTIONS[name]
    x = samples(function, rng)
    with np.errstate(all="ignore"):
        exact = function.reference(x.astype("float64"))
    found = errors(run(kernel(function.call, x.size), TARGETS[target], x), exact)
    assert found.max_ulp <= function.max_ulp < 2
    assert found.max_steps <= 2
    assert found.wrong_nan == 0
    assert found.wrong_zero_sign == 0


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_special_values_are_exact(name, target):
    pairs = [*FUNCTIONS[name].exact, (float("nan"), float("nan"))]
    x, expected = (np.array(column, "float32") for column in zip(*pairs, strict=True))
    got = run(kernel(FUNCTIONS[name].call, CHUNK), TARGETS[target], np.resize(x, CHUNK))[: x.size]
    np.testing.assert_array_equal(got, expected)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(got[numbers]), np.signbit(expected[numbers]))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_one_lane_gives_the_same_bits_as_sixteen(name, rng):
    x = rng.normal(0, 4, CHUNK).astype("float32")
    wide, narrow = (run(kernel(FUNCTIONS[name].call, CHUNK, lanes=lanes), NATIVE, x) for lanes in (16, 1))
    np.testing.assert_array_equal(wide.view("uint32"), narrow.view("uint32"))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", ["exp", "sigmoid", "tanh", "erf", "log", "sin"])
def test_a_narrow_type_is_computed_in_float32_and_rounded_once(name, dtype):
    function = FUNCTIONS[name]
    x = np.arange(2**16, dtype="uint16").view(dtype).astype("float32")
    got = run(kernel(function.call, x.size, dtype=dtype), NATIVE, x)
    with np.errstate(over="ignore"):
        rounded = run(kernel(function.call, x.size), NATIVE, x).astype(dtype)
    np.testing.assert_array_equal(got.astype("float32"), rounded.astype("float32"))


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("target", TARGETS)
def test_a_fenced_result_does_not_depend_on_the_addition_that_follows(name, target, rng):
    x = rng.uniform(-3, 3, CHUNK).astype("float32")
    call = FUNCTIONS[name].call
    alone = run(kernel(call, CHUNK, fence=fence), TARGETS[target], x)
    added = run(kernel(call, CHUNK, fence=fence, then=lambda v: v + tirx.const(0.1, "float32")), TARGETS[target], x)
    np.testing.assert_array_equal(added, alone + np.float32(0.1))


# ------------------------------------------------------------------------------------------------------------- code
@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_kernel_has_vector_operations_and_calls_no_library(name):
    module = compiled(kernel(FUNCTIONS[name].call, CHUNK), TARGETS.get("haswell", NATIVE)).mod
    (loop,) = [
        body for body in module.inspect_source("ll").split("\ndefine ") if "@main_compute_(" in body.split("\n")[0]
    ]
    loop = loop.split("\n}")[0]
    called = set(re.findall(r"call [^@\n]*@([\w.]+)\(", loop))
    vector_operation = r"llvm\.(fmuladd|fabs|smin)\.v16(f32|f64|i32)"
    assert not {c for c in called if not re.fullmatch(rf"llvm\.assume|llvm\.lifetime.*|{vector_operation}", c)}
    assert re.search(r"= (tail call|fmul|fadd) .*<16 x float>", loop)
    assert not re.search(r"(extract|insert)element <16 x (float|i32|double)> %", loop)
    libm = r"\b(exp2?f?|tanhf?|erff?|log1?p?f?|sinf?|cosf?|powf?)(@PLT)?$"
    assert not re.search(libm, module.inspect_source("s"), re.MULTILINE)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_expression_nests_deeply_and_nothing_is_evaluated_twice(name):
    def depth(value: Expr) -> int:
        return 0 if is_leaf(value) else 1 + max(map(depth, operands(value)))

    def text_of_operations(value: Expr) -> list[str]:
        if is_leaf(value):
            return []
        own = [str(value)] if isinstance(value, (tirx.Add, tirx.Sub, tirx.Mul, tirx.Div)) else []
        return own + [text for part in operands(value) for text in text_of_operations(part)]

    parts = expanded(name)
    assert max(map(depth, parts)) < 20
    texts = [text for part in parts for text in text_of_operations(part)]
    assert len(texts) == len(set(texts))


# ------------------------------------------------------------------------------------------------ what is expanded
def test_every_expandable_operator_is_tested():
    assert set(OP_NAMES.values()) == EXPANDABLE


@pytest.mark.parametrize(
    "call",
    [
        tirx.exp(tirx.Var("x", "float64")),
        tirx.tanh(tirx.Var("x", "float32x4")),
        tirx.atan(tirx.Var("x", "float32")),
        tirx.sqrt(tirx.Var("x", "float32")),
        tirx.pow(tirx.Var("x", "float32"), tirx.Var("y", "float32")),
        tirx.pow(tirx.Var("x", "float32"), tirx.const(2.5, "float32")),
    ],
    ids=str,
)
def test_a_call_without_a_form_stays_as_it_is(call):
    def hold(value: Expr) -> Expr:
        raise AssertionError(f"held {value}")

    assert expand(call, hold) is None


def test_an_argument_that_is_no_load_is_held_first():
    x = tirx.Var("x", "float32")
    held: list[Expr] = []

    def hold(value: Expr) -> Expr:
        held.append(value)
        return tirx.Var(f"r{len(held)}", str(value.ty))

    expand(tirx.tanh(x + tirx.const(1.0, "float32")), hold)
    assert str(held[0]) == "x + T.float32(1.0)"


# ------------------------------------------------------------------------------------------------------------- cost
@pytest.mark.parametrize("name", [n for n in FUNCTIONS if n not in ("square", "cube")])
def test_the_cost_is_the_number_of_operations(name):
    def operations(value: Expr) -> float:
        if is_leaf(value):
            return 0
        own = 5 if isinstance(value, tirx.Div) else 0 if "reinterpret" in str(getattr(value, "op", "")) else 1
        wide = 2 if str(value.ty) == "float64" and not isinstance(value, tirx.Cast) else 1
        return own * wide + sum(map(operations, operands(value)))

    assert cost(OP_NAMES[name]) == pytest.approx(sum(map(operations, expanded(name))), rel=0.1)


def test_a_library_call_costs_many_times_a_vector_form_and_an_instruction_costs_less_than_either():
    assert cost("tirx.floor") < cost("tirx.sqrt") < min(cost(op) for op in EXPANDABLE - {"tirx.pow"})
    assert 5 * max(cost(op) for op in EXPANDABLE) < cost("tirx.atan")
