import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import relax

from tests.compare.modules import call, doubling_kernel, legal, module, tensor
from tvm_vfuse.compare.trace import trace
from tvm_vfuse.compare.traffic import boundary_bytes, ideal_bytes, launch_bytes, peak_bytes

op = relax.op


def walked(mod, *arrays):
    return trace(legal(mod), [np.zeros(shape) for shape in arrays])


def no_memory(run):
    return [0] * len(run.launches)


@pytest.mark.parametrize(("dtype", "size"), [("float32", 4), ("float16", 2), ("float64", 8), ("int8", 1)])
def test_k_elementwise_operators_move_2kns_bytes_and_the_ideal_is_2ns(dtype, size):
    x = tensor("x", (32, 7), dtype)

    def body(emit, x):
        for _ in range(5):
            x = emit(op.negative(x))
        return x

    run = walked(module([x], body), (32, 7))
    assert boundary_bytes(run) == 2 * 5 * 32 * 7 * size
    assert ideal_bytes(run) == 2 * 32 * 7 * size


def test_a_tensor_that_a_kernel_reads_twice_counts_once():
    x = tensor("x", (10, 10))
    run = walked(module([x], lambda emit, x: emit(op.add(x, x))), (10, 10))
    assert launch_bytes(run.launches[0]) == 2 * 400
    run = walked(
        module([x], lambda emit, x: emit(op.add(emit(op.reshape(x, (100,))), emit(op.reshape(x, (100,)))))), (10, 10)
    )
    assert launch_bytes(run.launches[0]) == 2 * 400


def test_broadcast_inputs_count_at_their_own_size():
    x, b = tensor("x", (16, 8)), tensor("b", (8,))
    run = walked(module([x, b], lambda emit, x, b: emit(op.add(x, b))), (16, 8), (8,))
    assert boundary_bytes(run) == ideal_bytes(run) == (128 + 8 + 128) * 4


def test_constants_in_memory_count_in_the_ideal_and_scalars_in_the_code_do_not():
    weight = relax.const(np.ones((6, 6), "float32"))
    x = tensor("x", (6, 6))
    run = walked(module([x], lambda emit, x: emit(op.multiply(emit(op.add(x, weight)), relax.const(2.0)))), (6, 6))
    assert ideal_bytes(run) == 3 * 36 * 4
    assert boundary_bytes(run) == 5 * 36 * 4


def test_an_output_given_twice_and_an_input_given_back_count_once():
    x = tensor("x", (10,))

    def body(emit, x):
        y = emit(op.exp(x))
        return [y, x, y]

    assert ideal_bytes(walked(module([x], body), (10,))) == 2 * 40


def test_an_in_place_kernel_reads_and_writes_its_tensor():
    x = tensor("x", (40,))

    def body(emit, x, double):
        a = emit(op.exp(x))
        return emit(relax.op.call_tir_inplace(double, [a, a], [1], relax.TensorType([40], "float32")))

    run = walked(module([x], body, double=doubling_kernel), (40,))
    assert launch_bytes(run.launches[-1]) == 2 * 160


def test_sizes_known_at_run_time_only_make_the_sum_unknown():
    from tvm import tirx

    n = tirx.Var("n", "int64")
    x = tensor("x", (40,))

    def body(emit, x):
        return [
            emit(op.exp(x)),
            emit(relax.call_pure_packed("some.packed", x, ty_args=relax.TensorType(dtype="float32", ndim=1))),
        ]

    run = walked(module([x], body), (40,))
    assert boundary_bytes(run) == 320
    assert ideal_bytes(run) is None
    assert any("packed" in note for note in run.notes)
    assert n not in run.launches[0].bindings


def test_peak_of_a_chain_is_two_intermediates_and_the_last_result_is_none():
    x = tensor("x", (25,))

    def body(emit, x):
        for _ in range(6):
            x = emit(op.exp(x))
        return x

    run = walked(module([x], body), (25,))
    assert peak_bytes(run, no_memory(run)) == 2 * 100


def test_memory_inside_a_kernel_adds_to_what_is_alive_then():
    x = tensor("x", (25,))
    run = walked(module([x], lambda emit, x: emit(op.exp(emit(op.abs(emit(op.negative(x))))))), (25,))
    assert peak_bytes(run, [5000, 0, 0]) == 5100
    assert peak_bytes(run, [0, 5000, 0]) == 5200
    assert peak_bytes(run, [0, None, 0]) is None


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=8))
def test_a_random_graph_agrees_with_counting_by_hand(edges):
    """Node i adds two earlier values (0 is the input); boundary, ideal and peak are counted again from the edges."""
    size = 40
    picks = [(a % (i + 1), b % (i + 1)) for i, (a, b) in enumerate(edges)]

    def body(emit, x):
        values = [x]
        for a, b in picks:
            values.append(emit(op.add(values[a], values[b])))
        return values[-1]

    run = walked(module([tensor("x", (10,))], body), (10,))
    assert boundary_bytes(run) == sum((len({a, b}) + 1) * size for a, b in picks)
    assert ideal_bytes(run) == 2 * size
    count = len(picks)
    last = {node: max([node, *(i + 1 for i, pick in enumerate(picks) if node in pick)]) for node in range(1, count)}
    alive = [sum(node <= step <= last[node] for node in range(1, count)) for step in range(1, count + 1)]
    assert peak_bytes(run, no_memory(run)) == max(alive) * size


def test_kernels_given_by_the_user_count_like_any_other():
    x = tensor("x", (40,))
    run = walked(
        module([x], lambda emit, x, double: emit(op.exp(emit(call(double, [x], (40,))))), double=doubling_kernel), (40,)
    )
    assert [launch.name for launch in run.launches] == ["double", "tir_exp"]
    assert boundary_bytes(run) == 4 * 160
