"""Kernels of plain loops that evaluate one vector math function, and the reference they are measured against."""

from __future__ import annotations

import platform
from collections.abc import Callable
from dataclasses import dataclass

import ml_dtypes  # noqa: F401  (makes bfloat16 a NumPy dtype)
import numpy as np
import scipy.special
import tvm
import tvm_ffi
from tvm import tirx
from tvm.ir import Call, Expr

from tvm_vfuse.schedule.vector_math import expand

CHUNK = 4096


@dataclass(frozen=True)
class Function:
    """A function under test: how to call it, its float64 reference, its largest error and where it is interesting."""

    call: Callable[[Expr], Call]
    reference: Callable[[np.ndarray], np.ndarray]
    max_ulp: float
    dense: tuple[tuple[float, float], ...]
    exact: tuple[tuple[float, float], ...]


def _sigmoid(x: np.ndarray) -> np.ndarray:
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1.0) / (1.0 + e)


INF = float("inf")
NAN = float("nan")
FUNCTIONS = {
    "exp": Function(
        tirx.exp,
        np.exp,
        max_ulp=1.1,
        dense=((-105, 90), (-1, 1), (-104, -86)),
        exact=((0, 1), (-0.0, 1), (INF, INF), (-INF, 0), (89, INF), (-105, 0)),
    ),
    "exp2": Function(
        tirx.exp2,
        np.exp2,
        max_ulp=1.3,
        dense=((-151, 129), (-1, 1), (-150, -125)),
        exact=((0, 1), (INF, INF), (-INF, 0), (128, INF), (127, 2.0**127), (-149, 2.0**-149), (-151, 0)),
    ),
    "sigmoid": Function(
        tirx.sigmoid,
        _sigmoid,
        max_ulp=1.95,
        dense=((-105, 20), (-2, 2), (-104, -86)),
        exact=((0, 0.5), (-0.0, 0.5), (INF, 1), (-INF, 0), (30, 1), (-105, 0)),
    ),
    "tanh": Function(
        tirx.tanh,
        np.tanh,
        max_ulp=1.4,
        dense=((-10, 10), (-0.7, 0.7)),
        exact=((0, 0), (-0.0, -0.0), (INF, 1), (-INF, -1), (-1e-40, -1e-40), (10, 1)),
    ),
    "erf": Function(
        tirx.erf,
        scipy.special.erf,
        max_ulp=1.8,
        dense=((-5, 5), (-1, 1)),
        exact=((0, 0), (-0.0, -0.0), (INF, 1), (-INF, -1), (4, 1), (-5, -1)),
    ),
    "log": Function(
        tirx.log,
        np.log,
        max_ulp=0.95,
        dense=((0, 1e-37), (0.5, 2), (0, 1e3)),
        exact=((1, 0), (0, -INF), (-0.0, -INF), (INF, INF), (-1, NAN), (-1e-40, NAN), (-INF, NAN)),
    ),
    "log1p": Function(
        tirx.log1p,
        np.log1p,
        max_ulp=1.5,
        dense=((-1, 1), (-1e-3, 1e-3), (0, 1e9)),
        exact=((0, 0), (-0.0, -0.0), (-1, -INF), (INF, INF), (-1.5, NAN), (-INF, NAN), (-1e-40, -1e-40)),
    ),
    "sin": Function(
        tirx.sin,
        np.sin,
        max_ulp=1.65,
        dense=((-1e5, 1e5), (-7, 7)),
        exact=((0, 0), (-0.0, -0.0), (INF, NAN), (-INF, NAN), (-1e-40, -1e-40)),
    ),
    "cos": Function(
        tirx.cos,
        np.cos,
        max_ulp=1.65,
        dense=((-1e5, 1e5), (-7, 7)),
        exact=((0, 1), (-0.0, 1), (INF, NAN), (-INF, NAN), (1e-40, 1)),
    ),
    "square": Function(
        lambda x: tirx.pow(x, tirx.const(2.0, "float32")),
        np.square,
        max_ulp=0.5,
        dense=((-9, 9),),
        exact=((-0.0, 0), (-INF, INF), (-3, 9), (1e30, INF)),
    ),
    "cube": Function(
        lambda x: tirx.pow(x, tirx.const(3.0, "float32")),
        lambda x: x * x * x,
        max_ulp=1.5,
        dense=((-9, 9),),
        exact=((-0.0, -0.0), (-INF, -INF), (-3, -27), (-1e30, -INF)),
    ),
}


def host_features() -> frozenset[str]:
    """Instruction sets that LLVM finds on this machine."""
    found = tvm_ffi.get_global_func("tvm.codegen.llvm.GetHostCPUFeatures")()
    return frozenset(str(name) for name, there in found.items() if there)


def targets() -> dict[str, dict[str, object]]:
    """Targets that this machine can run: itself with and without fused multiply-add, plain, and AVX2."""
    cpu = tvm_ffi.get_global_func("target.llvm_get_system_cpu")()
    found: dict[str, dict[str, object]] = {"native": {"kind": "llvm", "mcpu": cpu}, "plain": {"kind": "llvm"}}
    if platform.machine() == "x86_64" and {"avx2", "fma"} <= host_features():
        found["haswell"] = {"kind": "llvm", "mcpu": "haswell"}
        found["native-without-fma"] = {"kind": "llvm", "mcpu": cpu, "mattr": ["-fma"]}
    return found


