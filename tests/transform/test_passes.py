"""No pass changes the module it is given; what prepare and legalize leave behind."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax, tirx

from tests.cases.modules import const
from tests.pipeline.columns import target
from tests.schedule.equivalence import graph
from tests.transform.grouping import called, grouped, legal, primitives, snapshot
from tvm_vfuse import pipeline
from tvm_vfuse.transform.fuse import map_kernels
from tvm_vfuse.transform.prepare import legalize, prepare
from tvm_vfuse.transform.respecialize import respecialize


def norm_module() -> tvm.IRModule:
    statistics = [const(np.linspace(0.5, 1.5, 4)) for _ in range(4)]
    weight = const(np.random.default_rng(0).standard_normal((4, 3, 3, 3)))

    def body(g, x):
        y = g.conv2d(x, weight)
        y = g.fields(g.batch_norm(y, *statistics, axis=1))[0]
        g.exp(x)  # nobody reads it
        return g.relu(g.add(y, g.add(const(1.0), const(2.0))))

    return graph(body, (1, 3, 8, 8))


STAGES = {
    "prepare": prepare,
    "legalize": lambda mod: legalize(prepare(mod)),
    "respecialize": lambda mod: respecialize(legalize(prepare(mod))),
    "pipeline": lambda mod: pipeline.run(mod, target()).mod,
    "pass": lambda mod: pipeline.make(target())(mod),
    "full": lambda mod: pipeline.full(target())(mod),
}


@pytest.mark.parametrize("name", STAGES)
def test_the_input_is_not_changed(name):
    mod = norm_module()
    before = snapshot(mod)
    with target():
        first = STAGES[name](mod)
        assert snapshot(mod) == before
        second = STAGES[name](mod)
    assert snapshot(first) == snapshot(second)


@pytest.mark.parametrize("step", [legalize, respecialize])
def test_nor_that_of_the_later_steps(step):
    with target():
        mod = prepare(norm_module()) if step is legalize else legalize(prepare(norm_module()))
        before = snapshot(mod)
        step(mod)
    assert snapshot(mod) == before


def test_mapping_kernels_gives_a_new_module():
    mod = legal(norm_module())
    before = snapshot(mod)
    marked = map_kernels(mod, lambda name, func: func.with_attr("seen", name))
    assert snapshot(mod) == before
    functions = {gv.name_hint: f for gv, f in marked.functions.items() if isinstance(f, tirx.PrimFunc)}
    assert functions
    assert all(f.attrs["seen"] == name for name, f in functions.items())
    assert snapshot(map_kernels(mod, lambda _name, func: func)) == before


# -------------------------------------------------------------------------------------------------------------- prepare
def test_batch_norm_after_a_constant_convolution_is_folded_into_it():
    with target():
        prepared = prepare(norm_module())
    names = called(prepared["main"])
    assert not any("batch_norm" in n for n in names)
    assert names.count("relax.nn.conv2d") == 1
    assert len(names) <= 4


def test_dead_and_constant_operators_are_gone():
    with target():
        names = called(prepare(norm_module())["main"])
    assert "relax.exp" not in names
    assert sum(n == "relax.add" for n in names) <= 2


def test_high_level_operators_stay_until_they_are_legalised():
    with target():
        prepared = prepare(norm_module())
        kernels = legalize(prepared)
    assert all(n.startswith("relax.") for n in called(prepared["main"]))
    assert not any(isinstance(f, tirx.PrimFunc) for f in prepared.functions.values())
    assert any(isinstance(f, tirx.PrimFunc) for f in kernels.functions.values())


def test_a_prepared_module_is_prepared():
    with target():
        once = prepare(norm_module())
        assert snapshot(prepare(once)) == snapshot(once)


def test_what_is_legal_already_passes(rng):
    """A module of call_tirs gives the same kernels as the module of operators it came from."""
    mod = graph(lambda g, x: g.tanh(g.exp(x)), (4, 8))
    with target():
        low = relax.transform.LegalizeOps()(mod)
    (a,), (b,) = (list(pipeline.run(m, target()).mod.functions.items())[:1] for m in (mod, low))
    assert snapshot(tvm.IRModule({"k": a[1]})) == snapshot(tvm.IRModule({"k": b[1]}))


def test_no_primitive_functions_are_left():
    mod = pipeline.run(norm_module(), target()).mod
    assert primitives(mod) == {}
    assert grouped(legal(norm_module())).groups == {}
