import numpy as np
import pytest
from tvm import relax, tirx
from tvm.script import tirx as T

from tests.compare.modules import legal, module, tensor
from tvm_vfuse.compare.flops import kernel_flop
from tvm_vfuse.compare.trace import trace

op = relax.op


def flop(mod, *shapes):
    run = trace(legal(mod), [np.zeros(shape) for shape in shapes])
    return sum(kernel_flop(launch.function, launch.bindings) for launch in run.launches)


def of(function, *params):
    return module(list(params), lambda emit, *args: emit(function(*args)))


def test_a_matrix_product_is_2mnk():
    assert flop(of(op.matmul, tensor("x", (7, 11)), tensor("w", (11, 13))), (7, 11), (11, 13)) == 2 * 7 * 11 * 13


def test_a_convolution_is_2_per_tap_of_each_output():
    x, w = tensor("x", (2, 3, 10, 9)), tensor("w", (5, 3, 3, 3))
    mod = of(lambda x, w: op.nn.conv2d(x, w, padding=1), x, w)
    assert flop(mod, (2, 3, 10, 9), (5, 3, 3, 3)) == 2 * (2 * 5 * 10 * 9) * (3 * 3 * 3)


def test_softmax_is_five_per_element():
    assert flop(of(op.nn.softmax, tensor("x", (6, 50))), (6, 50)) == 5 * 300


def test_a_maximum_and_a_math_function_are_one_each_and_a_conversion_is_none():
    x = tensor("x", (30,))
    assert flop(of(op.nn.relu, x), (30,)) == 30
    assert flop(of(op.tanh, x), (30,)) == 30
    assert flop(of(lambda x: op.astype(x, "float16"), x), (30,)) == 0


def test_moving_data_costs_nothing_however_its_indices_are_computed():
    x = tensor("x", (6, 10))
    assert flop(of(lambda x: op.permute_dims(x), x), (6, 10)) == 0
    assert flop(of(lambda x: op.strided_slice(x, [0, 1], [1, 2], [5, 9], [2, 3]), x), (6, 10)) == 0
    assert flop(of(lambda x: op.nn.pad(x, [1, 1, 2, 2]), x), (6, 10)) == 0
    assert flop(module([], lambda emit: emit(op.arange(0, 60, 2, "int32")))) == 0


def test_integers_that_come_from_data_count():
    x = tensor("x", (30,), "int32")
    assert flop(of(op.add, x, x), (30,), (30,)) == 30


def test_symbolic_extents_take_the_inputs_values():
    n = tirx.Var("n", "int64")
    mod = of(op.matmul, tensor("x", (n, 8)), tensor("w", (8, 4)))
    assert flop(mod, (5, 8), (8, 4)) == 2 * 5 * 8 * 4
    (kernel,) = [f for f in legal(mod).functions.values() if isinstance(f, tirx.PrimFunc)]
    assert kernel_flop(kernel, {}) is None


def test_vector_lanes_count_each():
    @T.prim_func
    def add4(a: T.Buffer((16,), "float32"), b: T.Buffer((16,), "float32")):
        for i in range(4):
            b[T.Ramp(i * 4, 1, 4)] = a[T.Ramp(i * 4, 1, 4)] + T.Broadcast(T.float32(1), 4)

    assert kernel_flop(add4, {}) == 16


def test_a_conditional_statement_counts_its_dearer_side():
    @T.prim_func
    def sides(a: T.Buffer((8,), "float32"), b: T.Buffer((8,), "float32")):
        for i in range(8):
            if i < 4:
                b[i] = T.exp(a[i]) * a[i] + a[i]
            else:
                b[i] = a[i] + a[i]

    assert kernel_flop(sides, {}) == 8 * 3


def test_a_value_shared_by_two_places_is_counted_at_both():
    a = tirx.decl_buffer((4,), "float32", name="a")
    once = tirx.BufferLoad(a, [0]) + tirx.BufferLoad(a, [1])
    tower = once
    for _ in range(20):
        tower = tower * tower
    out = tirx.decl_buffer((1,), "float32", name="out")
    function = tirx.PrimFunc([a, out], tirx.BufferStore(out, tower, [0]))
    assert kernel_flop(function, {}) == 2**21 - 1


def test_an_external_kernel_counts_as_nothing():
    assert kernel_flop(None, {}) == 0


@pytest.mark.parametrize("step", [1, 2, 3])
def test_a_loop_with_steps_runs_as_often_as_it_steps(step):
    a, out = tirx.decl_buffer((10,), "float32", name="a"), tirx.decl_buffer((10,), "float32", name="out")
    i = tirx.Var("i", "int32")
    store = tirx.BufferStore(out, tirx.BufferLoad(a, [i]) + tirx.FloatImm("float32", 1.0), [i])
    loop = tirx.For(i, 0, 10, tirx.ForKind.SERIAL, store, step=tirx.IntImm("int32", step))
    assert kernel_flop(tirx.PrimFunc([a, out], loop), {}) == len(range(0, 10, step))
