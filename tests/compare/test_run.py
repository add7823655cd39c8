import dataclasses
import json

import numpy as np
import pytest
import tvm
from tvm import relax, tirx

from tests.compare.modules import ModuleWorkload, chain_workload, module, normal, tensor
from tvm_vfuse import pipeline
from tvm_vfuse.build import json_text
from tvm_vfuse.compare import COLUMNS, compare_workload
from tvm_vfuse.device import host_target, parse_target
from tvm_vfuse.errors import InputError

op = relax.op
FIELDS = {
    "input",
    "target",
    "column",
    "kernels",
    "boundary_bytes",
    "ideal_bytes",
    "in_kernel_bytes",
    "flop",
    "flop_per_byte",
    "peak_bytes",
    "predicted_us",
    "measured_ms",
    "max_error",
    "compile_s",
    "kernel_list",
}
KERNEL_FIELDS = {
    "name",
    "ops",
    "registers",
    "spill_bytes",
    "stack_bytes",
    "shared_bytes",
    "threads",
    "blocks",
    "occupancy",
    "vector_bytes",
}


def compared(workload, **options):
    rows = compare_workload(workload, options.pop("target", host_target()), **{"budget_s": 0.05, **options})
    return {row.column: row for row in rows}


def broken(change):
    """A pipeline whose kernels are changed by ``change(function) -> function`` after they are made."""
    real = pipeline.run

    def run(mod, target, options):
        result = real(mod, target, options)
        made = result.mod.clone()
        for var, function in result.mod.functions.items():
            if isinstance(function, tirx.PrimFunc):
                made.update_func(var, change(function))
        return dataclasses.replace(result, mod=made)

    return run


def other_constant(function):
    """The same function with each float constant a little larger."""
    import tvm_ffi

    def shift(literal):
        return tirx.FloatImm(literal.ty, literal.value + 0.25)

    return function.with_body(tvm_ffi.structural_map(function.body, (tirx.FloatImm, shift)))


def test_every_column_has_every_field_of_the_contract():
    rows = compared(chain_workload())
    assert list(rows) == list(COLUMNS)
    for row in rows.values():
        data = json.loads(json_text(row.to_json()))
        assert data.keys() >= FIELDS
        assert data["measured_ms"].keys() == {"median", "p25", "p75", "runs"}
        assert all(kernel.keys() >= KERNEL_FIELDS for kernel in data["kernel_list"])
        assert data["column"] == row.column


def test_counts_of_a_chain_of_three_operators():
    rows = compared(chain_workload(6, 50), timed=False)
    n = 6 * 50 * 4
    assert [rows[c].kernels for c in COLUMNS] == [3, 1, 1]
    assert rows["unfused"].boundary_bytes == 2 * n + 3 * n + 2 * n
    assert rows["vfuse"].boundary_bytes == rows["vfuse"].ideal_bytes == 3 * n
    assert rows["stock"].in_kernel_bytes == 2 * n
    assert rows["vfuse"].in_kernel_bytes == 0
    assert rows["unfused"].peak_bytes == 2 * n
    assert {row.flop for row in rows.values()} == {3 * 300}
    assert rows["vfuse"].flop_per_byte == pytest.approx(900 / (3 * n))
    assert rows["stock"].kernel_list[0].ops == ("tir_exp", "add", "relu")
    assert rows["vfuse"].kernel_list[0].ops == ("tir_exp", "add", "relu")
    assert all(row.measured_ms is None and row.max_error < 1e-6 for row in rows.values())


def test_times_come_with_ratios_against_each_other_column():
    rows = compared(chain_workload())
    assert rows["vfuse"].time_ratio.keys() == {"unfused", "stock"}
    assert all(row.measured_ms.runs >= 3 for row in rows.values())
    assert all(row.compile_s > 0 for row in rows.values())


