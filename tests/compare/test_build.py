import json
import math
import subprocess
import sys

import numpy as np
import pytest

from tests.compare.modules import chain_workload
from tvm_vfuse.build import Runner, compile_module, json_text, replacing, to_arrays, write_directory, write_json
from tvm_vfuse.compare.built import build_workload
from tvm_vfuse.device import host_target
from tvm_vfuse.errors import InputError

LOAD_WITH_TVM_ALONE = """
import sys
import numpy as np
import tvm
from tvm import relax
vm = relax.VirtualMachine(tvm.runtime.load_module(sys.argv[1]), tvm.cpu())
x, y = np.load(sys.argv[2]), np.load(sys.argv[3])
out = vm["main"](tvm.runtime.tensor(x), tvm.runtime.tensor(y))
assert not any(name.startswith("tvm_vfuse") for name in sys.modules)
np.testing.assert_allclose(out.numpy(), np.maximum(np.exp(x.astype("float64")) + y, 0), rtol=1e-5)
"""


def test_a_written_directory_loads_and_runs_with_tvm_alone(tmp_path):
    workload = chain_workload()
    built = build_workload(workload, host_target())
    out = tmp_path / "some" / "where"
    files = write_directory(out, built.executable, built.plan, [kernel.to_json() for kernel in built.kernels])
    assert [path.name for path in files] == ["module.so", "plan.json", "resources.json"]
    assert sorted(path.name for path in out.iterdir()) == ["module.so", "plan.json", "resources.json"]
    arrays = []
    for index, array in enumerate(workload.inputs(3)):
        arrays.append(str(tmp_path / f"{index}.npy"))
        np.save(arrays[-1], array)
    command = [sys.executable, "-c", LOAD_WITH_TVM_ALONE, str(out / "module.so"), *arrays]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads((out / "plan.json").read_text())["groups"][0]["ops"] == ["tir_exp", "add", "relu"]
    (kernel,) = json.loads((out / "resources.json").read_text())
    assert kernel["ops"] == ["tir_exp", "add", "relu"]
    assert kernel["registers"] is None


def test_outputs_are_arrays_of_their_own_memory():
    workload = chain_workload()
    runner = Runner(compile_module(workload.build(), host_target()))
    first = runner.run(workload.inputs(0))[0]
    kept = first.copy()
    runner.run(workload.inputs(1))
    np.testing.assert_array_equal(first, kept)


def test_results_of_any_shape_are_flattened():
    array = np.arange(3)
    assert [a.tolist() for a in to_arrays([_Tensor(array), [_Tensor(array + 1), 5]])] == [[0, 1, 2], [1, 2, 3], 5]


class _Tensor:
    def __init__(self, array):
        self.array = array

    def numpy(self):
        return self.array


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path):
    path = tmp_path / "data.json"
    write_json(path, {"old": 1})
    with pytest.raises(RuntimeError, match="half way"), replacing(path) as temporary:
        temporary.write_text("{")
        raise RuntimeError("half way")
    assert json.loads(path.read_text()) == {"old": 1}
    write_json(path, {"new": 2})
    assert json.loads(path.read_text()) == {"new": 2}
    assert [entry.name for entry in tmp_path.iterdir()] == ["data.json"]


def test_written_files_have_the_permissions_of_the_umask(tmp_path):
    plain, ours = tmp_path / "plain", tmp_path / "ours.json"
    plain.write_text("")
    write_json(ours, [])
    assert ours.stat().st_mode == plain.stat().st_mode


def test_what_json_lacks_is_written_as_json(tmp_path):
    data = {"inf": math.inf, "list": [-math.inf, math.nan, 1.5], "text": "Infinity, NaN", "nan": math.nan}
    text = json_text(data)
    read = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert read == {"inf": math.inf, "list": [-math.inf, None, 1.5], "text": "Infinity, NaN", "nan": None}


def test_a_path_that_cannot_be_written_is_an_input_error(tmp_path):
    with pytest.raises(InputError, match="choose another path"):
        write_json(tmp_path / "missing" / "file.json", {})
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="choose another with -o"):
        write_directory(tmp_path / "file", None, {}, [])


def test_without_a_compiler_the_way_out_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(InputError, match=r"apt-get install g\+\+"):
        write_directory(tmp_path / "out", None, {}, [])


def test_a_branch_compiles_to_code_that_runs_on_both_sides():
    from tvm.script import ir as I
    from tvm.script import relax as R

    @I.ir_module
    class M:
        @R.function
        def main(x: R.Tensor((4, 8), "float32"), c: R.Tensor((), "bool")) -> R.Tensor((4, 8), "float32"):
            if c:
                f = R.reshape(x, (32,))
                r = R.reshape(f, (4, 8))
            else:
                g = R.negative(x)
                r = R.reshape(g, (4, 8))
            return r

    x = np.arange(32, dtype="float32").reshape(4, 8)
    runner = Runner(compile_module(M, host_target()))
    np.testing.assert_array_equal(runner.run([x, np.array(True)])[0], x)
    np.testing.assert_array_equal(runner.run([x, np.array(False)])[0], -x)
