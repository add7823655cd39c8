import numpy as np
import pytest
import tvm
from tvm import relax, tirx
from tvm.script import tirx as T

from tests.compare.modules import legal, module, tensor
from tvm_vfuse.compare.kernel_memory import HEAP_FROM_BYTES, in_kernel_bytes
from tvm_vfuse.compare.trace import trace

op = relax.op


def held(mod, *shapes):
    run = trace(mod, [np.zeros(shape) for shape in shapes])
    return [in_kernel_bytes(launch.function, launch.bindings) for launch in run.launches]


def copying_kernel(elements, dtype="float32"):
    @T.prim_func
    def copy(a: T.Buffer((elements,), dtype), b: T.Buffer((elements,), dtype)):
        c = T.alloc_buffer((elements,), dtype)
        for i in range(elements):
            c[i] = a[i]
        for i in range(elements):
            b[i] = c[elements - 1 - i]

    return copy


def uses_the_heap(function):
    built = tvm.compile(function.with_attr("global_symbol", "copy"), target="llvm")

    def sources(module):
        own = module.inspect_source("ll") if module.kind == "llvm" else ""
        return own + "".join(sources(part) for part in module.imports)

    return "TVMBackendAllocWorkspace" in sources(built.mod)


@pytest.mark.parametrize("elements", [255, 256, 257])
def test_what_counts_as_heap_is_what_tvm_puts_there(elements):
    function = copying_kernel(elements)
    size = 4 * elements
    assert (in_kernel_bytes(function, {}) == size) == (size >= HEAP_FROM_BYTES) == uses_the_heap(function)


@pytest.mark.parametrize(("dtype", "size"), [("float32", 4), ("float16", 2), ("float64", 8)])
def test_softmax_keeps_its_exponentials_at_the_size_of_its_dtype(dtype, size):
    mod = legal(module([tensor("x", (64, 500), dtype)], lambda emit, x: emit(op.nn.softmax(x))))
    rows = 64 * size
    assert held(mod, (64, 500)) == [64 * 500 * size + (2 * rows if rows >= HEAP_FROM_BYTES else 0)]


def test_a_fused_kernel_keeps_the_intermediate_that_fuse_tir_only_moved_inside():
    x = tensor("x", (40, 100))
    mod = module([x], lambda emit, x: emit(op.nn.relu(emit(op.exp(x)))))
    stock = relax.get_pipeline("zero")(mod)
    assert held(stock, (40, 100)) == [40 * 100 * 4]


def test_a_buffer_inside_a_scheduled_loop_counts_at_what_the_loop_leaves_and_once():
    x = tensor("x", (40, 1000))
    mod = relax.get_pipeline("zero")(module([x], lambda emit, x: emit(op.nn.relu(emit(op.exp(x))))))
    (name,) = [v.name_hint for v, f in mod.functions.items() if isinstance(f, tirx.PrimFunc)]
    sch = tvm.s_tir.Schedule(mod)
    sch.work_on(name)
    producer, consumer = sch.get_sblock("compute"), sch.get_sblock("compute1")
    row, _ = sch.get_loops(consumer)
    sch.parallel(row)
    sch.compute_at(producer, row)
    assert held(sch.mod, (40, 1000)) == [4000]


def test_symbolic_sizes_are_those_of_the_inputs_and_always_on_the_heap():
    n = tirx.Var("n", "int64")
    mod = legal(module([tensor("x", (n, 4))], lambda emit, x: emit(op.nn.softmax(x))))
    assert held(mod, (3, 4)) == [3 * 4 * 4 + 2 * 3 * 4]
    (kernel,) = [f for f in mod.functions.values() if isinstance(f, tirx.PrimFunc)]
    assert in_kernel_bytes(kernel, {}) is None


def test_an_external_kernel_has_no_memory_of_ours():
    assert in_kernel_bytes(None, {}) == 0
