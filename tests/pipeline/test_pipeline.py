"""The packaging for users of TVM: a pass, a list of passes, a whole pipeline; options; what the result tells."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tvm
from tvm import relax, tirx
from tvm.relax.backend.cpu_generic import pipeline as cpu

from tests.cases.modules import const
from tests.pipeline.columns import Column, fused_column, target, unfused_column
from tests.schedule.equivalence import assert_close, assert_same_bits, draw, draws, graph, wide
from tvm_vfuse import pipeline
from tvm_vfuse.build import Runner, compile_module
from tvm_vfuse.errors import InputError, Reject
from tvm_vfuse.options import FusionOptions

SHAPE = (64, 256)


def small(g, x, y):
    e = g.exp(g.add(x, y))
    return [e, g.softmax(g.multiply(e, y), axis=1)]


def small_module() -> tvm.IRModule:
    return graph(small, SHAPE, SHAPE)


def expected(x, y):
    e = np.exp(x + y)
    z = e * y
    p = np.exp(z - z.max(1, keepdims=True))
    return [e, p / p.sum(1, keepdims=True)]


def run(executable, inputs):
    return Runner(executable).run(inputs)


# ------------------------------------------------------------------------------------------------- packaging
def whole_pipeline(mod):
    return tvm.compile(mod, target(), relax_pipeline=pipeline.full(target()))


def by_name(mod):
    return tvm.compile(mod, target(), relax_pipeline="vfuse")


def in_a_sequential(mod):
    passes = [*pipeline.passes(target()), *cpu.dataflow_lower_passes(target()), *cpu.finalize_passes(target())]
    return tvm.compile(mod, target(), relax_pipeline=tvm.transform.Sequential(passes))


def looked_up(mod):
    with target():
        lowered = relax.get_pipeline("vfuse")(mod)
    return relax.build(lowered, target(), relax_pipeline=None)


def kernels_first(mod):
    return compile_module(pipeline.make(target())(mod), target())


PACKAGINGS = [whole_pipeline, by_name, in_a_sequential, looked_up, kernels_first]


@pytest.mark.parametrize("build", PACKAGINGS, ids=lambda f: f.__name__)
def test_every_way_to_use_it_gives_the_same_results(build, rng):
    inputs = draws(rng, SHAPE, SHAPE)
    got = run(build(small_module()), inputs)
    assert_close(got, expected(*wide(inputs)), 5e-5)
    assert_same_bits(got, fused_column(small_module()).run(inputs))


def test_registering_twice_does_nothing():
    before = relax.pipeline.PIPELINE_MAP[pipeline.PIPELINE_NAME]
    pipeline.register()
    assert relax.pipeline.PIPELINE_MAP[pipeline.PIPELINE_NAME] is before


def test_weights_may_be_bound_or_given(rng):
    weight = draw(rng, (256,))
    mod = graph(lambda g, x, w: g.relu(g.multiply(x, w)), SHAPE, (256,))
    x = draw(rng, SHAPE)
    given = run(whole_pipeline(mod), [x, weight])
    bound = relax.transform.BindParams("main", {"x1": weight})(mod)
    assert_same_bits(run(whole_pipeline(bound), [x]), given)


def test_branches_pass_through_the_whole_pipeline(rng):
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(SHAPE, "float32"))
    flag = relax.Var("flag", relax.TensorType((), "bool"))

    def side(op):
        v = relax.Var("v", x.ty)
        return relax.SeqExpr([relax.BindingBlock([relax.VarBinding(v, op(x))])], v)

    with builder.function("main", [x, flag]):
        y = builder.emit(relax.If(flag, side(relax.op.exp), side(relax.op.negative)))
        builder.emit_func_output(builder.emit(relax.op.add(y, x)))
    executable = whole_pipeline(builder.get())
    data = draw(rng, SHAPE)
    assert_close(run(executable, [data, np.array(True)]), [np.exp(data) + data])
    assert_close(run(executable, [data, np.array(False)]), [np.zeros_like(data)])


def test_the_result_holds_call_tirs_of_scheduled_kernels_only():
    mod = fused_column(small_module()).mod
    functions = [f for f in mod.functions.values() if isinstance(f, tirx.PrimFunc)]
    assert functions
    assert all(f.attrs["tirx.is_scheduled"] for f in functions)


def test_attributes_of_the_target_are_data():
    assert isinstance(pipeline.TARGET_ATTRS, dict)
    assert tvm.target.Target({"kind": "llvm"} | pipeline.TARGET_ATTRS)


# ------------------------------------------------------------------------------------------------- refusals
def test_a_target_without_kernels_is_refused_with_the_way_out():
    cuda = tvm.target.Target({"kind": "cuda", "arch": "sm_90"})
    with pytest.raises(InputError, match=r"target cuda: .* use --target llvm"):
        pipeline.run(small_module(), cuda)


def test_a_group_of_unknown_operators_is_refused():
    with pytest.raises(InputError, match=r"group 0 names 'lv99', which is no operator of the module; nearest: lv"):
        pipeline.run(small_module(), target(), FusionOptions(groups=(("lv99",),)))


def test_a_kind_that_is_none_is_refused():
    with pytest.raises(InputError, match="is no kind of fusion"):
        pipeline.run(small_module(), target(), FusionOptions(never=("everything",)))


def test_a_group_that_no_template_takes_is_cut_and_planned_again(monkeypatch, rng):
    """What the schedule refuses after planning becomes the reason of its edges."""
    schedule = pipeline.schedule_cpu

    def picky(func, device, options):
        if sum(isinstance(p.ty, tirx.BufferType) for p in func.params) == 3 and "tanh" in str(func):
            raise Reject("not-today", "refused by this test")
        return schedule(func, device, options)

    monkeypatch.setattr(pipeline, "schedule_cpu", picky)
    mod = graph(lambda g, x, y: g.tanh(g.add(x, y)), SHAPE, SHAPE)
    column = Column(pipeline.run(mod, target()).mod)
    inputs = draws(rng, SHAPE, SHAPE)
    assert len(column.kernels(inputs)) == 2
    (refusal,) = pipeline.run(mod, target()).refused
    assert (refusal["reason"], refusal["detail"]) == ("not-today", "refused by this test")
    assert_close(column.run(inputs), [np.tanh(inputs[0] + inputs[1])])


# ------------------------------------------------------------------------------------------------- options
def test_fast_numerics_contract_and_exact_ones_do_not():
    x = np.linspace(1.0, 2.0, 4096, dtype="float32")
    mod = graph(lambda g, x, y: g.subtract(g.multiply(x, x), y), x.shape, x.shape)
    exact, fast = (fused_column(mod, FusionOptions(numerics=n)).run([x, x * x])[0] for n in ("exact", "fast"))
    assert not exact.any()
    assert np.abs(fast).max() < 1e-6
    source = [fused_column(mod, FusionOptions(numerics=n)).mod.script() for n in ("exact", "fast")]
    assert "llvm.arithmetic.fence" in source[0]
    assert "llvm.arithmetic.fence" not in source[1]


def test_libm_math_is_the_platforms_bit_for_bit_and_vector_math_is_within_2_ulp(rng):
    mod = graph(lambda g, x: g.tanh(g.exp(g.negative(x))), SHAPE)
    x = draw(rng, SHAPE)
    (plain,) = unfused_column(mod).run([x])
    (libm,) = fused_column(mod, FusionOptions(math="libm")).run([x])
    (vector,) = fused_column(mod, FusionOptions(math="vector")).run([x])
    assert_same_bits([libm], [plain])
    assert not np.array_equal(vector, plain)
    np.testing.assert_array_max_ulp(vector, plain, 6)  # two functions, each within 2 ULP


@pytest.mark.parametrize("count", [0, 1, 2, 9])
def test_the_first_groups_only(count, rng):
    def body(g, x):
        a = g.tanh(g.exp(x))
        b = g.tanh(g.negative(g.cumsum(a, axis=1)))
        return g.relu(g.add(g.cumsum(b, axis=1), x))

    mod = graph(body, SHAPE)
    x = draw(rng, SHAPE)
    column = fused_column(mod, FusionOptions(first_groups=count, math="libm"))
    fused = [g for g in column.result.groups if len(g["members"]) > 1]
    assert len(fused) == min(count, 3)
    assert_same_bits(column.run([x]), unfused_column(mod).run([x]))


def test_groups_by_hand(rng):
    mod = small_module()
    inputs = draws(rng, SHAPE, SHAPE)
    column = fused_column(mod, FusionOptions(groups=(("lv", "lv1"),)))
    assert next(g["members"] for g in column.result.groups) == ["lv", "lv1"]
    assert len(column.kernels(inputs)) == 3
    assert_close(column.run(inputs), expected(*wide(inputs)), 5e-5)


# ------------------------------------------------------------------------------------------------- report
KEYS = {"name", "ops", "inputs", "outputs", "block_axes", "scopes", "registers_predicted", "registers_ptxas",
        "saved_bytes", "predicted_us", "template"}  # fmt: skip


def test_groups_have_the_promised_keys_and_are_json():
    result = fused_column(small_module()).result
    (group,) = result.groups
    assert set(group) >= KEYS
    assert json.loads(json.dumps(result.groups)) == result.groups
    assert group["inputs"] == ["x0", "x1"]
    assert len(group["outputs"]) == 2
    assert len(group["ops"]) == 4
    assert group["template"] == "row-reduction"
    assert set(group["scopes"].values()) <= {"register", "shared", "global"}
    assert group["predicted_us"] > 0


def test_saved_bytes_are_what_the_intermediates_would_move():
    """Three operators between x and the result: two intermediates of 64 KiB, each written and read."""
    mod = graph(lambda g, x: g.tanh(g.exp(g.negative(x))), SHAPE)
    (group,) = fused_column(mod).result.groups
    assert group["saved_bytes"] == 2 * 2 * 64 * 256 * 4


def test_each_use_of_equal_groups_is_reported():
    def body(g, x):
        a = g.tanh(g.exp(x))
        return g.tanh(g.exp(g.cumsum(a, axis=1)))

    column = fused_column(graph(body, SHAPE))
    members = [g["members"] for g in column.result.groups if len(g["members"]) > 1]
    assert members == [["lv", "lv1"], ["lv3", "gv"]]
    assert len({g["name"] for g in column.result.groups}) == 2


def test_a_producer_without_a_kernel_of_its_own_is_not_reported_as_one():
    """The transpose is computed again in both convolutions."""
    shapes = [(4, 32, 64, 64), (32, 1, 3, 3), (32, 1, 3, 3)]

    def body(g, x, w, v):
        p = g.permute_dims(x, [0, 1, 3, 2])
        return [g.conv2d(p, w, groups=32), g.conv2d(p, v, groups=32)]

    column = fused_column(graph(body, *shapes))
    kernels = column.kernels([np.zeros(s, "float32") for s in shapes])
    assert sorted(g["name"] for g in column.result.groups) == sorted(kernels)
    assert ["transpose" in g["ops"] for g in column.result.groups] == [True] * len(kernels)


def test_refusals_name_operators_and_reasons():
    mod = graph(lambda g, x, w: g.matmul(g.exp(x), w), (32, 64), (64, 16))
    (refusal,) = fused_column(mod).result.refused
    assert set(refusal) == {"producer", "consumer", "reason", "detail", "slack"}
    assert (refusal["producer"], refusal["consumer"]) == ("lv", "gv")
    assert refusal["reason"] == "expensive-recompute"


def test_a_module_without_operators_passes():
    result = fused_column(graph(lambda g, x: x, SHAPE)).result
    assert result.groups == []
    assert result.refused == []


def test_scalars_and_constants_alone_pass(rng):
    mod = graph(lambda g, x: g.add(g.multiply(x, const(2.0)), g.add(const(1.0), const(2.0))), ())
    x = np.float32(1.5)
    assert_close(fused_column(mod).run([np.asarray(x)]), [np.asarray(6.0)])
