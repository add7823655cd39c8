"""ONNX import: preparation keeps the result, dimensions are fixed or kept as asked."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.frontend.models import model, onnxruntime_results, relu_model, saved
from tests.workloads.execution import run, unfused
from tvm_vfuse.errors import InputError
from tvm_vfuse.frontend import load
from tvm_vfuse.frontend.onnx_prepare import prepare


def lstm_model(rng, steps, batch, direction, optional=True):
    ways, size, hidden = (2 if direction == "bidirectional" else 1), 5, 4
    weights = {
        "W": rng.standard_normal((ways, 4 * hidden, size)).astype(np.float32),
        "R": rng.standard_normal((ways, 4 * hidden, hidden)).astype(np.float32),
    }
    if optional:
        weights["B"] = rng.standard_normal((ways, 8 * hidden)).astype(np.float32)
    names = ["x", "W", "R", *(["B", "", "h", "c"] if optional else [])]
    node = helper.make_node("LSTM", names, ["y", "y_h", "y_c"], hidden_size=hidden, direction=direction)
    state = (ways, batch, hidden)
    inputs = {"x": (steps, batch, size), **({"h": state, "c": state} if optional else {})}
    return model([node], inputs, {"y": (steps, ways, batch, hidden), "y_h": state, "y_c": state}, weights)


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize(("steps", "optional"), [(1, True), (3, True), (3, False)])
def test_lstm_is_unrolled_and_keeps_all_results(rng, tmp_path, direction, steps, optional):
    made = lstm_model(rng, steps, 2, direction, optional)
    workload = load(saved(made, tmp_path))
    inputs = workload.inputs(0)
    feed = dict(zip([v.name for v in made.graph.input], inputs, strict=True))
    for got, want in zip(run(workload.build(), inputs, unfused), onnxruntime_results(made, feed), strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-6)


def test_a_long_lstm_is_refused_by_name(rng, tmp_path):
    with pytest.raises(InputError, match="operators not supported by TVM's ONNX importer: LSTM; export without them"):
        load(saved(lstm_model(rng, 65, 1, "forward"), tmp_path))


def rate_model():
    """If(sr == 16000): twice relu(x), else -x; both branches call their value by the same name."""
    branches = []
    for operator, addend in (("Relu", "inner"), ("Neg", "inner")):
        nodes = [helper.make_node(operator, ["x"], ["inner"]), helper.make_node("Add", ["inner", addend], ["out"])]
        value = helper.make_tensor_value_info("out", TensorProto.FLOAT, [None, 4])
        branches.append(helper.make_graph(nodes, operator, [], [value]))
    nodes = [
        helper.make_node("Constant", [], ["rate"], value=helper.make_tensor("r", TensorProto.INT64, [], [16000])),
        helper.make_node("Equal", ["sr", "rate"], ["is_16k"]),
        helper.make_node("If", ["is_16k"], ["y"], then_branch=branches[0], else_branch=branches[1]),
    ]
    return model(nodes, {"x": ("n", 4), "sr": ()}, {"y": ("n", 4)}, kinds={"sr": TensorProto.INT64})


@pytest.mark.parametrize("rate", [16000, 8000])
def test_control_flow_on_a_given_scalar_is_resolved(tmp_path, rate):
    made = rate_model()
    workload = load(saved(made, tmp_path), {"sr": rate, "n": 3})
    (x,) = workload.inputs(0)
    (want,) = onnxruntime_results(made, {"x": x, "sr": np.array(rate, np.int64)})
    np.testing.assert_array_equal(run(workload.build(), [x], unfused)[0], want)


def test_nested_ifs_on_static_shapes_are_resolved():
    inner = [
        helper.make_graph(
            [helper.make_node(op, ["x"], ["leaf"])], op, [], [helper.make_tensor_value_info("leaf", 1, [2, 3])]
        )
        for op in ("Relu", "Neg")
    ]
    outer_then = helper.make_graph(
        [helper.make_node("If", ["square"], ["mid"], then_branch=inner[0], else_branch=inner[1])],
        "outer",
        [],
        [helper.make_tensor_value_info("mid", 1, [2, 3])],
    )
    outer_else = helper.make_graph(
        [helper.make_node("Abs", ["x"], ["mid"])], "other", [], [helper.make_tensor_value_info("mid", 1, [2, 3])]
    )
    weights = {"zero": np.array(0, np.int64), "one": np.array(1, np.int64), "two": np.array(2, np.int64)}
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "zero"], ["rows"]),
        helper.make_node("Gather", ["s", "one"], ["columns"]),
        helper.make_node("Equal", ["rows", "two"], ["two_rows"]),
        helper.make_node("Equal", ["rows", "columns"], ["square"]),
        helper.make_node("If", ["two_rows"], ["y"], then_branch=outer_then, else_branch=outer_else),
    ]
    prepared = prepare(model(nodes, {"x": ("r", "c")}, {"y": (2, 3)}, weights), {"r": 2, "c": 3}, "test")
    assert [n.op_type for n in prepared.graph.node if n.op_type not in ("Identity", "Constant")] == ["Neg"]


@pytest.mark.parametrize("rate", [16000, 8000])
def test_control_flow_on_an_input_is_kept(tmp_path, rate):
    made = rate_model()
    workload = load(saved(made, tmp_path), {"n": 2})
    x, scalar = workload.inputs(0)[0], np.array(rate, np.int64)
    (want,) = onnxruntime_results(made, {"x": x, "sr": scalar})
    np.testing.assert_array_equal(run(workload.build(), [x, scalar], unfused)[0], want)


@pytest.mark.parametrize("index", [1, -1])
def test_gather_of_one_index_becomes_a_slice(tmp_path, index):
    nodes = [helper.make_node("Gather", ["x", "i"], ["row"], axis=1), helper.make_node("Relu", ["row"], ["y"])]
    made = model(nodes, {"x": (2, 3, 4)}, {"y": (2, 4)}, {"i": np.array(index, np.int64)})
    workload = load(saved(made, tmp_path))
    assert "take" not in workload.build().script()
    (x,) = workload.inputs(0)
    np.testing.assert_array_equal(run(workload.build(), [x], unfused)[0], onnxruntime_results(made, {"x": x})[0])


def test_a_symbolic_batch_is_kept_and_said(tmp_path):
    workload = load(saved(relu_model(("batch", 3)), tmp_path))
    assert workload.shapes == "x batchx3"
    assert workload.notes == ("symbolic dimension batch is sampled as 8",)
    assert workload.inputs(0)[0].shape == (8, 3)


@pytest.mark.parametrize("key", ["batch.0", "batch_0", "x_0"])
def test_a_symbolic_batch_is_fixed_by_any_of_its_names(tmp_path, key):
    workload = load(saved(relu_model(("batch.0", 3)), tmp_path), {key: 5})
    assert (workload.shapes, workload.notes) == ("x 5x3", ())


def test_a_batch_that_the_importer_cannot_keep_is_set_to_one(tmp_path):
    nodes = [helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], auto_pad="SAME_UPPER")]
    made = model(nodes, {"x": ("n", 1, 4, 4)}, {"y": ("n", 1, 4, 4)})
    workload = load(saved(made, tmp_path))
    assert (workload.shapes, workload.notes) == ("x 1x1x4x4", ("dimension n was set to 1",))


def test_parameters_that_are_also_inputs_are_bound(tmp_path):
    weight = np.ones((3,), np.float32)
    nodes = [helper.make_node("Add", ["x", "w"], ["y"])]
    made = model(nodes, {"x": (2, 3), "w": (3,)}, {"y": (2, 3)}, {"w": weight})
    assert load(saved(made, tmp_path)).shapes == "x 2x3"


def test_integer_inputs_are_small_and_not_negative(tmp_path):
    nodes = [helper.make_node("Gather", ["table", "i"], ["y"])]
    made = model(
        nodes,
        {"i": (4, 50)},
        {"y": (4, 50, 2)},
        {"table": np.zeros((8, 2), np.float32)},
        kinds={"i": TensorProto.INT64},
    )
    (indices,) = load(saved(made, tmp_path)).inputs(0)
    assert indices.dtype == np.int64 and indices.min() == 0 and indices.max() == 7
