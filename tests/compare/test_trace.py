import numpy as np
import pytest
import tvm
from tvm import relax, tirx
from tvm.script import ir as I
from tvm.script import relax as R

from tests.compare.modules import call, doubling_kernel, legal, module, tensor
from tvm_vfuse.compare.trace import trace
from tvm_vfuse.errors import InputError

op = relax.op


def launches(mod, *shapes):
    return [launch.name for launch in trace(mod, [np.zeros(shape) for shape in shapes]).launches]


def test_a_reshape_inside_a_dataflow_block_is_a_view_and_no_kernel():
    x = tensor("x", (4, 6))
    mod = legal(module([x], lambda emit, x: emit(op.nn.relu(emit(op.reshape(emit(op.exp(x)), (24,)))))))
    walked = trace(mod, [np.zeros((4, 6))])
    assert [launch.name for launch in walked.launches] == ["tir_exp", "relu"]
    made, read = walked.launches[0].outputs[0], walked.launches[1].inputs[0]
    assert made.storages == read.storages
    assert (made.shape, read.shape) == ((4, 6), (24,))


def test_symbolic_shapes_take_the_inputs_extents_and_reach_the_kernels():
    n = tirx.Var("n", "int64")
    x = tensor("x", (n, 8), "float16")
    mod = legal(module([x], lambda emit, x: emit(op.nn.softmax(emit(op.concat([x, x], axis=0))))))
    walked = trace(mod, [np.zeros((5, 8))])
    assert [launch.outputs[0].shape for launch in walked.launches] == [(10, 8), (10, 8)]
    assert [launch.outputs[0].nbytes for launch in walked.launches] == [160, 160]
    assert all(set(launch.bindings.values()) <= {5, 10} and launch.bindings for launch in walked.launches)


def test_calls_of_private_functions_count_their_kernels_each_time():
    @I.ir_module
    class M:
        @R.function(private=True)
        def twice(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            with R.dataflow():
                a = R.exp(x)
                b = R.add(a, a)
                R.output(b)
            return b

        @R.function
        def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            cls = M
            a = cls.twice(x)
            return cls.twice(a)

    walked = trace(legal(M), [np.zeros(8)])
    assert [launch.name for launch in walked.launches] == ["tir_exp", "add", "tir_exp", "add"]
    assert walked.launches[1].outputs[0].storages == walked.launches[2].inputs[0].storages


def test_both_sides_of_a_branch_count_and_that_is_said():
    @I.ir_module
    class M:
        @R.function
        def main(c: R.Tensor((), "bool"), x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            if c:
                y = R.exp(x)
            else:
                y = R.abs(x)
            return R.negative(y)

    walked = trace(legal(M), [np.array(True), np.zeros(8)])
    names = [launch.name for launch in walked.launches]
    assert len(names) == 3
    assert len(walked.launches[2].inputs[0].storages) == 2
    assert any("branch" in note for note in walked.notes)


def test_a_recursive_function_is_walked_once_and_that_is_said():
    @I.ir_module
    class M:
        @R.function
        def main(c: R.Tensor((), "bool"), x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
            cls = M
            if c:
                a = R.exp(x)
                y = cls.main(c, a)
            else:
                y = x
            return y

    walked = trace(legal(M), [np.array(True), np.zeros(8)])
    assert [launch.name for launch in walked.launches] == ["tir_exp"]
    assert any("loop" in note for note in walked.notes)


def test_an_in_place_call_writes_into_its_input():
    x = tensor("x", (40,))

    def body(emit, x, double):
        a = emit(op.exp(x))
        return emit(relax.op.call_tir_inplace(double, [a, a], [1], relax.TensorType([40], "float32")))

    walked = trace(legal(module([x], body, double=doubling_kernel)), [np.zeros(40)])
    inplace = walked.launches[-1]
    assert inplace.outputs[0].storages == inplace.inputs[1].storages


def test_constants_are_one_storage_however_often_they_are_read():
    weight = relax.const(np.ones((3, 4), "float32"))
    x = tensor("x", (3, 4))
    mod = legal(module([x], lambda emit, x: emit(op.multiply(emit(op.add(x, weight)), weight))))
    walked = trace(mod, [np.zeros((3, 4))])
    assert walked.launches[0].inputs[1].storages == walked.launches[1].inputs[1].storages
    assert [value.nbytes for value in walked.constants.values()] == [48]


def test_names_are_those_of_the_bindings_and_repeated_ones_are_dropped():
    x = tensor("x", (4,))
    mod = legal(module([x], lambda emit, x: emit(op.abs(emit(op.exp(x))))))
    walked = trace(mod, [np.zeros(4)])
    by_launch = [walked.names.get(next(iter(launch.outputs[0].storages))) for launch in walked.launches]
    assert by_launch == ["lv", "lv1"]

    same = relax.DataflowVar("t", relax.TensorType([4], "float32"))
    again = relax.DataflowVar("t", relax.TensorType([4], "float32"))
    out = relax.Var("out", relax.TensorType([4], "float32"))
    block = relax.DataflowBlock(
        [relax.VarBinding(same, op.exp(x)), relax.VarBinding(again, op.abs(same)), relax.VarBinding(out, op.exp(again))]
    )
    function = relax.Function([x], relax.SeqExpr([block], out), relax.TensorType([4], "float32"))
    doubled = relax.transform.Normalize()(tvm.IRModule({"main": function.with_attr("global_symbol", "main")}))
    assert "t" not in trace(legal(doubled), [np.zeros(4)]).names.values()


def test_another_number_of_inputs_and_a_missing_function_are_input_errors():
    mod = legal(module([tensor("x", (4,))], lambda emit, x: emit(op.exp(x))))
    with pytest.raises(InputError, match="takes 1 inputs, but 2 were given"):
        trace(mod, [np.zeros(4), np.zeros(4)])
    with pytest.raises(InputError, match=r"no function 'other'.*main"):
        trace(mod, [np.zeros(4)], entry="other")


def test_an_unused_kernel_result_is_still_a_launch():
    x = tensor("x", (40,))

    def body(emit, x, double):
        emit(call(double, [x], (40,)))
        return emit(op.exp(x))

    assert launches(legal(module([x], body, double=doubling_kernel)), (40,)) == ["double", "tir_exp"]
