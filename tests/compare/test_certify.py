import numpy as np
import pytest
import tvm_ffi
from tvm import relax, tirx

from tests.compare.modules import ModuleWorkload, chain_workload, module, normal, tensor
from tests.compare.test_run import broken, other_constant
from tvm_vfuse import pipeline
from tvm_vfuse.certify import certify_workload
from tvm_vfuse.device import host_target, parse_target
from tvm_vfuse.errors import InputError
from tvm_vfuse.options import FusionOptions

op = relax.op


def certified(workload, options=None, seeds=2):
    return {c.name: c for c in certify_workload(workload, host_target(), options, seeds)}


def two_groups():
    """exp and relu, a product that splits them from, add and tanh."""
    x, w = tensor("x", (8, 8)), tensor("w", (8, 8))

    def body(emit, x, w):
        a = emit(op.nn.relu(emit(op.subtract(x, relax.const(0.5)))))
        b = emit(op.matmul(emit(op.matmul(a, w)), w))
        return emit(op.nn.relu(emit(op.add(b, relax.const(1.5)))))

    return ModuleWorkload("two", lambda: module([x, w], body), normal((8, 8), (8, 8)))


def halved(function):
    """The same function over the first half of its outermost loop."""
    done = []

    def half(loop):
        if isinstance(loop.extent, tirx.IntImm) and int(loop.extent) > 1 and not done:
            done.append(loop)
            return tirx.For(loop.loop_var, loop.min, int(loop.extent) // 2, loop.kind, loop.body)
        return loop

    return function.with_body(tvm_ffi.structural_map(function.body, (tirx.For, half), order="pre"))


def test_right_kernels_are_certified_with_their_operators():
    certificates = certified(chain_workload(), FusionOptions(math="libm"))
    assert list(certificates)[-1] == "main"
    (kernel,) = [c for c in certificates.values() if c.name != "main"]
    assert kernel.ops == ("tir_exp", "add", "relu")
    assert all(c.passed and c.exact and c.max_error == 0 for c in certificates.values())


def test_rounding_is_accepted_but_is_not_called_exact():
    def make():
        return module([tensor("x", (64, 300))], lambda emit, x: emit(op.nn.softmax(emit(op.exp(x)))))

    certificates = certified(ModuleWorkload("rows", make, normal((64, 300))))
    assert all(c.passed for c in certificates.values())
    assert not all(c.exact for c in certificates.values())
    assert all(c.max_error < c.tolerance for c in certificates.values() if c.max_error is not None)


def test_a_fault_is_named_at_the_kernel_that_makes_it_and_nowhere_else(monkeypatch):
    def spoil(function):
        return other_constant(function) if "1.5" in function.script() else function

    monkeypatch.setattr(pipeline, "run", broken(spoil))
    certificates = certified(two_groups())
    failed = [name for name, c in certificates.items() if not c.passed]
    assert "main" in failed
    assert len(failed) == 2
    kernel = certificates[next(name for name in failed if name != "main")]
    assert "add" in kernel.ops
    assert "exceeds" in kernel.detail


def test_a_fault_upstream_does_not_spread_to_later_kernels(monkeypatch):
    def spoil(function):
        return other_constant(function) if "0.5" in function.script() and "1.5" not in function.script() else function

    monkeypatch.setattr(pipeline, "run", broken(spoil))
    certificates = certified(two_groups())
    failed = [c for name, c in certificates.items() if not c.passed and name != "main"]
    assert len(failed) == 1
    assert "subtract" in failed[0].ops


def test_elements_that_a_kernel_never_writes_are_counted(monkeypatch):
    monkeypatch.setattr(pipeline, "run", broken(halved))
    certificates = certified(chain_workload(8, 50))
    (kernel,) = [c for c in certificates.values() if c.name != "main"]
    assert not kernel.passed
    assert "of 400 elements never written, the first at (" in kernel.detail


@pytest.mark.parametrize("dtype", ["float16", "float64", "int32", "int8"])
def test_other_dtypes_are_certified(dtype):
    def make():
        x = tensor("x", (6, 50), dtype)
        return module([x], lambda emit, x: [emit(op.add(emit(op.multiply(x, x)), x)), emit(op.greater(x, x))])

    sample = lambda seed: [np.random.default_rng(seed).integers(-9, 9, (6, 50)).astype(dtype)]  # noqa: E731
    assert all(c.passed and c.exact for c in certified(ModuleWorkload("square", make, sample)).values())


def test_each_seed_gets_its_own_inputs():
    seen = []

    def sample(seed):
        seen.append(seed)
        return normal((6, 50), (6, 50))(seed)

    workload = ModuleWorkload("chain", chain_workload().make, sample)
    certified(workload, FusionOptions(seed=5), seeds=3)
    assert sorted(set(seen)) == [5, 6, 7]


def test_a_target_that_does_not_run_here_is_refused():
    target = parse_target('{"kind": "llvm", "mtriple": "aarch64-linux-gnu"}')
    with pytest.raises(InputError, match="does not run on this machine"):
        certify_workload(chain_workload(), target)


def test_memory_that_is_written_in_place_is_not_mistaken_for_its_first_value():
    from tests.compare.modules import doubling_kernel

    def make():
        def body(emit, x, double):
            a = emit(op.exp(x))
            b = emit(relax.op.call_tir_inplace(double, [a, a], [1], relax.TensorType([40], "float32")))
            return emit(op.add(emit(op.nn.relu(b)), x))

        return module([tensor("x", (40,))], body, double=doubling_kernel)

    certificates = certified(ModuleWorkload("inplace", make, normal((40,))))
    assert all(c.passed for c in certificates.values())


def tanh_of_tiny_numbers():
    """tanh(x) / x, which is 1: the tanh that TVM lowers to is far off there, ours is not."""
    x = tensor("x", (64,))

    def body(emit, x):
        return emit(op.divide(emit(op.tanh(x)), x))

    return ModuleWorkload(
        "tanh", lambda: module([x], body), lambda seed: [np.linspace(1e-8, 1e-7, 64, dtype="float32")]
    )


def test_a_difference_that_the_math_functions_make_is_no_fault_and_is_said(monkeypatch):
    certificates = certified(tanh_of_tiny_numbers(), seeds=1)
    (kernel,) = [c for c in certificates.values() if c.name != "main"]
    assert kernel.max_error > kernel.tolerance
    assert kernel.passed
    assert "equal with --math libm" in kernel.detail
    assert certificates["main"].passed
    assert certificates["main"].max_error < 1e-6

    monkeypatch.setattr(pipeline, "run", broken(other_constant))
    assert not any(c.passed for c in certified(chain_with_constant(), seeds=1).values())


def chain_with_constant():
    x = tensor("x", (64,))
    return ModuleWorkload(
        "constant",
        lambda: module([x], lambda emit, x: emit(op.tanh(emit(op.add(x, relax.const(0.5)))))),
        normal((64,)),
    )
