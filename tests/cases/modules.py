"""Short ways to write a Relax module and its inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tvm
from tvm import relax

Shape = Sequence[int | tvm.ir.Var]


def tensor(*shape: int | tvm.ir.Var, dtype: str = "float32") -> relax.TensorType:
    return relax.TensorType(shape, dtype)


def const(value: object, dtype: str = "float32") -> relax.Constant:
    return relax.const(np.asarray(value, dtype=dtype), dtype)


def uniform(seed: int, *shape: int, low: float = -2.0, high: float = 2.0, dtype: str = "float32") -> np.ndarray:
    return np.random.default_rng(seed).uniform(low, high, size=shape).astype(dtype)


class Emitter:
    """Emits one binding for each operator called on it: ``g.relu(g.add(x, y))`` makes two.

    Names are those of ``relax.op`` and ``relax.op.nn``.
    """

    def __init__(self, builder: relax.BlockBuilder) -> None:
        self.builder = builder

    def __getattr__(self, name: str) -> Callable[..., relax.Var]:
        operator = getattr(relax.op, name, None) or getattr(relax.op.nn, name)
        return lambda *args, **kwargs: self.builder.emit(operator(*args, **kwargs))

    def fields(self, pack: relax.Var) -> list[relax.Var]:
        """Every field of a tuple, each bound to a variable."""
        return [self.builder.emit(relax.TupleGetItem(pack, i)) for i in range(len(pack.ty.fields))]

    def match(self, value: relax.Expr, ty: tvm.ir.Type) -> relax.Var:
        return self.builder.match_cast(value, ty)

    def kernel(
        self, func: tvm.tirx.PrimFunc, args: Sequence[Any], out: Any, name: str = "kernel", inplace: bool = False
    ) -> relax.Var:
        """A call of a hand-written PrimFunc; ``inplace`` lets the result overwrite the first argument."""
        target = self.builder.add_func(func, name)
        if inplace:
            return self.builder.emit(relax.op.call_tir_inplace(target, relax.Tuple(list(args)), [0], [out]))
        return self.builder.emit(relax.call_tir(target, relax.Tuple(list(args)), out))

    def packed(self, name: str, args: Sequence[relax.Expr], out: Any) -> relax.Var:
        return self.builder.emit(relax.op.call_dps_packed(name, relax.Tuple(list(args)), out))


def dataflow(
    params: Mapping[str, relax.TensorType], body: Callable[..., relax.Expr | Sequence[relax.Expr]]
) -> tvm.IRModule:
    """A module whose ``main`` is one dataflow block; ``body(g, *params)`` returns its result or its list of results."""
    builder = relax.BlockBuilder()
    variables = [relax.Var(name, ty) for name, ty in params.items()]
    with builder.function("main", variables):
        with builder.dataflow():
            result = body(Emitter(builder), *variables)
            if isinstance(result, list | tuple):
                result = relax.Tuple(list(result))
            result = builder.emit_output(result)
        builder.emit_func_output(result)
    return builder.get()
