import numpy as np
import pytest
from tvm import relax

from tests.compare.modules import bits_kernel, call, module, normal, tensor
from tvm_vfuse import pipeline
from tvm_vfuse.compare.error import max_error, tolerance
from tvm_vfuse.compare.reference import Referee, evaluate_float64
from tvm_vfuse.device import host_target
from tvm_vfuse.workloads import templates

op = relax.op
X = normal((8, 16))(0)
LIMIT = tolerance(["float32"])


def referee(mod, inputs, unfused, limit=LIMIT):
    return Referee(mod, inputs, lambda: unfused, limit)


def exponential():
    return module([tensor("x", (8, 16))], lambda emit, x: emit(op.exp(x)))


def never():
    raise AssertionError("the unfused outputs are not needed")


def test_rounding_is_right_and_unfused_is_not_asked():
    judge = Referee(exponential(), X, never, LIMIT)
    verdict = judge.judge([np.exp(X[0])])
    assert not verdict.wrong
    assert 0 < verdict.max_error < 1e-6
    assert verdict.reference == "float64"


def test_a_value_off_by_more_than_rounding_is_wrong():
    good = np.exp(X[0])
    bad = good.copy()
    bad[3, 5] *= 1.01
    verdict = referee(exponential(), X, [good]).judge([bad])
    assert verdict.wrong
    assert verdict.max_error > LIMIT
    assert verdict.reference == "float64"


def test_a_missing_output_is_wrong():
    verdict = referee(exponential(), X, [np.exp(X[0])]).judge([])
    assert verdict.wrong
    assert verdict.max_error == np.inf


def overflow_module():
    """Overflows in float16, then divides: infinity there, a number in float64."""
    x = tensor("x", (4,), "float16")
    big = relax.const(np.float16(30000))
    return module([x], lambda emit, x: emit(op.divide(emit(op.multiply(x, big)), big)))


def test_where_unfused_overflows_its_dtype_it_is_the_reference_and_that_is_said():
    x = np.array([1, 2, 3, 0.5], "float16")
    with np.errstate(over="ignore"):
        unfused = (x * np.float16(30000)) / np.float16(30000)
    judge = referee(overflow_module(), [x], [unfused], tolerance(["float16"]))
    verdict = judge.judge([unfused.copy()])
    assert (verdict.wrong, verdict.max_error, verdict.reference) == (False, 0.0, "unfused")
    assert "unfused is inf from float64" in verdict.notes[0]
    assert judge.judge([np.array([5, np.inf, np.inf, 0.5], "float16")]).wrong


def test_a_column_no_further_from_float64_than_unfused_is_right():
    good = np.exp(X[0].astype("float64"))
    unfused = (good * (1 + 3 * LIMIT)).astype("float32")
    better = (good * (1 + 2.5 * LIMIT)).astype("float32")
    judge = referee(exponential(), X, [unfused])
    verdict = judge.judge([better])
    assert not verdict.wrong
    assert verdict.reference == "float64"
    assert judge.judge([(good * (1 + 30 * LIMIT)).astype("float32")]).wrong


def test_integers_near_an_edge_are_held_against_unfused():
    x = np.array([16777217.0, 1.0], "float64").astype("float32")

    def body(emit, x):
        return emit(op.astype(emit(op.divide(x, relax.const(np.float32(0.1)))), "int64"))

    mod = module([tensor("x", (2,))], body)
    unfused = (x / np.float32(0.1)).astype("int64")
    assert unfused[1] != np.int64(np.float64(x[1]) / np.float64(np.float32(0.1)))
    judge = referee(mod, [x], [unfused])
    assert not judge.judge([unfused.copy()]).wrong
    assert judge.judge([unfused + 1]).wrong


def test_what_has_no_float64_form_is_held_against_unfused_and_that_is_said():
    x = np.linspace(0, 1, 40, dtype="float32")
    mod = module([tensor("x", (40,))], lambda emit, x, bits: emit(call(bits, [x], (40,), "int32")), bits=bits_kernel)
    judge = referee(mod, [x], [x.view("int32")])
    verdict = judge.judge([x.view("int32").copy()])
    assert (verdict.wrong, verdict.reference) == (False, "unfused")
    assert "reinterpret" in verdict.notes[0]
    assert judge.judge([x.view("int32") + 1]).wrong


@pytest.mark.parametrize(
    "name", ["rmsnorm", "res_layernorm", "softmax", "gelu_erf", "mask_softmax", "lstm_cell", "swiglu_amax"]
)
def test_the_function_in_float64_agrees_with_numpy_in_float64(name):
    """Operators that compute in float32 inside, or know no float64, are no exception."""
    template = templates()[name]
    workload = template.workload(template.sizes.get("small"))
    inputs = workload.inputs(1)
    with host_target():
        prepared = pipeline.prepare(workload.build())
    assert max_error(evaluate_float64(prepared, inputs), workload.reference(inputs)) < 1e-12