def kernel(
    call: Callable[[Expr], Call],
    num_elements: int,
    *,
    dtype: str = "float32",
    lanes: int = 16,
    fence: Callable[[Expr], Expr] | None = None,
    then: Callable[[Expr], Expr] = lambda value: value,
) -> tirx.PrimFunc:
    """``B[i] = then(f(A[i]))`` with ``f`` expanded; ``A`` is float32, ``f`` and ``B`` are ``dtype``."""
    a = tirx.decl_buffer((num_elements,), "float32", "A")
    b = tirx.decl_buffer((num_elements,), dtype, "B")
    i, j, v = (tirx.Var(name, "int64") for name in "ijv")
    at = i * CHUNK + j * lanes + v
    registers: list[tirx.Var] = []
    stores: list[tirx.Stmt] = []

    def hold(value: Expr) -> Expr:
        registers.append(tirx.decl_buffer((lanes,), str(value.ty), f"r{len(registers)}"))
        stores.append(tirx.BufferStore(registers[-1], value, [v]))
        return tirx.BufferLoad(registers[-1], [v])

    x = tirx.BufferLoad(a, [at])
    value = expand(call(x if dtype == "float32" else hold(tirx.Cast(dtype, x))), hold, fence)
    assert value is not None
    stores.append(tirx.BufferStore(b, then(value), [at]))
    body = _loop(v, lanes, tirx.SeqStmt(stores) if len(stores) > 1 else stores[0], tirx.ForKind.VECTORIZED)
    if registers:
        body = tirx.SeqStmt([*(tirx.AllocBuffer(r) for r in registers), body])
    body = _loop(i, num_elements // CHUNK, _loop(j, CHUNK // lanes, body), tirx.ForKind.PARALLEL)
    return tirx.PrimFunc([a, b], body).with_attrs({"tirx.noalias": True, "tirx.is_scheduled": True})


def _loop(var: tirx.Var, extent: int, body: tirx.Stmt, kind: tirx.ForKind = tirx.ForKind.SERIAL) -> tirx.Stmt:
    return tirx.For(var, tirx.const(0, "int64"), tirx.const(extent, "int64"), kind, body)


def compiled(func: tirx.PrimFunc, target: dict[str, object]) -> tvm.runtime.Executable:
    """A module of ``func`` alone, as ``main``."""
    return tvm.compile(
        tvm.IRModule({"main": func.with_attr("global_symbol", "main")}), target=tvm.target.Target(target)
    )


def run(func: tirx.PrimFunc, target: dict[str, object], x: np.ndarray) -> np.ndarray:
    """The kernel's result on ``x``, in a buffer that was filled with signalling NaN, which no operation returns."""
    dtype = np.dtype(str(func.params[1].ty.dtype))
    bits, poison = (
        ("uint32", 0x7FABCDEF) if dtype.itemsize == 4 else ("uint16", 0x7FB5 if dtype == "bfloat16" else 0x7DAB)
    )
    out = tvm.runtime.tensor(np.full(x.shape, poison, bits).view(dtype))
    compiled(func, target)["main"](tvm.runtime.tensor(x), out)
    result = out.numpy()
    assert not (result.view(bits) == poison).any(), "elements were not written"
    return result


def samples(function: Function, rng: np.random.Generator) -> np.ndarray:
    """2**21 random bit patterns, 2**18 values of each dense range, and every power of two with its neighbours."""
    significands = np.array([0, 1, 2, 0x3504F3, 0x7FFFFE, 0x7FFFFF], "uint32")
    powers = ((np.arange(512, dtype="uint32") << 23)[:, None] + significands).ravel().view("float32")
    dense = [rng.uniform(low, high, 2**18).astype("float32") for low, high in function.dense]
    x = np.concatenate([rng.integers(0, 2**32, 2**21, "uint32").view("float32"), *dense, powers])
    return np.resize(x, -(-x.size // CHUNK) * CHUNK)


@dataclass(frozen=True)
class Errors:
    """How far results are from the reference."""

    max_ulp: float
    max_steps: int
    wrong_nan: int
    wrong_zero_sign: int


def errors(got: np.ndarray, exact: np.ndarray) -> Errors:
    """Compare float32 results with float64 values.

    ``max_ulp`` is the distance to the exact value in units of its last place as a float32; ``max_steps`` is the number
    of float32 values from the result to the correctly rounded one (infinity is one step above the largest).
    """
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        rounded = exact.astype("float32")
        finite = np.isfinite(got) & np.isfinite(rounded)
        ulp = np.ldexp(1.0, np.maximum(np.frexp(exact[finite])[1], -125) - 24)
        numbers = ~(np.isnan(got) | np.isnan(rounded))
        zeros = numbers & ((got == 0) | (rounded == 0))
        return Errors(
            float(np.max(np.abs(got[finite].astype("float64") - exact[finite]) / ulp)),
            int(np.max(np.abs(_ordered(got[numbers]) - _ordered(rounded[numbers])))),
            int(np.sum(np.isnan(got) != np.isnan(rounded))),
            int(np.sum(np.signbit(got[zeros]) != np.signbit(rounded[zeros]))),
        )


def _ordered(x: np.ndarray) -> np.ndarray:
    """Integers in the order of the floats, with neighbours one apart."""
    bits = x.view("int32").astype("int64")
    return np.where(bits < 0, -(bits & 0x7FFFFFFF), bits)
