"""Random Relax programs: small shapes, every kind of access, several outputs. The same seed gives the same program."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tvm
from tvm import relax

from tvm_vfuse.compare.shapes import evaluate_shape

op = relax.op
MAX_ELEMENTS = 4096
EXTENTS = (1, 2, 3, 4, 5, 7, 8, 9, 16, 17)


@dataclass
class Program:
    """A module, its inputs, and the operators in it."""

    mod: tvm.IRModule
    inputs: list[np.ndarray]
    log: list[str]


@dataclass
class _Growing:
    """Values made so far, each a bound variable."""

    rng: np.random.Generator
    builder: relax.BlockBuilder
    dtype: str
    values: list[Any] = field(default_factory=list)
    log: list[str] = field(default_factory=list)

    def pick(self, test: Callable[[tuple[int, ...]], bool] = lambda _shape: True) -> Any:
        """A value whose shape passes the test, recent ones more often; None where there is none."""
        fit = [v for v in self.values if test(shape_of(v))]
        if not fit:
            return None
        return fit[-1] if self.rng.random() < 0.5 else fit[self.rng.integers(len(fit))]

    def any_axis(self, value: Any) -> int:
        return int(self.rng.integers(len(shape_of(value))))

    @property
    def is_float(self) -> bool:
        return "float" in self.dtype


ROWS = tvm.ir.Var("n", "int64")
NUM_ROWS = 13  # no other extent: what is 13 (or 26) is n (or 2 n)


def shape_of(value: Any) -> tuple[int, ...]:
    """Extents of a value; symbolic ones as they are sampled."""
    return evaluate_shape(value.ty.shape.values, {ROWS: NUM_ROWS})


def is_symbolic(value: Any, axis: int) -> bool:
    return not isinstance(value.ty.shape.values[axis], tvm.tirx.IntImm)


def any_symbolic(value: Any) -> bool:
    return any(is_symbolic(value, i) for i in range(len(value.ty.shape.values)))


# ---------------------------------------------------------------------------------------------------------- operators
def _unary(g: _Growing) -> Any:
    x = g.pick()
    makers = [op.negative, op.nn.relu, op.abs]
    if g.is_float:
        makers += [op.tanh, op.sigmoid, op.exp, lambda v: op.sqrt(g.builder.emit(op.abs(v)))]
    return makers[g.rng.integers(len(makers))](x)


def _binary(g: _Growing) -> Any:
    x = g.pick()
    y = g.pick(lambda s: _broadcasts(s, shape_of(x)))
    makers = [op.add, op.subtract, op.multiply, op.maximum, op.minimum]
    return makers[g.rng.integers(len(makers))](x, y)


def _broadcasts(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    try:
        return math.prod(np.broadcast_shapes(a, b)) <= MAX_ELEMENTS
    except ValueError:
        return False


def _scalar(g: _Growing) -> Any:
    makers = [op.add, op.multiply, op.maximum]
    return makers[g.rng.integers(len(makers))](g.pick(), relax.const(2, g.dtype))


def _reduce(g: _Growing) -> Any:
    x = g.pick(lambda s: len(s) > 0)
    if x is None:
        return None
    rank = len(shape_of(x))
    axes = sorted(g.rng.choice(rank, size=g.rng.integers(1, rank + 1), replace=False).tolist())
    makers = [op.sum, op.max, op.min] + ([op.mean] if g.is_float else [])
    return makers[g.rng.integers(len(makers))](x, axis=axes, keepdims=bool(g.rng.random() < 0.7))


def _transpose(g: _Growing) -> Any:
    x = g.pick(lambda s: len(s) > 1)
    return None if x is None else op.permute_dims(x, g.rng.permutation(len(shape_of(x))).tolist())


def _reshape(g: _Growing) -> Any:
    x = g.pick(lambda s: len(s) > 0)
    if x is None or any_symbolic(x):
        return None
    left, dims = math.prod(shape_of(x)), []
    while left > 1 and len(dims) < 4:
        divisors = [d for d in range(1, left + 1) if left % d == 0]
        dims.append(divisors[g.rng.integers(len(divisors))])
        left //= dims[-1]
    return op.reshape(x, [*dims, left] if left > 1 or not dims else dims)


def _concat(g: _Growing) -> Any:
    x = g.pick(lambda s: len(s) > 0)
    if x is None:
        return None
    axis = g.any_axis(x)

    def fits(s: tuple[int, ...]) -> bool:
        mine = shape_of(x)
        same = len(s) == len(mine) and all(a == b for i, (a, b) in enumerate(zip(s, mine, strict=True)) if i != axis)
        return same and math.prod(s) + math.prod(mine) <= MAX_ELEMENTS

    return op.concat([x, y], axis=axis) if (y := g.pick(fits)) is not None else None


def _slice(g: _Growing) -> Any:
    x = g.pick(lambda s: any(e > 1 for e in s))
    if x is None:
        return None
    axis = int(g.rng.choice([i for i, e in enumerate(shape_of(x)) if e > 1]))
    if is_symbolic(x, axis):
        return None
    extent = shape_of(x)[axis]
    begin = int(g.rng.integers(0, extent - 1))
    end = int(g.rng.integers(begin + 1, extent + 1))
    return op.strided_slice(x, [axis], [begin], [end], [int(g.rng.integers(1, 3))])


def _flip(g: _Growing) -> Any:
    x = g.pick(lambda s: len(s) > 0)
    return None if x is None else op.flip(x, axis=g.any_axis(x))


def _pad(g: _Growing) -> Any:
    x = g.pick(lambda s: len(s) > 0 and math.prod(s) < MAX_ELEMENTS // 4)
    if x is None:
        return None
    widths = [0] * (2 * len(shape_of(x)))
    axis = g.any_axis(x)
    widths[2 * axis], widths[2 * axis + 1] = (int(w) for w in g.rng.integers(0, 3, 2))
    return op.nn.pad(x, widths)


def _take(g: _Growing) -> Any:
    x = g.pick(lambda s: len(s) > 0)
    if x is None:
        return None
    axis = g.any_axis(x)
    if is_symbolic(x, axis):
        return None
    extent = shape_of(x)[axis]
    indices = g.rng.integers(0, extent, size=int(g.rng.integers(1, extent + 1)))
    return op.take(x, relax.const(indices.astype("int64")), axis=axis, mode="clip")


def _expand(g: _Growing) -> Any:
    x = g.pick(lambda s: len(s) < 4)
    return None if x is None else op.expand_dims(x, int(g.rng.integers(len(shape_of(x)) + 1)))


def _broadcast(g: _Growing) -> Any:
    x = g.pick(lambda s: 1 in s)
    if x is None:
        return None
    sampled = shape_of(x)
    shape = [int(g.rng.choice(EXTENTS)) if e == 1 else e for e in sampled]
    if math.prod(shape) > MAX_ELEMENTS:
        return None
    return op.broadcast_to(x, [d if e > 1 else w for d, e, w in zip(x.ty.shape.values, sampled, shape, strict=True)])


def _matmul(g: _Growing) -> Any:
    x = g.pick(lambda s: len(s) == 2)
    y = None if x is None else g.pick(lambda s: len(s) == 2 and s[0] == shape_of(x)[1])
    return None if y is None else op.matmul(x, y)


def _pool(g: _Growing) -> Any:
    x = g.pick(lambda s: len(s) == 4 and s[2] > 1 and s[3] > 1)
    if x is None:
        return None
    return op.nn.max_pool2d(
        x, pool_size=[2, 2], strides=[int(g.rng.integers(1, 3))] * 2, padding=[int(g.rng.integers(2))] * 4
    )


def _where(g: _Growing) -> Any:
    """On integers only: a rounding difference must not flip a comparison."""
    x = g.pick()
    y = g.pick(lambda s: _broadcasts(s, shape_of(x)))
    condition = g.builder.emit(op.greater(x, y))
    return op.where(condition, x, y)


def _softmax(g: _Growing) -> Any:
    x = g.pick(lambda s: len(s) > 0)
    return None if x is None else op.nn.softmax(x, axis=g.any_axis(x))


STRUCTURE = (_reduce, _transpose, _reshape, _concat, _slice, _flip, _pad, _take, _expand, _broadcast, _matmul, _pool)
ELEMENTWISE = (_unary, _binary, _scalar)


def random_program(
    seed: int, dtype: str = "int32", length: int = 8, elementwise: bool = False, symbolic: bool = False
) -> Program:
    """A program of about ``length`` operators.

    Parameters
    ----------
    elementwise : bool
        No reductions: results then are the unfused ones bit for bit.
    symbolic : bool
        The first axis of the first two inputs has a symbolic extent.
    """
    rng = np.random.default_rng([seed, length, elementwise, *dtype.encode(), *([1] if symbolic else [])])
    rank = int(rng.integers(0, 5))
    base = tuple(int(e) for e in rng.choice(EXTENTS, size=rank))
    while math.prod(base) > 512:
        base = base[1:]
    shapes = [base, tuple(1 if rng.random() < 0.4 else e for e in base), base[int(rng.integers(len(base) + 1)) :]]
    declared = [list(s) for s in shapes]
    if symbolic:
        shapes = [(NUM_ROWS, *s) if i < 2 else s for i, s in enumerate(shapes)]
        declared = [[ROWS, *s] if i < 2 else s for i, s in enumerate(declared)]
    params = [relax.Var(f"x{i}", relax.TensorType(s, dtype)) for i, s in enumerate(declared)]
    builder = relax.BlockBuilder()
    g = _Growing(rng, builder, dtype, list(params))
    makers = [*ELEMENTWISE * 3, *STRUCTURE, *([_softmax] if g.is_float else [_where])]
    if elementwise:
        makers = [m for m in makers if m not in (_reduce, _matmul, _pool, _softmax)]
    with builder.function("main", params):
        with builder.dataflow():
            while len(g.values) < length + 3:
                maker = makers[rng.integers(len(makers))]
                made = maker(g)
                if made is not None:
                    g.values.append(builder.emit(made))
                    g.log.append(f"{maker.__name__} {shape_of(g.values[-1])}")
            made = g.values[3:]
            chosen = [*[v for v in made[:-1] if rng.random() < 0.2][:3], made[-1]]
            result = builder.emit_output(relax.Tuple(chosen) if len(chosen) > 1 else chosen[0])
        builder.emit_func_output(result)
    return Program(builder.get(), [_sample(rng, s, dtype) for s in shapes], g.log)


def _sample(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    if dtype.startswith("int"):
        return rng.integers(-9, 10, shape).astype(dtype)
    return np.asarray(rng.uniform(-1, 1, shape)).astype(dtype)
