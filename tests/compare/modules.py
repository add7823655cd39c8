"""Small modules and workloads that several tests share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tvm
from tvm import relax, tirx
from tvm.script import tirx as T


def tensor(name: str, shape: Sequence[Any], dtype: str = "float32") -> relax.Var:
    return relax.Var(name, relax.TensorType(list(shape), dtype))


def module(params: list[relax.Var], body: Callable[..., Any], **kernels: tirx.PrimFunc) -> tvm.IRModule:
    """One function ``main`` in a dataflow block; ``body(emit, *params)`` gives an expression or a list of them.

    PrimFuncs given by name are added; ``body`` gets their global variables as keyword arguments.
    """
    builder = relax.BlockBuilder()
    added = {name: builder.add_func(function, name) for name, function in kernels.items()}
    with builder.function("main", params):
        with builder.dataflow():
            out = body(builder.emit, *params, **added)
            out = relax.Tuple(out) if isinstance(out, list) else out
            result = builder.emit_output(out)
        builder.emit_func_output(result)
    return builder.get()


def legal(mod: tvm.IRModule) -> tvm.IRModule:
    return relax.transform.LegalizeOps()(mod)


def call(kernel: Any, args: list[Any], shape: Sequence[Any], dtype: str = "float32") -> Any:
    return relax.call_tir(kernel, args, out_ty=relax.TensorType(list(shape), dtype))


@dataclass
class ModuleWorkload:
    """A workload made of a module and a sampler."""

    name: str
    make: Callable[[], tvm.IRModule]
    sample: Callable[[int], list[np.ndarray]]
    notes: tuple[str, ...] = ()
    description: str = ""
    memory_bound: bool = True
    calls: list[str] = field(default_factory=list)

    def build(self) -> tvm.IRModule:
        return self.make()

    def inputs(self, seed: int = 0) -> list[np.ndarray]:
        return self.sample(seed)


def normal(*shapes: Sequence[int], dtype: str = "float32") -> Callable[[int], list[np.ndarray]]:
    return lambda seed: [np.random.default_rng(seed).standard_normal(shape).astype(dtype) for shape in shapes]


def chain_module(rows: int = 6, columns: int = 50) -> tvm.IRModule:
    """relu(exp(x) + y): three operators, one group."""
    op = relax.op
    params = [tensor("x", (rows, columns)), tensor("y", (rows, columns))]
    return module(params, lambda emit, x, y: emit(op.nn.relu(emit(op.add(emit(op.exp(x)), y)))))


def chain_workload(rows: int = 6, columns: int = 50) -> ModuleWorkload:
    return ModuleWorkload("chain", lambda: chain_module(rows, columns), normal((rows, columns), (rows, columns)))


@T.prim_func(private=True, s_tir=True)
def doubling_kernel(a: T.Buffer((40,), "float32"), b: T.Buffer((40,), "float32")):
    """b = 2 a, as a user may write it."""
    T.func_attr({"tirx.noalias": True})
    for i in range(40):
        with T.sblock("double"):
            vi = T.axis.spatial(40, i)
            b[vi] = a[vi] * T.float32(2.0)


@T.prim_func(private=True, s_tir=True)
def bits_kernel(a: T.Buffer((40,), "float32"), b: T.Buffer((40,), "int32")):
    """The bit pattern of a: bound to its dtype."""
    T.func_attr({"tirx.noalias": True})
    for i in range(40):
        with T.sblock("bits"):
            vi = T.axis.spatial(40, i)
            b[vi] = T.reinterpret("int32", a[vi])
