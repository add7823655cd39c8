"""Hand-written kernels that can be read as stages."""

from __future__ import annotations

from tvm.script import tirx as T

N = 8


# ------------------------------------------------------------------------------------------------------------- accepted
@T.prim_func(private=True, s_tir=True)
def doubled(a: T.Buffer((8,), "float32"), b: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.sblock("double"):
            v = T.axis.spatial(8, i)
            b[v] = a[v] * T.float32(2)


@T.prim_func(private=True, s_tir=True)
def tiled(a: T.Buffer((8,), "float32"), b: T.Buffer((8,), "float32")):
    """Scheduled by hand: the loops are a bijection of the block's axis."""
    for i, j in T.grid(2, 4):
        with T.sblock("double"):
            v = T.axis.spatial(8, i * 4 + j)
            b[v] = a[v] * T.float32(2)


@T.prim_func(private=True, s_tir=True)
def fused_loop(a: T.Buffer((4, 8), "float32"), b: T.Buffer((4, 8), "float32")):
    for k in range(32):
        with T.sblock("negate"):
            i = T.axis.spatial(4, k // 8)
            j = T.axis.spatial(8, k % 8)
            b[i, j] = -a[i, j]


@T.prim_func(private=True, s_tir=True)
def reordered(a: T.Buffer((4, 8), "float32"), b: T.Buffer((4, 8), "float32")):
    for j, i in T.grid(8, 4):
        with T.sblock("negate"):
            vi, vj = T.axis.remap("SS", [i, j])
            b[vi, vj] = -a[vi, vj]


@T.prim_func(private=True, s_tir=True)
def row_sum(a: T.Buffer((8, 8), "float32"), b: T.Buffer((8,), "float32")):
    for i, j in T.grid(8, 8):
        with T.sblock("sum"):
            vi, vj = T.axis.remap("SR", [i, j])
            with T.init():
                b[vi] = T.float32(0)
            b[vi] = b[vi] + a[vi, vj]


@T.prim_func(private=True, s_tir=True)
def two_stages(a: T.Buffer((8, 8), "float32"), b: T.Buffer((8, 8), "float32")):
    top = T.sblock_alloc_buffer((8,))
    for i, j in T.grid(8, 8):
        with T.sblock("top"):
            vi, vj = T.axis.remap("SR", [i, j])
            with T.init():
                top[vi] = T.float32(-1e30)
            top[vi] = T.max(top[vi], a[vi, vj])
    for i, j in T.grid(8, 8):
        with T.sblock("less"):
            vi, vj = T.axis.remap("SS", [i, j])
            b[vi, vj] = a[vi, vj] - top[vi]


@T.prim_func(private=True, s_tir=True)
def argmax(a: T.Buffer((8, 8), "float32"), at: T.Buffer((8,), "int64"), top: T.Buffer((8,), "float32")):
    for i, j in T.grid(8, 8):
        with T.sblock("argmax"):
            vi, vj = T.axis.remap("SR", [i, j])
            with T.init():
                at[vi] = T.int64(0)
                top[vi] = T.float32(-1e30)
            where: T.let[T.int64] = T.Select(top[vi] >= a[vi, vj], at[vi], T.Cast("int64", vj))
            value: T.let[T.float32] = T.Select(top[vi] >= a[vi, vj], top[vi], a[vi, vj])
            at[vi] = where
            top[vi] = value


@T.prim_func(private=True, s_tir=True)
def sum_and_sum_of_squares(a: T.Buffer((8, 8), "float32"), s: T.Buffer((8,), "float32"), q: T.Buffer((8,), "float32")):
    """Two reductions in one block that do not need each other."""
    for i, j in T.grid(8, 8):
        with T.sblock("both"):
            vi, vj = T.axis.remap("SR", [i, j])
            with T.init():
                s[vi] = T.float32(0)
                q[vi] = T.float32(0)
            new_s: T.let[T.float32] = s[vi] + a[vi, vj]
            new_q: T.let[T.float32] = q[vi] + a[vi, vj] * a[vi, vj]
            s[vi] = new_s
            q[vi] = new_q


ACCEPTED = {
    # kernel, its stages' names, how many of them are reductions
    "doubled": (doubled, ["double"], 0),
    "tiled": (tiled, ["double"], 0),
    "fused_loop": (fused_loop, ["negate"], 0),
    "reordered": (reordered, ["negate"], 0),
    "row_sum": (row_sum, ["sum"], 1),
    "two_stages": (two_stages, ["top", "less"], 1),
    "argmax": (argmax, ["argmax_0", "argmax_1"], 2),
    "sum_and_sum_of_squares": (sum_and_sum_of_squares, ["both_0", "both_1"], 2),
}
