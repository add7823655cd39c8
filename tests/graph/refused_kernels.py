"""Hand-written kernels that can't be read as stages, with the reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import tvm
from tvm import s_tir, tirx
from tvm.ir import Range
from tvm.script import tirx as T
from tvm.tirx import BufferLoad, BufferStore, IterVar

from tests.graph.kernels import doubled
from tvm_vfuse.graph.indices import index

N = 8


@T.prim_func(private=True)
def plain_loops(a: T.Buffer((8,), "float32"), b: T.Buffer((8,), "float32")):
    for i in range(8):
        b[i] = a[i]


@T.prim_func(private=True, s_tir=True)
def late_start(a: T.Buffer((9,), "float32"), b: T.Buffer((9,), "float32")):
    for i in T.serial(1, 9):
        with T.sblock("b"):
            v = T.axis.spatial(8, i)
            b[v] = a[v]


@T.prim_func(private=True, s_tir=True)
def half_walked(a: T.Buffer((8,), "float32"), b: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.sblock("b"):
            v = T.axis.spatial(8, i // 2)
            b[v] = -a[v]


@T.prim_func(private=True, s_tir=True)
def predicated(a: T.Buffer((7,), "float32"), b: T.Buffer((7,), "float32")):
    for i, j in T.grid(2, 4):
        with T.sblock("b"):
            v = T.axis.spatial(7, i * 4 + j)
            T.where(i * 4 + j < 7)
            b[v] = -a[v]


@T.prim_func(private=True, s_tir=True)
def shared_nest(a: T.Buffer((8,), "float32"), b: T.Buffer((8,), "float32"), c: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.sblock("b"):
            v = T.axis.spatial(8, i)
            b[v] = a[v]
        with T.sblock("c"):
            v = T.axis.spatial(8, i)
            c[v] = b[v]


@T.prim_func(private=True, s_tir=True)
def while_loop(a: T.Buffer((8,), "float32"), b: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.sblock("b"):
            v = T.axis.spatial(8, i)
            b[v] = a[v]
            while b[v] < T.float32(1):
                b[v] = b[v] * T.float32(2)


@T.prim_func(private=True, s_tir=True)
def branch_in_block(a: T.Buffer((8,), "float32"), b: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.sblock("b"):
            v = T.axis.spatial(8, i)
            if a[v] > T.float32(0):
                b[v] = a[v]


@T.prim_func(private=True, s_tir=True)
def outside_a_block(a: T.Buffer((8,), "float32"), b: T.Buffer((8,), "float32")):
    for i in range(8):
        if i < 4:
            with T.sblock("b"):
                v = T.axis.spatial(8, i)
                b[v] = a[v]


@T.prim_func(private=True, s_tir=True)
def own_buffer(a: T.Buffer((8,), "float32"), b: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.sblock("b"):
            v = T.axis.spatial(8, i)
            T.sblock_alloc_buffer((1,))
            b[v] = -a[v]


@T.prim_func(private=True, s_tir=True)
def written_twice(a: T.Buffer((8,), "float32"), b: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.sblock("first"):
            v = T.axis.spatial(8, i)
            b[v] = a[v]
    for i in range(8):
        with T.sblock("second"):
            v = T.axis.spatial(8, i)
            b[v] = a[v] * T.float32(2)


@T.prim_func(private=True, s_tir=True)
def scatter(a: T.Buffer((8,), "float32"), at: T.Buffer((8,), "int64"), b: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.sblock("b"):
            v = T.axis.spatial(8, i)
            b[at[v]] = a[v]


@T.prim_func(private=True, s_tir=True)
def mirrored(a: T.Buffer((8,), "float32"), b: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.sblock("b"):
            v = T.axis.spatial(8, i)
            b[T.int64(7) - v] = a[v]


@T.prim_func(private=True, s_tir=True)
def diagonal(a: T.Buffer((8,), "float32"), b: T.Buffer((8, 8), "float32")):
    for i in range(8):
        with T.sblock("b"):
            v = T.axis.spatial(8, i)
            b[v, v] = a[v]


@T.prim_func(private=True, s_tir=True)
def in_place(a: T.Buffer((8,), "float32"), b: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.sblock("b"):
            v = T.axis.spatial(8, i)
            b[v] = b[v] + a[v]


@T.prim_func(private=True, s_tir=True)
def extern_call(a: T.Buffer((8,), "float32"), b: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.sblock("b"):
            v = T.axis.spatial(8, i)
            b[v] = T.call_extern("float32", "randomf", a[v])


@T.prim_func(private=True, s_tir=True)
def packed_call(a: T.Buffer((8,), "float32"), b: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.sblock("b"):
            v = T.axis.spatial(8, i)
            b[v] = a[v] + T.Cast("float32", T.call_packed("my.count", dtype="int32"))


@T.prim_func(private=True, s_tir=True)
def no_init(a: T.Buffer((8, 8), "float32"), b: T.Buffer((8,), "float32")):
    for i, j in T.grid(8, 8):
        with T.sblock("sum"):
            vi, vj = T.axis.remap("SR", [i, j])
            b[vi] = b[vi] + a[vi, vj]


@T.prim_func(private=True, s_tir=True)
def init_without_reduction(a: T.Buffer((8,), "float32"), b: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.sblock("b"):
            v = T.axis.spatial(8, i)
            with T.init():
                b[v] = T.float32(0)
            b[v] = a[v]


@T.prim_func(private=True, s_tir=True)
def accumulator_twice(a: T.Buffer((8, 8), "float32"), b: T.Buffer((8,), "float32")):
    for i, j in T.grid(8, 8):
        with T.sblock("sum"):
            vi, vj = T.axis.remap("SR", [i, j])
            with T.init():
                b[vi] = T.float32(1)
            b[vi] = b[vi] + a[vi, vj] * b[vi]


@T.prim_func(private=True, s_tir=True)
def horner(a: T.Buffer((8, 8), "float32"), b: T.Buffer((8,), "float32")):
    """b = b * 2 + a is no sum, product, max or min: its order can't be changed."""
    for i, j in T.grid(8, 8):
        with T.sblock("poly"):
            vi, vj = T.axis.remap("SR", [i, j])
            with T.init():
                b[vi] = T.float32(0)
            b[vi] = b[vi] * T.float32(2) + a[vi, vj]


