"""The commands from outside: what goes to which stream, exit statuses, JSON."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.compare.test_run import FIELDS, KERNEL_FIELDS, broken, other_constant
from tvm_vfuse import __version__, pipeline
from tvm_vfuse.cli import cli
from tvm_vfuse.doctor import PINNED

ROOT = Path(__file__).parents[2]
SMALL = "add_rms_norm:8x64"
GROUP_FIELDS = {
    "name",
    "ops",
    "inputs",
    "outputs",
    "block_axes",
    "scopes",
    "registers_predicted",
    "registers_ptxas",
    "saved_bytes",
    "predicted_us",
    "template",
}
MODULE = """
from tvm.script import ir as I, relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 8), "float32"), y: R.Tensor(("n", 8), "float32")) -> R.Tensor(("n", 8), "float32"):
        with R.dataflow():
            a = R.exp(x)
            b = R.add(a, y)
            c = R.nn.relu(b)
            R.output(c)
        return c
"""


@pytest.fixture(autouse=True)
def wide_pipe(monkeypatch):
    """A pipe has no width; test runners that set COLUMNS give it one."""
    monkeypatch.delenv("COLUMNS", raising=False)


def invoke(*args):
    return CliRunner().invoke(cli, [str(arg) for arg in args])


def lines(text):
    return [line for line in text.splitlines() if line.strip()]


@pytest.fixture
def module_file(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(MODULE)
    return path


# ------------------------------------------------------------------------------------------------------------ usage
@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["fly"], "No such command 'fly'"),
        ([], "Missing command"),
        (["compare", "--colour"], "No such option"),
        (["explain"], "Missing argument 'INPUT'"),
        (["build", SMALL], "Missing option '-o'"),
        (["check", SMALL, "--seeds", "0"], "--seeds"),
        (["compare", SMALL, "--target", "gpu"], "target 'gpu' is unknown"),
        (["compare", SMALL, "--target", "cuda"], "CUDA kernels are not built by this version"),
        (["compare", SMALL, "--target", '{"kind": "llvm", "mcpu": "haswel"}'], "did you mean haswell"),
        (["compare", "add_rms_nrom"], "did you mean add_rms_norm"),
        (["compare", "add_rms_norm:8"], "add_rms_norm"),
        (["compare", "missing.onnx"], "no such file"),
        (["compare", SMALL, "--against", "fastest"], "column 'fastest' is unknown"),
        (["compare", SMALL, "--numerics", "loose"], "'loose' is not one of"),
        (["compare", SMALL, "--registers", "3"], "registers: 3 is below"),
        (["compare", SMALL, "--dim", "n"], "expected NAME=N"),
        (["compare", SMALL, "--dim", "n=0"], "expected NAME=N"),
        (["compare", SMALL, "--json", "no/such/dir/out.json"], "is no directory"),
        (["explain", SMALL, "--groups", "no-such-file.json"], "groups file no-such-file.json"),
    ],
)
def test_bad_usage_is_one_line_on_standard_error_and_status_2(args, says):
    result = invoke(*args)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert len(lines(result.stderr)) == 1
    assert says in result.stderr
    assert result.stderr.startswith("tvm-vfuse")


def test_version_and_help_answer():
    assert invoke("--version").stdout == f"tvm-vfuse {__version__}\n"
    result = invoke("--help")
    assert result.exit_code == 0
    for command in ("list", "compare", "explain", "build", "check", "doctor"):
        assert command in result.stdout
        assert invoke(command, "--help").exit_code == 0


def test_the_version_and_the_pins_are_those_of_the_package():
    tomllib = pytest.importorskip("tomllib")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == __version__
    assert {f"{name}=={version}" for name, version in PINNED.items()} <= set(project["dependencies"])


def test_an_unforeseen_fault_is_one_line_and_verbose_shows_the_traceback(monkeypatch):
    def fail(mod, target, options):
        raise ZeroDivisionError("first line\nsecond line")

    monkeypatch.setattr(pipeline, "run", fail)
    result = invoke("explain", SMALL)
    assert (result.exit_code, result.stdout) == (1, "")
    assert lines(result.stderr) == ["tvm-vfuse: ZeroDivisionError: first line (-v shows the traceback)"]
    assert "Traceback" in invoke("explain", SMALL, "-v").stderr


# ------------------------------------------------------------------------------------------------------------- list
def test_list_names_what_each_workload_is(tmp_path):
    out = tmp_path / "list.json"
    result = invoke("list", "--json", out)
    assert result.exit_code == 0
    entries = json.loads(out.read_text())
    assert all(entry.keys() >= {"name", "description", "shapes", "dtype"} for entry in entries)
    shown = result.stdout
    assert all(entry["name"] in shown for entry in entries)
    assert {"add_rms_norm", "resnet18_224"} <= {entry["name"] for entry in entries}


# ---------------------------------------------------------------------------------------------------------- compare
def test_compare_prints_columns_and_writes_the_contract_s_fields(tmp_path):
    out = tmp_path / "rows.json"
    result = invoke("compare", SMALL, "softmax:4x32", "--json", out, "--budget", "0.01")
    assert result.exit_code == 0, result.stderr
    rows = json.loads(out.read_text())
    assert [(row["input"], row["column"]) for row in rows] == [
        (name, column) for name in (SMALL, "softmax:4x32") for column in ("unfused", "stock", "vfuse")
    ]
    for row in rows:
        assert row.keys() >= FIELDS
        assert all(kernel.keys() >= KERNEL_FIELDS for kernel in row["kernel_list"])
        assert row["measured_ms"]["runs"] >= 3
    assert "geometric mean" in result.stdout
    assert "time / stock" in result.stdout


def test_piped_text_has_no_control_codes_and_fits_its_width(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    for args in (["compare", SMALL, "--no-measure"], ["explain", SMALL], ["list"], ["check", SMALL], ["doctor"]):
        result = invoke(*args)
        assert result.exit_code == 0
        assert "\x1b" not in result.stdout
        assert result.stdout.isascii()
        tables = [
            line for line in result.stdout.splitlines() if not line.startswith(("NVRTC", "nvcc", "onnx", "torch"))
        ]
        assert max(map(len, tables)) <= 60


def test_without_measuring_there_are_no_times_but_errors():
    result = invoke("compare", SMALL, "--no-measure", "--against", "stock")
    assert result.exit_code == 0
    assert "median ms" not in result.stdout
    assert "max error" in result.stdout
    assert "unfused" not in result.stdout


def test_a_wrong_result_is_printed_and_ends_in_status_1(monkeypatch, tmp_path):
    monkeypatch.setattr(pipeline, "run", broken(other_constant))
    out = tmp_path / "rows.json"
    result = invoke("compare", "gelu_tanh:8x64", "--no-measure", "--json", out)
    assert result.exit_code == 1
    assert "WRONG RESULT" in result.stdout
    assert lines(result.stderr) == ["tvm-vfuse: gelu_tanh:8x64: vfuse: wrong result"]
    assert [row["wrong"] for row in json.loads(out.read_text())] == [False, False, True]


def test_progress_goes_to_standard_error():
    result = invoke("compare", SMALL, "--no-measure", "-v")
    assert f"{SMALL}: vfuse: compiling" in result.stderr
    assert "compiling" not in result.stdout


def test_a_file_s_symbolic_dimension_can_be_given(module_file, tmp_path):
    out = tmp_path / "rows.json"
    assert invoke("compare", module_file, "--dim", "n=5", "--no-measure", "--json", out).exit_code == 0
    rows = json.loads(out.read_text())
    assert rows[0]["ideal_bytes"] == 3 * 5 * 8 * 4
    assert rows[0]["input"] == str(module_file)


# ---------------------------------------------------------------------------------------------------------- explain
def test_explain_gives_groups_and_refused_edges(tmp_path):
    out = tmp_path / "plan.json"
    result = invoke("explain", "resnet_bottleneck:small", "--json", out)
    assert result.exit_code == 0, result.stderr
    plan = json.loads(out.read_text())
    assert plan.keys() == {"groups", "refused"}
    assert plan["groups"]
    assert plan["refused"]
    assert all(group.keys() >= GROUP_FIELDS for group in plan["groups"])
    assert all(edge.keys() >= {"producer", "consumer", "reason", "detail", "slack"} for edge in plan["refused"])
    assert all(edge["reason"] and edge["detail"] for edge in plan["refused"])
    assert plan["groups"][0]["name"] in result.stdout


def test_a_plan_given_by_hand_is_followed(module_file, tmp_path):
    groups, out = tmp_path / "groups.json", tmp_path / "plan.json"
    groups.write_text('[["a", "b"]]')
    result = invoke("explain", module_file, "--groups", groups, "--json", out)
    assert result.exit_code == 0, result.stderr
    plan = json.loads(out.read_text())
    assert ["a", "b"] in [group["members"] for group in plan["groups"]]
    assert len(plan["groups"]) == 2


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[[", "no valid JSON"),
        ('{"gruops": []}', "key 'gruops' is unknown"),
        ('{"refused": []}', "no key 'groups'"),
        ("5", "expected a list of groups"),
        ('[["a", 3]]', "group 0 is not a list of binding names"),
        ('[["a"], []]', "group 1 is not a list of binding names"),
        ('[["a", "nothing"]]', "nothing"),
    ],
)
def test_a_groups_file_that_is_none_is_refused(module_file, tmp_path, text, says):
    groups = tmp_path / "groups.json"
    groups.write_text(text)
    result = invoke("explain", module_file, "--groups", groups)
    assert result.exit_code == 2
    assert says in result.stderr
    assert len(lines(result.stderr)) == 1


# ------------------------------------------------------------------------------------------------------ build, check
def test_build_writes_the_files_and_its_plan_can_be_given_back(module_file, tmp_path):
    out = tmp_path / "built"
    result = invoke("build", module_file, "-o", out)
    assert result.exit_code == 0, result.stderr
    assert [Path(line).name for line in lines(result.stdout)] == ["module.so", "plan.json", "resources.json"]
    assert all(kernel.keys() >= KERNEL_FIELDS for kernel in json.loads((out / "resources.json").read_text()))
    again = tmp_path / "again.json"
    assert invoke("explain", module_file, "--groups", out / "plan.json", "--json", again).exit_code == 0
    members = [
        [group["members"] for group in json.loads(path.read_text())["groups"]] for path in (out / "plan.json", again)
    ]
    assert members[0] == members[1]


def test_check_certifies_and_a_fault_ends_in_status_1(monkeypatch):
    result = invoke("check", SMALL, "--seeds", "1")
    assert result.exit_code == 0
    assert "main" in result.stdout
    monkeypatch.setattr(pipeline, "run", broken(other_constant))
    result = invoke("check", "gelu_tanh:8x64", "--seeds", "1")
    assert result.exit_code == 1
    assert "FAILED" in result.stdout
    assert "checks failed" in result.stderr


# ----------------------------------------------------------------------------------------------------------- doctor
def test_doctor_tells_versions_and_how_to_get_what_is_missing(monkeypatch, tmp_path):
    out = tmp_path / "doctor.json"
    result = invoke("doctor", "--json", out)
    assert result.exit_code == 0
    found = {entry["name"]: entry for entry in json.loads(out.read_text())}
    assert found["apache-tvm-ffi"]["value"] == "0.1.14.post0 (the pinned version)"
    assert {
        "python",
        "numpy",
        "xgboost",
        "LLVM",
        "CPU",
        "vectors",
        "caches",
        "C++ compiler",
        "nvcc",
        "GPU",
    } <= found.keys()
    monkeypatch.setenv("PATH", str(tmp_path))
    missing = invoke("doctor")
    assert missing.exit_code == 0
    assert "apt-get install g++" in missing.stdout


def test_doctor_survives_a_package_that_is_not_there(monkeypatch):
    import importlib.metadata

    def absent(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", absent)
    result = invoke("doctor")
    assert result.exit_code == 0
    for command in ("pip install apache-tvm==0.27.0.post1", "pip install apache-tvm-ffi==0.1.14.post0"):
        assert command in result.stdout


# ------------------------------------------------------------------------------------------------------ the process
def run(*args, **kwargs):
    command = [sys.executable, "-m", "tvm_vfuse", *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False, **kwargs)


def test_the_process_exits_with_the_status():
    assert run("--version").returncode == 0
    done = run("explain", "nothing_like_it")
    assert (done.returncode, done.stdout) == (2, "")
    assert len(lines(done.stderr)) == 1


def test_a_reader_that_goes_away_is_no_fault():
    command = f"{sys.executable} -m tvm_vfuse list | head -1"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert done.stderr == ""
    assert len(done.stdout.splitlines()) == 1


@pytest.mark.parametrize(
    "statement", ["import tvm_vfuse", "import tvm_vfuse.cli", "from tvm_vfuse import FusionOptions"]
)
def test_tvm_is_not_loaded_before_it_is_needed(statement):
    code = f"import sys; {statement}; assert not any(m.split('.')[0] in ('tvm', 'tvm_ffi') for m in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr


def test_list_needs_no_tvm():
    code = (
        "import sys; sys.modules['tvm'] = None; sys.modules['tvm_ffi'] = None; "
        "from tvm_vfuse.cli import main; sys.argv = ['tvm-vfuse', 'list']; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    assert "add_rms_norm" in done.stdout


def test_public_names_are_there_and_unknown_ones_are_not():
    import tvm_vfuse

    for name in tvm_vfuse.__all__:
        if name != "__version__":
            assert callable(getattr(tvm_vfuse, name))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = tvm_vfuse.nothing