def test_only_the_columns_asked_for_are_shown():
    assert list(compared(chain_workload(), against=["stock"], timed=False)) == ["stock", "vfuse"]
    assert list(compared(chain_workload(), against=[], timed=False)) == ["vfuse"]
    with pytest.raises(InputError, match="'fastest' is unknown; one of unfused, stock, vfuse"):
        compared(chain_workload(), against=["fastest"])


def test_symbolic_shapes_are_those_of_the_inputs():
    def make():
        n = tirx.Var("n", "int64")
        return module([tensor("x", (n, 8))], lambda emit, x: emit(op.nn.relu(emit(op.exp(x)))))

    rows = compared(ModuleWorkload("dynamic", make, normal((5, 8))), timed=False)
    assert rows["unfused"].boundary_bytes == 4 * 5 * 8 * 4
    assert rows["unfused"].flop == 2 * 5 * 8


@pytest.mark.parametrize("dtype", ["float16", "float64", "int32"])
def test_other_dtypes(dtype):
    def make():
        x = tensor("x", (4, 6), dtype)
        return module([x], lambda emit, x: emit(op.add(emit(op.multiply(x, x)), x)))

    sample = lambda seed: [np.random.default_rng(seed).integers(-50, 50, (4, 6)).astype(dtype)]  # noqa: E731
    rows = compared(ModuleWorkload("square", make, sample), timed=False)
    assert not any(row.wrong or row.failure for row in rows.values())
    assert rows["vfuse"].boundary_bytes == 2 * 24 * np.dtype(dtype).itemsize


def test_a_wrong_kernel_is_found_and_not_timed(monkeypatch):
    monkeypatch.setattr(pipeline, "run", broken(other_constant))
    rows = compared(chain_workload())
    assert rows["vfuse"].wrong
    assert rows["vfuse"].max_error > 0.01
    assert rows["vfuse"].measured_ms is None
    assert not rows["stock"].wrong
    assert rows["stock"].measured_ms is not None


def test_a_column_that_fails_says_why_and_the_others_stand(monkeypatch):
    def fail(mod, target, options):
        raise RuntimeError("no kernel today\nand more")

    monkeypatch.setattr(pipeline, "run", fail)
    rows = compared(chain_workload())
    assert rows["vfuse"].failure == "passes: RuntimeError: no kernel today"
    assert rows["vfuse"].kernels is None
    assert rows["stock"].measured_ms is not None


def test_code_for_another_machine_is_compiled_and_counted_but_not_run():
    target = parse_target('{"kind": "llvm", "mtriple": "aarch64-linux-gnu"}')
    rows = compared(chain_workload(), target=target)
    for row in rows.values():
        assert row.failure is None
        assert row.kernels is not None
        assert row.compile_s > 0
        assert row.measured_ms is None
        assert row.max_error is None


def test_a_function_that_overwrites_its_input_is_said_to():
    from tests.compare.modules import doubling_kernel

    def make():
        def body(emit, x, double):
            return emit(relax.op.call_tir_inplace(double, [x, x], [1], relax.TensorType([40], "float32")))

        return module([tensor("x", (40,))], body, double=doubling_kernel)

    rows = compared(ModuleWorkload("inplace", make, normal((40,))), timed=False)
    assert any("overwritten" in note for note in rows["unfused"].notes)
    assert not rows["unfused"].wrong


def test_the_callers_module_is_not_changed():
    workload = chain_workload()
    mod = workload.build()
    before = tvm.ir.save_json(mod)
    compared(ModuleWorkload("kept", lambda: mod, workload.sample), timed=False)
    assert tvm.ir.save_json(mod) == before


def test_the_seed_of_the_options_chooses_the_inputs():
    from tvm_vfuse.options import FusionOptions

    seeds = []

    def sample(seed):
        seeds.append(seed)
        return normal((6, 50), (6, 50))(seed)

    compared(dataclasses.replace(chain_workload(), sample=sample), options=FusionOptions(seed=7), timed=False)
    assert set(seeds) == {7}
