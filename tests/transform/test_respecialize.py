"""Kernels for every shape or with 32-bit extents get the shapes of their calls, so that FuseTIR takes them."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax, tirx
from tvm.ir import Var
from tvm.script import tirx as T

from tests.cases.modules import dataflow, tensor
from tests.graph.kernels import argmax, doubled, row_sum, two_stages
from tests.graph.refused_kernels import half_walked
from tests.graph.regions import region_of
from tests.pipeline.columns import fused_column, unfused_column
from tests.schedule.equivalence import assert_close, assert_one_kernel, assert_same_bits, draw
from tests.transform.grouping import snapshot
from tvm_vfuse.graph.extract import read_kernel
from tvm_vfuse.graph.indices import index
from tvm_vfuse.graph.stages import Tensor
from tvm_vfuse.transform.respecialize import respecialize, write_blocks


@T.prim_func(private=True, s_tir=True)
def negate_any(a: T.handle, b: T.handle):
    n, m = T.int64(), T.int64()
    source = T.match_buffer(a, (n, m), "float32")
    target = T.match_buffer(b, (n, m), "float32")
    for i, j in T.grid(n, m):
        with T.sblock("negate"):
            vi, vj = T.axis.remap("SS", [i, j])
            target[vi, vj] = -source[vi, vj]


@T.prim_func(private=True, s_tir=True)
def square_of_any(a: T.handle, b: T.handle, c: T.handle):
    """Two inputs of one shape, which may be the same tensor."""
    n, m = T.int64(), T.int64()
    first = T.match_buffer(a, (n, m), "float32")
    second = T.match_buffer(b, (n, m), "float32")
    out = T.match_buffer(c, (n, m), "float32")
    for i, j in T.grid(n, m):
        with T.sblock("product"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = first[vi, vj] * second[vi, vj]


def buffers(func: tirx.PrimFunc) -> list[tuple[list[int], str]]:
    return [([int(e) for e in p.ty.shape], str(p.ty.shape[0].ty)) for p in func.params]


def kernels(mod: tvm.IRModule) -> dict[str, tirx.PrimFunc]:
    return {gv.name_hint: f for gv, f in mod.functions.items() if isinstance(f, tirx.PrimFunc)}


def chain(kernel, shape, out=None, inputs=1):
    def body(g, x):
        made = g.kernel(kernel, [g.exp(x)] * inputs, tensor(*(out or shape)))
        return g.add(made, made)

    return dataflow({"x": tensor(*shape)}, body)


def test_a_kernel_for_every_shape_gets_the_shape_of_its_call(rng):
    mod = chain(negate_any, (4, 6))
    legal = relax.transform.LegalizeOps()(mod)
    made = kernels(respecialize(legal))
    assert any(
        buffers(f) == [([4, 6], "int64")] * 2 for n, f in made.items() if n.startswith("kernel") and n != "kernel"
    )
    x = draw(rng, (4, 6))
    column = fused_column(mod)
    assert_one_kernel(column, [x], "elementwise")
    assert_close(column.run([x]), [-2 * np.exp(x)])


def test_a_kernel_with_32_bit_extents_gets_64_bits(rng):
    mod = chain(doubled, (8,))
    assert str(doubled.params[0].ty.shape[0].ty) == "int32"
    x = draw(rng, (8,))
    column = fused_column(mod)
    assert_one_kernel(column, [x], "elementwise")
    assert_close(column.run([x]), [4 * np.exp(x)])


@pytest.mark.parametrize(("kernel", "out"), [(row_sum, (8,)), (two_stages, (8, 8))], ids=["reduction", "two stages"])
def test_reductions_and_their_buffers_are_written_anew(kernel, out, rng):
    mod = chain(kernel, (8, 8), out)
    x = draw(rng, (8, 8))
    e = np.exp(x)
    expected = e.sum(1) if out == (8,) else e - e.max(1, keepdims=True)
    column = fused_column(mod)
    assert_one_kernel(column, [x], None)
    assert_close(column.run([x]), [2 * expected])


def test_one_tensor_for_two_parameters(rng):
    mod = chain(square_of_any, (4, 6), inputs=2)
    x = draw(rng, (4, 6))
    column = fused_column(mod)
    assert_one_kernel(column, [x], "elementwise")
    assert_close(column.run([x]), [2 * np.exp(x) ** 2])


def test_each_shape_has_a_kernel_of_its_own(rng):
    def body(g, x, y):
        k = g.builder.add_func(negate_any, "kernel")
        a = g.builder.emit(relax.call_tir(k, relax.Tuple([x]), tensor(4, 6)))
        b = g.builder.emit(relax.call_tir(k, relax.Tuple([y]), tensor(2, 3)))
        c = g.builder.emit(relax.call_tir(k, relax.Tuple([a]), tensor(4, 6)))
        return [b, c]

    mod = dataflow({"x": tensor(4, 6), "y": tensor(2, 3)}, body)
    shapes = [buffers(f) for n, f in kernels(respecialize(mod)).items() if n != "kernel"]
    assert sorted(shapes) == sorted([[([4, 6], "int64")] * 2, [([2, 3], "int64")] * 2])
    inputs = [draw(rng, (4, 6)), draw(rng, (2, 3))]
    assert_same_bits(fused_column(mod).run(inputs), [-inputs[1], inputs[0]])


def test_a_symbolic_call_keeps_its_symbols(rng):
    n = Var("n", "int64")
    mod = dataflow({"x": tensor(n, 6)}, lambda g, x: g.exp(g.kernel(negate_any, [x], tensor(n, 6))))
    column = fused_column(mod)
    for rows in (1, 5):
        x = draw(rng, (rows, 6))
        assert len(column.kernels([x])) == 1
        assert_close(column.run([x]), [np.exp(-x)])


@pytest.mark.parametrize("kernel", [half_walked], ids=["opaque"])
def test_what_can_not_be_read_is_left_alone(kernel):
    mod = chain(kernel, (8,))
    assert list(kernels(respecialize(mod))) == list(kernels(mod))


def test_reductions_that_need_each_other_are_left_alone_and_right(rng):
    def body(g, x):
        call = relax.call_tir(
            g.builder.add_func(argmax, "argmax"), relax.Tuple([x]), [tensor(8, dtype="int64"), tensor(8)]
        )
        at, top = g.fields(g.builder.emit(call))
        return [at, g.negative(top)]

    mod = dataflow({"x": tensor(8, 8)}, body)
    x = draw(rng, (8, 8))
    got = fused_column(mod).run([x])
    np.testing.assert_array_equal(got[0], x.argmax(1))
    assert_close([got[1]], [-x.max(1)])


def test_a_module_that_fits_is_given_back_as_it_is():
    mod = relax.transform.LegalizeOps()(dataflow({"x": tensor(4, 6)}, lambda g, x: g.exp(g.negative(x))))
    assert snapshot(respecialize(mod)) == snapshot(mod)


def test_global_infos_are_kept():
    mod = relax.transform.LegalizeOps()(chain(negate_any, (4, 6)))
    mod.update_global_info("dummy", [relax.DummyGlobalInfo()])
    assert "dummy" in respecialize(mod).global_infos


@pytest.mark.parametrize("kernel", [doubled, row_sum, two_stages], ids=["doubled", "row_sum", "two_stages"])
def test_written_blocks_are_read_as_the_same_stages(kernel):
    """Reading what was written gives the stages that it was written from."""
    first = read_kernel(kernel)
    tensors = [Tensor(t.key, t.name, tuple(map(index, map(int, t.shape))), t.dtype) for t in first.parameters]
    from tvm_vfuse.graph.compose import Member, compose

    program = compose([Member(first, tuple(tensors))], tensors[-1:])
    second = read_kernel(write_blocks(program, tensors))
    assert [s.name for s in second.stages] == [s.name for s in first.stages]
    assert [[len(s.spatial), len(s.reduce)] for s in second.stages] == [
        [len(s.spatial), len(s.reduce)] for s in first.stages
    ]
    assert all(str(e.ty) == "int64" for s in second.stages for _, e in (*s.spatial, *s.reduce))


def test_unfused_and_fused_agree_on_a_dynamic_kernel_of_a_static_call(rng):
    mod = chain(negate_any, (4, 6))
    x = draw(rng, (4, 6))
    assert_close(fused_column(mod).run([x]), unfused_column(mod).run([x]))
    assert region_of(mod).graph.operators[1].kind == "kernel"