@T.prim_func(private=True, s_tir=True)
def shifted_axis(a: T.Buffer((9,), "float32"), b: T.Buffer((9,), "float32")):
    for i in range(8):
        with T.sblock("b"):
            v = T.axis.spatial((1, 9), i)
            b[v] = a[v]


@T.prim_func(private=True, s_tir=True)
def opaque_axis(a: T.Buffer((8,), "float32"), b: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.sblock("b"):
            v = T.axis.opaque(8, i)
            b[v] = a[v]


@T.prim_func(private=True, s_tir=True)
def prefix_sum(a: T.Buffer((8,), "float32"), b: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.sblock("scan"):
            v = T.axis.scan(8, i)
            b[v] = a[v]


@T.prim_func(private=True, s_tir=True)
def two_stores(a: T.Buffer((8,), "float32"), b: T.Buffer((8,), "float32"), c: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.sblock("both"):
            v = T.axis.spatial(8, i)
            b[v] = a[v]
            c[v] = b[v]


@T.prim_func(private=True, s_tir=True)
def two_stores_with_inits(a: T.Buffer((8,), "float32"), b: T.Buffer((8,), "float32"), c: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.sblock("both"):
            v = T.axis.spatial(8, i)
            with T.init():
                b[v] = T.float32(0)
                c[v] = T.float32(0)
            new_b: T.let[T.float32] = T.Select(c[v] >= a[v], b[v], a[v])
            new_c: T.let[T.float32] = T.Select(c[v] >= a[v], c[v], a[v])
            b[v] = new_b
            c[v] = new_c


@T.prim_func(private=True, s_tir=True)
def running_mean(a: T.Buffer((8, 8), "float32"), s: T.Buffer((8,), "float32"), q: T.Buffer((8,), "float32")):
    """The second accumulator needs the first and is no choice between two values."""
    for i, j in T.grid(8, 8):
        with T.sblock("both"):
            vi, vj = T.axis.remap("SR", [i, j])
            with T.init():
                s[vi] = T.float32(0)
                q[vi] = T.float32(0)
            new_s: T.let[T.float32] = s[vi] + a[vi, vj]
            new_q: T.let[T.float32] = q[vi] + s[vi] * a[vi, vj]
            s[vi] = new_s
            q[vi] = new_q


@T.prim_func(private=True, s_tir=True)
def crossed_choice(a: T.Buffer((8, 8), "float32"), s: T.Buffer((8,), "float32"), q: T.Buffer((8,), "float32")):
    """The second takes the other's accumulator: partial results can't be joined by the same choice."""
    for i, j in T.grid(8, 8):
        with T.sblock("both"):
            vi, vj = T.axis.remap("SR", [i, j])
            with T.init():
                s[vi] = T.float32(0)
                q[vi] = T.float32(0)
            new_s: T.let[T.float32] = T.Select(s[vi] >= a[vi, vj], s[vi], a[vi, vj])
            new_q: T.let[T.float32] = T.Select(s[vi] >= a[vi, vj], q[vi], s[vi])
            s[vi] = new_s
            q[vi] = new_q


@T.prim_func(private=True, s_tir=True)
def strided_buffer(a: T.handle, b: T.Buffer((8,), "float32")):
    source = T.match_buffer(a, (8,), "float32", strides=(2,))
    for i in range(8):
        with T.sblock("b"):
            v = T.axis.spatial(8, i)
            b[v] = source[v]


def scheduled() -> tirx.PrimFunc:
    return doubled.with_attr("tirx.is_scheduled", True)


def _one_block(store: Callable[..., tirx.Stmt], **root: tirx.Stmt) -> tirx.PrimFunc:
    """b[v] = ... over 8 elements; ``store(a, b, v)`` makes the statement."""
    a, b = (tirx.decl_buffer((index(N),), "float32", n, layout=None) for n in "ab")
    v, i = tirx.Var("v", "int64"), tirx.Var("i", "int64")
    axis = IterVar(Range(index(0), index(N)), v, IterVar.DataPar)
    block = s_tir.SBlock([axis], [], [], "b", store(a, b, v))
    loop = tirx.For(i, index(0), index(N), tirx.ForKind.SERIAL, s_tir.SBlockRealize([i], True, block))
    outer = s_tir.SBlock([], [], [], "root", loop, *[root[k] for k in ("init",) if k in root])
    return tirx.PrimFunc([a, b], s_tir.SBlockRealize([], True, outer))


def root_with_init() -> tirx.PrimFunc:
    def store(a, b, v):
        return BufferStore(b, BufferLoad(a, [v]), [v])

    return _one_block(store, init=tirx.Evaluate(tirx.IntImm("int32", 0)))


def foreign_buffer() -> tirx.PrimFunc:
    """Reads a buffer that is neither parameter nor allocated here."""
    stranger = tirx.decl_buffer((index(N),), "float32", "stranger", layout=None)
    return _one_block(lambda a, b, v: BufferStore(b, BufferLoad(stranger, [v]), [v]))


@dataclass(frozen=True)
class Refused:
    """A kernel that can't be read.

    Parameters
    ----------
    then : what happens without the check: "accepted", or the name of the exception that comes in its place
    """

    kernel: object
    reason: str
    words: str
    then: str = "accepted"

    def make(self) -> tirx.PrimFunc:
        return self.kernel if isinstance(self.kernel, tvm.tirx.PrimFunc) else self.kernel()


REFUSED = {
    "already lowered": Refused(plain_loops, "opaque", "already lowered", "AttributeError"),
    "scheduled": Refused(scheduled, "opaque", "marked as already scheduled"),
    "root with an init": Refused(root_with_init, "opaque", "root block"),
    "strided buffer": Refused(strided_buffer, "opaque", "source has strides"),
    "written twice": Refused(written_twice, "opaque", "b is written by two blocks"),
    "loop from 1": Refused(late_start, "opaque", "loop i does not start at 0"),
    "several blocks in a nest": Refused(shared_nest, "opaque", "several blocks share a loop nest", "Reject"),
    "branch around a block": Refused(outside_a_block, "opaque", "IfThenElse stands outside a block", "AttributeError"),
    "buffer of its own": Refused(own_buffer, "opaque", "block b allocates buffers of its own"),
    "predicate": Refused(predicated, "opaque", "block b has a predicate", "Reject"),
    "no bijection": Refused(half_walked, "opaque", "block b has bindings that are no bijection"),
    "while": Refused(while_loop, "opaque", "block b has no single store", "AttributeError"),
    "branch in a block": Refused(branch_in_block, "opaque", "block b has no single store", "AttributeError"),
    "axis from 1": Refused(shifted_axis, "opaque", "axis v does not start at 0"),
    "opaque axis": Refused(opaque_axis, "opaque", "axis v is neither spatial nor a reduction", "KeyError"),
    "scan": Refused(prefix_sum, "opaque", "axis v is neither spatial nor a reduction", "KeyError"),
    "init without reduction": Refused(init_without_reduction, "opaque", "has an init but no reduction axis"),
    "in place": Refused(in_place, "in-place", "block b reads the buffer it writes"),
    "reduction without init": Refused(no_init, "opaque", "reduction without a single init", "AttributeError"),
    "accumulator twice": Refused(accumulator_twice, "opaque", "reads its accumulator twice"),
    "scatter": Refused(scatter, "scatter", "block b writes at computed places"),
    "mirrored store": Refused(mirrored, "scatter", "block b writes at computed places"),
    "diagonal": Refused(diagonal, "scatter", "block b writes at computed places"),
    "no known reduction": Refused(horner, "opaque", "no sum, product, max or min", "TypeError"),
    "extern call": Refused(extern_call, "opaque", "calls tirx.call_extern, which is not pure"),
    "packed call": Refused(packed_call, "opaque", "which is not pure"),
    "foreign buffer": Refused(foreign_buffer, "opaque", "reads stranger, which is no parameter"),
    "two stores": Refused(two_stores, "opaque", "block both has no single store", "AttributeError"),
    "two stores with inits": Refused(two_stores_with_inits, "opaque", "several stores but is no reduction"),
    "running mean": Refused(running_mean, "opaque", "do not choose between two values"),
    "crossed choice": Refused(crossed_choice, "opaque", "an element depends on an accumulator"),
}
