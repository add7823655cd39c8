"""Takes of imported modules stay in bounds, and become slices where they can."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax

from tests.workloads.execution import run, unfused
from tvm_vfuse.errors import InputError
from tvm_vfuse.frontend.safe_takes import make_takes_safe


def taking(indices, axis, shape=(2, 5, 7), mode="fast"):
    """A module that takes `indices` (a parameter named i, where it is None) of x."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(shape, "float32"))
    i = relax.Var("i", relax.TensorType((3,), "int64"))
    with builder.function("main", [x, i] if indices is None else [x]):
        with builder.dataflow():
            out = builder.emit_output(relax.op.take(x, i if indices is None else indices, axis=axis, mode=mode))
        builder.emit_func_output(out)
    return builder.finalize()


@pytest.mark.parametrize("index", [0, 4, -1, -5])
def test_one_constant_index_becomes_a_slice(rng, index):
    mod = make_takes_safe(taking(relax.const(index, "int64"), 1), "net")
    assert "take" not in mod.script() and "strided_slice" in mod.script()
    x = rng.standard_normal((2, 5, 7)).astype(np.float32)
    np.testing.assert_array_equal(run(mod, [x], unfused)[0], x[:, index])


def test_negative_constant_indices_count_from_the_end(rng):
    mod = make_takes_safe(taking(relax.const(np.array([-1, 0, -7], np.int64)), 2), "net")
    x = rng.standard_normal((2, 5, 7)).astype(np.float32)
    np.testing.assert_array_equal(run(mod, [x], unfused)[0], x[..., [6, 0, 0]])


def test_indices_that_are_inputs_are_clipped_to_the_axis(rng):
    mod = make_takes_safe(taking(None, 1), "net")
    x = rng.standard_normal((2, 5, 7)).astype(np.float32)
    got = run(mod, [x, np.array([2, 99, 4], np.int64)], unfused)[0]
    np.testing.assert_array_equal(got, x[:, [2, 4, 4]])


@pytest.mark.parametrize("indices", [9, -6])
def test_a_constant_index_out_of_bounds_is_refused(indices):
    with pytest.raises(InputError, match=r"net: a take has indices .* on an axis of 5"):
        make_takes_safe(taking(relax.const(indices, "int64"), 1), "net")


def test_the_given_module_is_not_changed():
    mod = taking(relax.const(1, "int64"), 1)
    before = mod.script()
    make_takes_safe(mod, "net")
    assert mod.script() == before


def test_a_module_without_takes_is_returned_as_it_is():
    mod = taking(relax.const(1, "int64"), 1)
    sliced = make_takes_safe(mod, "net")
    assert make_takes_safe(sliced, "net").same_as(sliced)
    tvm.ir.assert_structural_equal(make_takes_safe(sliced, "net"), sliced)
