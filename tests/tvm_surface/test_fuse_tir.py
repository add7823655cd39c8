"""What FuseTIR makes of a Primitive function, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.script import tirx as T

MATRIX = relax.TensorType((4, 8), "float32")


@T.prim_func(private=True, s_tir=True)
def add_one(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32")):
    for i, j in T.grid(4, 8):
        with T.sblock("add_one"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + T.float32(1)


@T.prim_func(private=True, s_tir=True)
def double(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32")):
    for i, j in T.grid(4, 8):
        with T.sblock("double"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)


def module_with_group(name: str = "pair", reads_constant: bool = False) -> tvm.IRModule:
    """``main`` calls one Primitive function that returns both (x + 1) and (x + 1) * 2."""
    bb = relax.BlockBuilder()
    first, second = bb.add_func(add_one, "add_one"), bb.add_func(double, "double")
    inner = relax.Var("inner", MATRIX)
    with bb.function(name, [inner], attrs={"Primitive": True}, private=True):
        with bb.dataflow():
            source = relax.const(np.ones((4, 8), "float32")) if reads_constant else inner
            a = bb.emit(relax.call_tir(first, (source,), MATRIX))
            b = bb.emit(relax.call_tir(second, (a,), MATRIX))
            result = bb.emit_output(relax.Tuple([a, b]))
        bb.emit_func_output(result)
    group = bb.get().get_global_var(name)
    x = relax.Var("x", MATRIX)
    with bb.function("main", [x]):
        with bb.dataflow():
            result = bb.emit_output(relax.Call(group, [x]))
        bb.emit_func_output(result)
    return bb.get()


def prim_funcs(mod: tvm.IRModule) -> list[tvm.tirx.PrimFunc]:
    return [f for f in mod.functions.values() if isinstance(f, tvm.tirx.PrimFunc)]


def test_a_group_that_returns_a_tuple_becomes_one_primfunc_with_several_outputs(rng):
    fused = relax.transform.FuseTIR()(module_with_group())
    assert [len(f.params) for f in prim_funcs(fused)] == [3]  # one input, two outputs

    x = rng.standard_normal((4, 8), dtype=np.float32)
    vm = relax.VirtualMachine(tvm.compile(fused, "llvm"), tvm.cpu())
    plus, twice = (t.numpy() for t in vm["main"](tvm.runtime.tensor(x)))
    np.testing.assert_array_equal(plus, x + 1)
    np.testing.assert_array_equal(twice, (x + 1) * 2)


def test_a_group_that_holds_a_tensor_constant_is_refused():
    with pytest.raises(tvm.error.InternalError, match="Tensor constants are not supported in primitive functions"):
        relax.transform.FuseTIR()(module_with_group(reads_constant=True))


def test_reads_are_underdeclared_where_one_value_feeds_two_parameters():
    y = relax.Var("y", relax.TensorType((4, 4), "float32"))
    bb = relax.BlockBuilder()
    with bb.function("main", [y]):
        with bb.dataflow():
            result = bb.emit_output(relax.op.nn.relu(bb.emit(relax.op.matmul(y, y))))
        bb.emit_func_output(result)
    stock = tvm.transform.Sequential(
        [
            relax.transform.LegalizeOps(),
            relax.transform.AnnotateTIROpPattern(),
            relax.transform.FuseOps(),
            relax.transform.FuseTIR(),
        ]
    )
    (kernel,) = prim_funcs(stock(bb.get()))
    schedule = tvm.s_tir.Schedule(kernel)
    matmul = schedule.get(schedule.get_sblock("matmul"))
    read = kernel.params[0].name
    # y[row, k] and y[k, column] are both read, one of the two regions is declared
    assert [region.source.name for region in matmul.reads] == [read]
    assert matmul.body.script().count(f"{read}[") == 2


def test_a_group_without_any_operator_is_named_fused_and_aborts_fuse_tir():
    pair = relax.TupleType([MATRIX, MATRIX])
    x = relax.Var("x", relax.TupleType([pair, MATRIX]))
    bb = relax.BlockBuilder()
    with bb.function("main", [x]):
        with bb.dataflow():
            result = bb.emit_output(relax.TupleGetItem(bb.emit(relax.TupleGetItem(x, 0)), 1))
        bb.emit_func_output(result)
    grouped = relax.transform.FuseOps()(bb.get())
    assert [v.name_hint for v in grouped.get_global_vars() if v.name_hint != "main"] == ["fused"]
    with pytest.raises(tvm.error.InternalError, match='global_name != "fused"'):
        relax.transform.FuseTIR()(grouped)


def test_functions_that_are_primitive_already_are_left_alone_by_stock_fuse_ops():
    before = module_with_group()
    after = relax.transform.FuseOps()(before)
    tvm.ir.assert_structural_equal(before["pair"], after["pair"])
