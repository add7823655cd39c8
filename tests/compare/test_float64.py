import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import relax

from tests.compare.modules import bits_kernel, call, doubling_kernel, legal, module, normal, tensor
from tvm_vfuse.build import Runner, compile_module
from tvm_vfuse.compare.float64 import as_float64, dtype_bound_part, to_float64
from tvm_vfuse.device import host_target

op = relax.op


def run(mod, *inputs):
    return Runner(compile_module(mod, host_target())).run(inputs)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def everything_module():
    """Operators with a dtype of their own: matmul's out_dtype, astype, full, a constant, a reduction."""
    x, w = tensor("x", (9, 17), "float16"), tensor("w", (17, 5), "float16")

    def body(emit, x, w):
        a = emit(op.matmul(x, w, out_dtype="float32"))
        b = emit(op.multiply(emit(op.nn.softmax(a)), relax.const(np.linspace(0, 1, 5, dtype="float32"))))
        c = emit(op.add(b, emit(op.full((9, 5), relax.const(0.1, "float32"), "float32"))))
        return [c, emit(op.astype(emit(op.sum(c, axis=1)), "float16")), emit(op.argmax(a, axis=1))]

    return module([x, w], body)


def everything_reference(x, w):
    a = x @ w
    c = softmax(a) * np.linspace(0, 1, 5, dtype="float32").astype("float64") + np.float64(np.float32(0.1))
    return [c, c.sum(1), a.argmax(1)]


@pytest.mark.parametrize("lowered", [False, True], ids=["operators", "TIR"])
def test_the_turned_module_computes_in_float64_throughout(lowered):
    mod = everything_module()
    inputs = [as_float64(a) for a in normal((9, 17), (17, 5), dtype="float16")(0)]
    got = run(to_float64(legal(mod) if lowered else mod), *inputs)
    for out, want in zip(got, everything_reference(*inputs), strict=True):
        assert out.dtype == want.dtype
        assert np.max(np.abs(out - want)) < 1e-13


def test_the_given_module_stays_as_it_was():
    mod = everything_module()
    before = tvm.ir.save_json(mod)
    to_float64(mod)
    assert tvm.ir.save_json(mod) == before


def test_a_module_without_floats_and_one_in_float64_stay_the_same():
    for dtype in ("int32", "float64"):
        mod = module([tensor("x", (4,), dtype)], lambda emit, x: emit(op.add(x, x)))
        assert tvm_ffi.structural_equal(to_float64(mod), mod)


def test_a_kernel_given_by_the_user_is_turned_too():
    x = tensor("x", (40,))
    mod = module([x], lambda emit, x, double: emit(op.exp(emit(call(double, [x], (40,))))), double=doubling_kernel)
    value = np.linspace(-3, 3, 40)
    (out,) = run(to_float64(mod), value)
    assert np.max(np.abs(out - np.exp(2 * value)) / np.exp(2 * value)) < 1e-15


def test_constants_that_are_shared_or_integers_keep_their_values():
    weight = relax.const(np.array([0.1, 0.2], "float32"))
    index = relax.const(np.array([1, 0], "int64"))
    x = tensor("x", (2,))
    mod = module([x], lambda emit, x: emit(op.take(emit(op.multiply(emit(op.add(x, weight)), weight)), index)))
    w = np.array([0.1, 0.2], "float32").astype("float64")
    (out,) = run(to_float64(mod), np.array([1.0, 2.0]))
    np.testing.assert_array_equal(out, ((np.array([1.0, 2.0]) + w) * w)[::-1])


def test_bit_patterns_and_packed_functions_are_refused_by_name():
    x = tensor("x", (40,))
    bits = module([x], lambda emit, x, bits: emit(call(bits, [x], (40,), "int32")), bits=bits_kernel)
    assert "reinterpret in PrimFunc bits" in str(dtype_bound_part(bits))
    packed = module(
        [x], lambda emit, x: emit(relax.call_pure_packed("my.packed", x, ty_args=relax.TensorType([40], "float32")))
    )
    assert "my.packed in function main" in str(dtype_bound_part(packed))
    for mod in (bits, packed):
        with pytest.raises(ValueError, match="bound to its dtype"):
            to_float64(mod)
    assert dtype_bound_part(everything_module()) is None


def test_inputs_are_widened_and_integers_are_not():
    import ml_dtypes

    values = [np.ones(2, "float16"), np.ones(2, ml_dtypes.bfloat16), np.ones(2, "int8"), [np.ones(2, "float32")]]
    assert [np.asarray(v).dtype.name for v in as_float64(values)[:3]] == ["float64", "float64", "int8"]
    assert as_float64(values)[3][0].dtype == np.float64
