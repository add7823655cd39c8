"""From a Relax binding block to a :class:`Region`: a graph, with the kernels behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

import tvm
from tvm import relax
from tvm.ir import Var

from tvm_vfuse.errors import Reject
from tvm_vfuse.graph.access import Traits, traits_of
from tvm_vfuse.graph.bindings import (
    describe,
    has_side_effects,
    is_call_tir,
    known_shape,
    output_types,
    scalars_of,
    symbols_defined,
    symbols_used,
    used_vars,
)
from tvm_vfuse.graph.blocks import read_kernel
from tvm_vfuse.graph.indices import const_int
from tvm_vfuse.graph.model import Graph, Operator, Value
from tvm_vfuse.graph.region import Region
from tvm_vfuse.graph.sizes import assumed_points, dtype_bytes
from tvm_vfuse.graph.stages import Kernel, Tensor

Expr: TypeAlias = tvm.ir.Expr


class KernelReader:
    """Parses each PrimFunc once."""

    def __init__(self, mod: tvm.IRModule) -> None:
        self.mod = mod
        self.read: dict[str, tuple[Kernel, Traits] | Reject] = {}

    def __call__(self, gv: tvm.ir.GlobalVar) -> tuple[Kernel, Traits]:
        """The stages of the function ``gv`` names, and their summary.

        Raises
        ------
        Reject
            If it can't be read.
        """
        found = self.read.get(gv.name_hint)
        if found is None:
            try:
                kernel = read_kernel(self.mod[gv])
                found = (kernel, traits_of(kernel))
            except Reject as why:
                found = why
            self.read[gv.name_hint] = found
        if isinstance(found, Reject):
            raise found
        return found


def extract(name: str, block: relax.BindingBlock, live: set[Var], reader: KernelReader) -> Region:
    """Build the graph of one block.

    Parameters
    ----------
    live : variables read outside of the block
    """
    work = _Extractor(reader)
    for b in block.bindings:
        work.add(b)
    return work.region(name, [b.var for b in block.bindings if b.var in live])


class _Extractor:
    """Numbers values and operators in the order of the bindings; ``by_key`` finds the value of a variable or field."""

    def __init__(self, reader: KernelReader) -> None:
        self.reader = reader
        self.values: list[Value] = []
        self.operators: list[Operator] = []
        self.bindings: list[relax.Binding] = []
        self.kernels: dict[int, Kernel] = {}
        self.arguments: dict[int, tuple[int, ...]] = {}
        self.scalars: dict[int, tuple[Expr, ...]] = {}
        self.tensors: dict[int, Tensor] = {}
        self.expressions: dict[int, Expr] = {}
        self.aliases: dict[Var, Expr] = {}
        self.by_key: dict[object, int] = {}
        self.made_by: dict[Var, int] = {}
        self.symbol_made_by: dict[Var, int] = {}
        self.barrier: int | None = None

    def region(self, name: str, live: Sequence[Var]) -> Region:
        """What was extracted; values that ``live`` variables or operators without a kernel give access to are live."""
        needed = {v for var in live for v in self._reachable(var)}
        for o in self.operators:
            if o.kind in ("other", "barrier"):
                needed |= {v for e in used_vars(self.bindings[o.index].value) for v in self._reachable(e)}
        values = [replace(v, live_out=v.index in needed) for v in self.values]
        return Region(
            Graph.of(name, self.operators, values),
            self.bindings,
            self.kernels,
            self.arguments,
            self.scalars,
            self.tensors,
            self.expressions,
            self.aliases,
        )

    # ------------------------------------------------------------------ values
    def value(self, expr: Expr) -> int | None:
        """The value ``expr`` (a variable, field or constant of tensor type) stands for; None for anything else."""
        root = self.resolve(expr)
        key = self._key(root)
        if key in self.by_key:
            return self.by_key[key]
        return None if known_shape(root.ty) is None else self._add_value(key, _name_of(root), root, root.ty)

    def resolve(self, expr: Expr) -> Expr:
        """``expr`` with aliases followed: variables bound to variables, fields of known tuples."""
        if isinstance(expr, Var):
            return self.aliases.get(expr, expr)
        if isinstance(expr, tvm.ir.Tuple):
            return tvm.ir.Tuple([self.resolve(f) for f in expr.fields])
        if isinstance(expr, tvm.ir.TupleGetItem):
            whole = self.resolve(expr.tuple_value)
            if isinstance(whole, tvm.ir.Tuple):
                return self.resolve(whole.fields[expr.index])
            return expr if whole.same_as(expr.tuple_value) else tvm.ir.TupleGetItem(whole, expr.index)
        return expr

    def _key(self, expr: Expr) -> object:
        if isinstance(expr, tvm.ir.TupleGetItem):
            return (self._key(expr.tuple_value), expr.index)
        return expr

    def _add_value(self, key: object, name: str, expr: Expr, ty: tvm.ir.Type, producer: int | None = None) -> int:
        shape = known_shape(ty)
        assert shape is not None
        index, dtype = len(self.values), str(ty.dtype)
        dims = tuple(str(s) if (size := const_int(s)) is None else size for s in shape)
        num_bytes = assumed_points(shape) * dtype_bytes(dtype)
        constant = isinstance(expr, tvm.ir.GenericConst)
        self.values.append(Value(index, name, dims, dtype, num_bytes, producer, constant=constant))
        self.tensors[index] = Tensor(index, name, tuple(shape), dtype)
        self.expressions[index] = expr
        self.by_key[key] = index
        return index

    def _reachable(self, expr: Expr) -> set[int]:
        """All values that a variable (a tensor or a tuple) gives access to."""
        root = self.resolve(expr)
        if isinstance(root, tvm.ir.Tuple):
            return {v for f in root.fields for v in self._reachable(f)}
        key = self._key(root)
        if key in self.by_key:
            return {self.by_key[key]}
        return {v for k, v in self.by_key.items() if isinstance(k, tuple) and (k[0] is root or k[0] == root)}

    # ------------------------------------------------------------------ bindings
    def add(self, binding: relax.Binding) -> None:
        """Add the operator of one binding, or remember the binding as an alias."""
        value = binding.value
        if isinstance(binding, relax.VarBinding) and isinstance(value, (Var, tvm.ir.Tuple, tvm.ir.TupleGetItem)):
            self.aliases[binding.var] = self.resolve(value)
            return
        index = len(self.operators)
        op = self._kernel(binding, index) if isinstance(binding, relax.VarBinding) else None
        op = op or self._other(binding, index)
        self.operators.append(op)
        self.bindings.append(binding)
        self.made_by[binding.var] = index
        for s in symbols_defined(binding):
            self.symbol_made_by.setdefault(s, index)
        if op.kind == "barrier":
            self.barrier = index

    def _kernel(self, binding: relax.VarBinding, index: int) -> Operator | None:
        """The operator of a ``call_tir``, opaque if its kernel or its arguments can't be read; None for other calls."""
        call = binding.value
        if not is_call_tir(call) or any(known_shape(t) is None for t in output_types(call)):
            return None
        inputs, why = self._inputs(call)
        scalars = scalars_of(call)
        outputs = self._outputs(binding.var, output_types(call), index)
        opaque = Operator(
            index, binding.var.name, call.args[0].name_hint, "opaque", tuple(dict.fromkeys(inputs)), outputs,
            requires=self._requires(binding), why=why,
        )  # fmt: skip
        try:
            kernel, traits = self.reader(call.args[0])
            why = why or _mismatch(kernel, inputs, scalars, outputs)
        except Reject as reject:
            why = why or reject.detail
        if why:
            return replace(opaque, why=why)
        self.kernels[index], self.arguments[index], self.scalars[index] = kernel, tuple(inputs), tuple(scalars)
        places = list(zip(inputs, traits.same_place, strict=False))
        scattered = {v for v, same in places if not same}
        return replace(
            opaque, kind="kernel", pointwise=self._is_pointwise(traits, inputs, outputs),
            aligned=tuple(dict.fromkeys(v for v, same in places if same and v not in scattered)),
            reductions=traits.reductions, contraction=traits.contraction, flops=traits.flops,
            expensive=traits.expensive, vector_ops=traits.vector_ops,
        )  # fmt: skip

    def _inputs(self, call: tvm.ir.Call) -> tuple[list[int], str]:
        """The tensors a ``call_tir`` passes, as values, and what is wrong with its arguments."""
        if not isinstance(call.args[1], tvm.ir.Tuple):
            return [], "its arguments are a tuple that is not built here"
        found = [self.value(f) for f in call.args[1].fields if not tvm.ir.is_prim_expr(f)]
        known = [v for v in found if v is not None]
        return known, "" if len(known) == len(found) else "an argument is no tensor of known rank"

    def _outputs(self, var: Var, types: list[tvm.ir.Type], index: int) -> tuple[int, ...]:
        if not isinstance(var.ty, tvm.ir.TupleType):
            return (self._add_value(var, var.name, var, types[0], index),)
        return tuple(
            self._add_value((var, n), f"{var.name}_{n}", tvm.ir.TupleGetItem(var, n), ty, index)
            for n, ty in enumerate(types)
        )

    def _is_pointwise(self, traits: Traits, inputs: list[int], outputs: tuple[int, ...]) -> bool:
        if not traits.pointwise or len(outputs) != 1 or len(traits.same_place) != len(inputs):
            return False
        shape = self.values[outputs[0]].shape
        return all(not same or self.values[v].shape == shape for v, same in zip(inputs, traits.same_place, strict=True))

    def _other(self, binding: relax.Binding, index: int) -> Operator:
        """An operator without a kernel: shape arithmetic, calls of other functions, packed calls, side effects."""
        value, name = binding.value, describe(binding.value)
        read = [v for e in used_vars(value) if (v := self.value(e)) is not None]
        inputs = tuple(dict.fromkeys(v for v in read if self.values[v].producer is not None))
        requires = self._requires(binding)
        outputs: tuple[int, ...] = ()
        if known_shape(binding.var.ty) is not None:
            outputs = (self._add_value(binding.var, binding.var.name, binding.var, binding.var.ty, index),)
        if has_side_effects(binding):
            why = f"{name} has side effects: nothing moves across it"
            everything = tuple(range(index))
            return Operator(index, binding.var.name, name, "barrier", inputs, outputs, requires=everything, why=why)
        why = f"{name} is no kernel"
        return Operator(index, binding.var.name, name, "other", inputs, outputs, requires=requires, why=why)

    def _requires(self, binding: relax.Binding) -> tuple[int, ...]:
        """Operators that bind a variable or a shape symbol used here, and the last barrier."""
        found: set[int] = set() if self.barrier is None else {self.barrier}
        for e in used_vars(binding.value):
            root = self.resolve(e)
            found |= {self.made_by[v] for v in used_vars(root) if v in self.made_by}
        found |= {self.symbol_made_by[s] for s in symbols_used(binding) if s in self.symbol_made_by}
        return tuple(sorted(found))


def _name_of(expr: Expr) -> str:
    if isinstance(expr, Var):
        return str(expr.name)
    return "const" if isinstance(expr, tvm.ir.GenericConst) else str(getattr(expr, "name", type(expr).__name__)).lower()


def _mismatch(kernel: Kernel, inputs: list[int], scalars: list[Expr], outputs: tuple[int, ...]) -> str:
    """Why a call does not fit its kernel, or nothing."""
    buffers = kernel.parameters
    if len(buffers) != len(inputs) + len(outputs):
        return f"the call passes {len(inputs)} tensors and makes {len(outputs)}, the kernel has {len(buffers)} buffers"
    if len(kernel.scalars) != len(scalars):
        return f"the call passes {len(scalars)} scalars, the kernel takes {len(kernel.scalars)}"
    if {t.key for t in buffers[len(inputs) :]} != {t.key for t in kernel.outputs}:
        return "the kernel writes one of its inputs or leaves an output unwritten"
    return ""
