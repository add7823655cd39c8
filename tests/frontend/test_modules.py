"""Relax modules from Python files, saved JSON and exported PyTorch programs."""

from __future__ import annotations

import textwrap

import numpy as np
import pytest
import tvm
from tvm import relax

from tests.workloads.execution import run, unfused
from tvm_vfuse.frontend import load
from tvm_vfuse.workloads import find

SCRIPT = """
from tvm.script import ir as I
from tvm.script import relax as R

print("hello from the file")

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4,), "float32")):
        with R.dataflow():
            y = R.add(x, w)
            z = R.nn.relu(y)
            R.output(z)
        return z
"""


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "net.py"
    path.write_text(SCRIPT)
    return path


def test_python_file_runs_without_printing(script, capfd):
    workload = load(str(script))
    assert capfd.readouterr() == ("", "")
    assert workload.shapes == "x nx4, w 4"
    x, w = workload.inputs(0)
    assert x.shape == (8, 4)
    np.testing.assert_array_equal(run(workload.build(), [x, w], unfused)[0], np.maximum(x + w, 0))


def test_a_symbolic_dimension_of_a_module_can_be_fixed(script):
    workload = load(str(script), {"n": 3})
    assert (workload.shapes, workload.notes) == ("x 3x4, w 4", ())
    assert workload.build()["main"].params[0].ty.shape.values[0] == 3


def test_two_python_files_do_not_mix(tmp_path, script):
    other = tmp_path / "other.py"
    other.write_text(SCRIPT.replace("relu", "silu"))
    first, second = load(str(script)), load(str(other))
    assert "relu" in first.build().script() and "silu" in second.build().script()


def test_saved_module_is_the_module(tmp_path):
    mod = find("conv_bn_relu:1x4x8x8").build()
    path = tmp_path / "net.json"
    path.write_text(tvm.ir.save_json(mod))
    tvm.ir.assert_structural_equal(load(str(path)).build(), mod)


def test_parameters_beside_a_saved_module_are_bound_by_name(script, tmp_path):
    mod = load(str(script)).build()
    (tmp_path / "saved.json").write_text(tvm.ir.save_json(mod))
    weight = np.array([1, -2, 3, -4], np.float32)
    (tmp_path / "saved.params").write_bytes(tvm.runtime.save_param_dict({"w": tvm.runtime.tensor(weight)}))
    workload = load(str(tmp_path / "saved.json"), {"n": 2})
    assert workload.shapes == "x 2x4"
    assert workload.notes == ("parameters bound from saved.params",)
    (x,) = workload.inputs(0)
    np.testing.assert_array_equal(run(workload.build(), [x], unfused)[0], np.maximum(x + weight, 0))


def test_inputs_follow_each_parameters_dtype(tmp_path):
    path = tmp_path / "kinds.py"
    path.write_text(
        textwrap.dedent("""
        from tvm.script import ir as I
        from tvm.script import relax as R

        @I.ir_module
        class Module:
            @R.function
            def main(a: R.Tensor((64,), "float16"), b: R.Tensor((64,), "uint8"), c: R.Tensor((64,), "bool"),
                     d: R.Tensor((64,), "bfloat16"), e: R.Tensor((), "int32")):
                with R.dataflow():
                    y = R.nn.relu(a)
                    R.output(y)
                return y
        """)
    )
    workload = load(str(path))
    kinds = [str(x.dtype) for x in workload.inputs(0)]
    assert kinds == ["float16", "uint8", "bool", "bfloat16", "int32"]
    assert workload.shapes.endswith("e scalar")


@pytest.mark.torch
def test_exported_program_keeps_its_symbolic_batch(tmp_path):
    import torch

    layer = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU()).eval()
    batch = torch.export.Dim("batch", min=2)
    program = torch.export.export(layer, (torch.randn(2, 4),), dynamic_shapes=({0: batch},))
    torch.export.save(program, str(tmp_path / "layer.pt2"))
    workload = load(str(tmp_path / "layer.pt2"))
    (x,) = workload.inputs(0)
    assert x.shape == (8, 4) and isinstance(workload.build()["main"].params[0].ty, relax.TensorType)
    with torch.no_grad():
        want = layer(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(run(workload.build(), [x], unfused)[0], want, rtol=1e-5, atol=1e-6)
