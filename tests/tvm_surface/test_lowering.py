"""What TVM's lowering passes ask of a kernel of plain loops."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.script import tirx as T


@T.prim_func(private=True)
def without_root_block(X: T.Buffer((T.int64(4), T.int64(8)), "float32"), Y: T.Buffer((T.int64(32),), "float32")):
    T.func_attr({"tirx.is_scheduled": True, "tirx.noalias": True})
    for i in range(T.int64(32)):
        Y[i] = X[i // T.int64(8), i % T.int64(8)] * T.float32(2)


@T.prim_func(private=True, s_tir=True)
def with_root_block(X: T.Buffer((T.int64(4), T.int64(8)), "float32"), Y: T.Buffer((T.int64(32),), "float32")):
    T.func_attr({"tirx.is_scheduled": True, "tirx.noalias": True})
    with T.sblock("root"):
        T.reads()
        T.writes()
        for i in range(T.int64(32)):
            Y[i] = X[i // T.int64(8), i % T.int64(8)] * T.float32(2)


def module_that_calls(kernel: tvm.tirx.PrimFunc) -> tvm.IRModule:
    builder = relax.BlockBuilder()
    target = builder.add_func(kernel, "kernel")
    x = relax.Var("x", relax.TensorType((4, 8), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            y = builder.emit(relax.call_tir(target, (x,), relax.TensorType((32,), "float32")))
            z = builder.emit_output(relax.op.add(y, y))
        builder.emit_func_output(z)
    return relax.transform.LegalizeOps()(builder.get())


def test_the_search_for_reshapes_fails_on_a_kernel_without_a_root_block():
    with pytest.raises(tvm.error.InternalError, match="SBlockRealizeNode"):
        relax.transform.RewriteDataflowReshape()(module_that_calls(without_root_block))


def test_a_kernel_of_plain_loops_in_a_root_block_lowers_and_runs(rng):
    x = rng.standard_normal((4, 8), dtype=np.float32)
    executable = tvm.compile(module_that_calls(with_root_block), "llvm")
    got = relax.VirtualMachine(executable, tvm.cpu())["main"](tvm.runtime.tensor(x)).numpy()
    np.testing.assert_array_equal(got, x.reshape(32) * 4)


def test_memory_planning_hands_the_storage_of_one_branch_to_the_other():
    """The second branch then reads a variable that was never set: a module with branches must go without it."""
    tensor = relax.TensorType((4, 8), "float32")
    x, flag = relax.Var("x", tensor), relax.Var("flag", relax.TensorType((), "bool"))
    builder = relax.BlockBuilder()

    def branch(first, second) -> relax.SeqExpr:
        inner, result = relax.Var("inner", tensor), relax.Var("result", tensor)
        bindings = [relax.VarBinding(inner, first(x)), relax.VarBinding(result, second(inner))]
        return relax.SeqExpr([relax.BindingBlock(bindings)], result)

    op = relax.op
    with builder.function("main", [x, flag]):
        chosen = builder.emit(relax.If(flag, branch(op.exp, op.abs), branch(op.tanh, op.negative)))
        builder.emit_func_output(chosen)
    planned = tvm.transform.Sequential(
        [
            relax.transform.LegalizeOps(),
            relax.transform.ToNonDataflow(),
            relax.transform.RemovePurityChecking(),
            relax.transform.CallTIRRewrite(),
            relax.transform.StaticPlanBlockMemory(),
        ]
    )(builder.get())
    assert planned["main"].script().count("R.memory.alloc_storage(") == 1  # two branches with an intermediate each
