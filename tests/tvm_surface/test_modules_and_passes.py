"""How modules, types, errors and options behave when a pass is written in Python."""

from __future__ import annotations

import pytest
import tvm
from tvm import relax, tirx
from tvm.script import tirx as T

VECTOR = relax.TensorType((4,), "float32")


@T.prim_func(private=True)
def copy(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    for i in range(4):
        B[i] = A[i]


def module_of_copy() -> tvm.IRModule:
    return tvm.IRModule({"main": copy})


def test_a_private_primfunc_without_global_symbol_is_taken_for_a_device_function():
    with pytest.raises(tvm.error.InternalError, match="MakePackedAPI"):
        tvm.compile(module_of_copy(), target="llvm")
    named = tvm.IRModule({"main": copy.with_attr("global_symbol", "main")})
    assert tvm.compile(named, target="llvm")["main"] is not None


@pytest.mark.parametrize("clones", [False, True])
def test_setting_a_function_inside_a_pass_changes_the_callers_module_unless_it_is_cloned(clones):
    @tvm.transform.module_pass(opt_level=0)
    def mark(mod, _context):
        mod = mod.clone() if clones else mod
        mod["main"] = mod["main"].with_attr("marked", 1)
        return mod

    before = module_of_copy()
    after = mark(before)
    assert "marked" in after["main"].attrs
    assert ("marked" in before["main"].attrs) == (not clones)


def test_an_exception_class_passes_through_a_pass_only_when_registered_itself():
    class SurfaceError(Exception):
        pass

    class SurfaceSubError(SurfaceError):
        pass

    @tvm.transform.module_pass(opt_level=0)
    def fails(_mod, _context):
        raise SurfaceSubError("said here")

    with pytest.raises(RuntimeError, match="said here"):
        fails(module_of_copy())
    tvm.error.register_error("SurfaceError", SurfaceError)
    with pytest.raises(RuntimeError, match="said here"):  # the base class is not enough
        fails(module_of_copy())
    tvm.error.register_error("SurfaceSubError", SurfaceSubError)
    with pytest.raises(SurfaceSubError, match="said here"):
        fails(module_of_copy())


def test_pass_context_refuses_options_that_tvm_does_not_know():
    with pytest.raises(AttributeError, match=r"Invalid config option 'tvm_vfuse\.numerics'"):
        tvm.transform.PassContext(config={"tvm_vfuse.numerics": "exact"})


def test_types_are_found_in_ty_and_names_in_name():
    x = relax.Var("x", VECTOR)
    assert (x.name, x.ty.dtype, [int(d) for d in x.ty.shape]) == ("x", "float32", [4])
    assert not hasattr(x, "struct_info")
    assert isinstance(copy.params[0].ty, tirx.BufferType)


def test_a_symbolic_dimension_is_a_var_like_a_tensor_and_only_its_type_differs():
    n = tirx.Var("n", "int64")
    x = relax.Var("x", relax.TensorType((n, 4), "float32"))
    assert type(n) is type(x)
    assert isinstance(n.ty, tvm.ir.PrimType)
    assert not isinstance(x.ty, tvm.ir.PrimType)


def test_well_formed_raises_and_check_well_formed_answers():
    x, stranger = relax.Var("x", VECTOR), relax.Var("stranger", VECTOR)
    good, bad = (tvm.IRModule({"main": relax.Function([x], relax.SeqExpr([], body), VECTOR)}) for body in (x, stranger))
    good = relax.transform.Normalize()(good)
    assert relax.analysis.well_formed(good) is None
    assert relax.analysis.check_well_formed(good) is True
    with pytest.raises(ValueError, match="stranger is not defined"):
        relax.analysis.well_formed(bad)
    assert relax.analysis.check_well_formed(bad) is False


def test_an_irmodule_has_no_remove():
    assert not hasattr(tvm.IRModule, "remove")


@pytest.mark.parametrize("text", ["llvm -mcpu=haswell", "cuda -arch=sm_90"])
def test_a_target_is_a_dict_not_a_command_line(text):
    with pytest.raises(ValueError, match="no longer supported"):
        tvm.target.Target(text)


def test_a_cuda_target_of_one_architecture_says_nothing_of_shared_memory_or_registers():
    attrs = tvm.target.Target({"kind": "cuda", "arch": "sm_90"}).attrs
    assert not [name for name in attrs if "shared" in name or "register" in name]


def test_index_expressions_promote_in_operators_and_refuse_mixed_widths_in_nodes():
    narrow, wide = tirx.Var("narrow", "int32"), tirx.Var("wide", "int64")
    assert str((narrow + wide).ty) == "int64"
    with pytest.raises(TypeError, match="mismatched types"):
        tirx.Add(narrow, wide)
