"""From a Relax binding block to a :class:`Graph`, with the kernels behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import tvm
from tvm import relax
from tvm.ir import Var

from tvm_vfuse.errors import Reject
from tvm_vfuse.graph.access import Traits, traits_of
from tvm_vfuse.graph.blocks import read_kernel
from tvm_vfuse.graph.compose import Member, Program, compose
from tvm_vfuse.graph.indices import const_int
from tvm_vfuse.graph.model import Graph, Operator, Value
from tvm_vfuse.graph.stages import Kernel, Tensor

UNKNOWN_EXTENT = 1024
CALL_TIR = "relax.call_tir"
# Pure calls that are no kernels; everything else that is not known to be pure is a barrier.
IN_PLACE = ("relax.call_tir_inplace", "relax.call_inplace_packed")


@dataclass
class Region:
    """One binding block: its graph, and what is needed to build groups from it.

    ``bindings[i]`` is the binding of operator ``i``; ``value_of`` gives the value a variable (or tuple field)
    stands for; ``kernels[i]`` the stages of a kernel operator.
    """

    graph: Graph
    bindings: list[relax.Binding]
    kernels: dict[int, Kernel]
    tensors: dict[int, Tensor]
    expressions: dict[int, tvm.ir.Expr]
    arguments: dict[int, tuple[int, ...]]
    scalars: dict[int, tuple[tvm.ir.Expr, ...]]
    aliases: dict[Var, tvm.ir.Expr] = field(default_factory=dict)

    def program(self, members: Sequence[int], clones: Sequence[int] = ()) -> Program:
        """The members' stages as one program; ``clones`` are computed here but written elsewhere.

        Raises
        ------
        Reject
            If their shapes do not fit together.
        """
        parts = []
        for i in sorted({*members, *clones}):
            args = [self.tensors[v] for v in (*self.arguments[i], *self.graph.operators[i].outputs)]
            parts.append(Member(self.kernels[i], tuple(args), self.scalars[i]))
        return compose(parts, [self.tensors[v] for v in self.graph.outputs_of(members)])


class KernelReader:
    """Parses each PrimFunc once."""

    def __init__(self, mod: tvm.IRModule) -> None:
        self.mod = mod
        self.read: dict[str, tuple[Kernel, Traits] | Reject] = {}

    def __call__(self, gv: tvm.ir.GlobalVar) -> tuple[Kernel, Traits]:
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


class _Extractor:
    def __init__(self, name: str, reader: KernelReader) -> None:
        self.name, self.reader = name, reader
        self.values: list[Value] = []
        self.operators: list[Operator] = []
        self.region = Region(None, [], {}, {}, {}, {}, {})  # type: ignore[arg-type]
        self.by_key: dict[object, int] = {}
        self.made_by: dict[Var, int] = {}
        self.symbol_made_by: dict[Var, int] = {}
        self.barrier: int | None = None

    # ------------------------------------------------------------------ values
    def value(self, expr: tvm.ir.Expr) -> int | None:
        """The value ``expr`` (a variable, field or constant of tensor type) stands for."""
        root = self.resolve(expr)
        key = self.key(root)
        if key in self.by_key:
            return self.by_key[key]
        if not isinstance(root.ty, relax.TensorType) or root.ty.shape is None:
            return None
        return self.add_value(root, key, None)

    def key(self, expr: tvm.ir.Expr) -> object:
        if isinstance(expr, tvm.ir.TupleGetItem):
            return (self.key(expr.tuple_value), expr.index)
        return expr

    def resolve(self, expr: tvm.ir.Expr) -> tvm.ir.Expr:
        """``expr`` with aliases followed: variables bound to variables, fields of known tuples."""
        if isinstance(expr, Var):
            return self.region.aliases.get(expr, expr)
        if isinstance(expr, tvm.ir.TupleGetItem):
            whole = self.resolve(expr.tuple_value)
            if isinstance(whole, tvm.ir.Tuple):
                return self.resolve(whole.fields[expr.index])
            return expr if whole.same_as(expr.tuple_value) else tvm.ir.TupleGetItem(whole, expr.index)
        return expr

    def add_value(self, expr: tvm.ir.Expr, key: object, producer: int | None) -> int:
        index = len(self.values)
        shape = [s for s in expr.ty.shape.values] if hasattr(expr.ty.shape, "values") else list(expr.ty.shape)
        dims = [const_int(s) if const_int(s) is not None else str(s) for s in shape]
        dtype = str(expr.ty.dtype)
        count = 1
        for d in dims:
            count *= d if isinstance(d, int) else UNKNOWN_EXTENT
        name = expr.name if isinstance(expr, Var) else f"{_root_name(expr)}"
        bits = 8 if dtype == "bool" else tvm.DataType(dtype).bits
        self.values.append(
            Value(
                index,
                name,
                tuple(dims),
                dtype,
                count * max(1, bits // 8),
                producer,
                False,
                isinstance(expr, tvm.ir.GenericConst),
            )
        )
        self.region.tensors[index] = Tensor(index, name, tuple(shape), dtype)
        self.region.expressions[index] = expr
        self.by_key[key] = index
        return index

    # ------------------------------------------------------------------ bindings
    def add(self, binding: relax.Binding) -> None:
        value = binding.value
        if isinstance(binding, relax.VarBinding) and isinstance(value, (Var, tvm.ir.Tuple, tvm.ir.TupleGetItem)):
            self.region.aliases[binding.var] = self.alias(value)
            return
        index = len(self.operators)
        kernel = self.kernel(binding, index) if isinstance(binding, relax.VarBinding) else None
        op = kernel or self.other(binding, index)
        self.operators.append(op)
        self.region.bindings.append(binding)
        self.made_by[binding.var] = index
        for s in _symbols_defined(binding):
            self.symbol_made_by.setdefault(s, index)
        if op.kind == "barrier":
            self.barrier = index

    def alias(self, value: tvm.ir.Expr) -> tvm.ir.Expr:
        if isinstance(value, tvm.ir.Tuple):
            return tvm.ir.Tuple(
                [self.resolve(f) if not isinstance(f, tvm.ir.Tuple) else self.alias(f) for f in value.fields]
            )
        return self.resolve(value)

    def kernel(self, binding: relax.VarBinding, index: int) -> Operator | None:
        call = binding.value
        if not isinstance(call, tvm.ir.Call) or getattr(call.op, "name", "") != CALL_TIR:
            return None
        gv, args = call.args[0], call.args[1]
        outs = [call.ty_args[0]] if not isinstance(call.ty_args[0], tvm.ir.TupleType) else list(call.ty_args[0].fields)
        fields = list(args.fields) if isinstance(args, tvm.ir.Tuple) else None
        why, kernel, traits = "", None, None
        inputs: list[int] = []
        scalars: list[tvm.ir.Expr] = []
        for f in fields or ():
            found = self.value(f)
            if found is not None:
                inputs.append(found)
            elif tvm.ir.is_prim_expr(f):
                scalars.append(f)
            else:
                why = "an argument is no tensor of known rank"
        if fields is None:
            why = "its arguments are a tuple that is not built here"
        try:
            kernel, traits = self.reader(gv)
        except Reject as reject:
            why = why or reject.detail
        if any(not isinstance(o, relax.TensorType) or o.shape is None for o in outs):
            return None
        made = tuple(self.output(binding.var, outs, i, index) for i in range(len(outs)))
        if len(call.args) > 2 and not why:
            scalars += list(call.args[2].values)
        if kernel is not None and not why:
            why = _mismatch(kernel, inputs, scalars, made)
        common = dict(
            index=index, name=binding.var.name, op=gv.name_hint, inputs=tuple(dict.fromkeys(inputs)), outputs=made,
            requires=self.requires(binding),
        )  # fmt: skip
        if why or kernel is None or traits is None:
            return Operator(kind="opaque", why=why, **common)
        self.region.kernels[index] = kernel
        self.region.arguments[index] = tuple(inputs)
        self.region.scalars[index] = tuple(scalars)
        aligned = tuple(v for v, same in zip(inputs, traits.same_place, strict=False) if same)
        pointwise = self.is_pointwise(traits, inputs, made)
        scattered = [v for v, same in zip(inputs, traits.same_place, strict=False) if not same]
        return Operator(
            kind="kernel", pointwise=pointwise, aligned=tuple(dict.fromkeys(v for v in aligned if v not in scattered)),
            reductions=traits.reductions, contraction=traits.contraction, flops=traits.flops,
            expensive=traits.expensive, vector_ops=traits.vector_ops, **common,
        )  # fmt: skip

    def is_pointwise(self, traits: Traits, inputs: list[int], outputs: tuple[int, ...]) -> bool:
        if not traits.pointwise or len(outputs) != 1 or len(traits.same_place) != len(inputs):
            return False
        shape = self.values[outputs[0]].shape
        return all(not same or self.values[v].shape == shape for v, same in zip(inputs, traits.same_place, strict=True))

    def output(self, var: Var, outs: list, number: int, index: int) -> int:
        if len(outs) == 1 and not isinstance(var.ty, tvm.ir.TupleType):
            return self.add_value(var, var, index)
        field_ = tvm.ir.TupleGetItem(var, number)
        return self.add_value(_Typed(field_, outs[number], f"{var.name}_{number}"), (var, number), index)

    def other(self, binding: relax.Binding, index: int) -> Operator:
        value = binding.value
        name = _describe(value)
        pure = isinstance(binding, relax.MatchCast) or (
            not _is_in_place(value) and not relax.analysis.contains_impure_call(_as_function(binding))
        )
        inputs = tuple(
            dict.fromkeys(
                v for e in _used(value) if (v := self.value(e)) is not None and self.values[v].producer is not None
            )
        )
        kind = "other" if pure else "barrier"
        why = f"{name} is no kernel" if pure else f"{name} has side effects: nothing moves across it"
        requires = self.requires(binding)
        if not pure:
            requires = tuple(range(index))
        made: tuple[int, ...] = ()
        ty = binding.var.ty
        if isinstance(ty, relax.TensorType) and ty.shape is not None and hasattr(ty.shape, "values"):
            made = (self.add_value(binding.var, binding.var, index),)
        return Operator(index, binding.var.name, name, kind, inputs, made, requires=requires, why=why)

    def requires(self, binding: relax.Binding) -> tuple[int, ...]:
        """Operators that bind a variable or a shape symbol used here, and the last barrier."""
        found: set[int] = set() if self.barrier is None else {self.barrier}
        for e in _used(binding.value):
            root = self.resolve(e)
            for v in _used(root) if not isinstance(root, Var) else [root]:
                if v in self.made_by:
                    found.add(self.made_by[v])
        found |= {self.symbol_made_by[s] for s in _symbols_used(binding) if s in self.symbol_made_by}
        return tuple(sorted(found))


class _Typed:
    """A tuple field with its type (a bare TupleGetItem has none before normalisation)."""

    def __init__(self, expr: tvm.ir.TupleGetItem, ty: relax.TensorType, name: str) -> None:
        self.expr, self.ty, self.name = expr, ty, name


def extract(name: str, block: relax.BindingBlock, live: set[Var], reader: KernelReader) -> Region:
    """Build the graph of one block.

    Parameters
    ----------
    live : variables read outside of the block
    """
    ex = _Extractor(name, reader)
    for b in block.bindings:
        ex.add(b)
    needed: set[int] = set()
    for b in block.bindings:
        if b.var in live:
            needed |= ex_values(ex, b.var)
    for o in ex.operators:
        if o.kind in ("other", "barrier"):
            for e in _used(ex.region.bindings[o.index].value):
                needed |= ex_values(ex, e)
    values = [
        v
        if v.index not in needed
        else Value(v.index, v.name, v.shape, v.dtype, v.num_bytes, v.producer, True, v.constant)
        for v in ex.values
    ]
    region = ex.region
    region.graph = Graph.of(name, ex.operators, values)
    region.expressions = {k: e.expr if isinstance(e, _Typed) else e for k, e in region.expressions.items()}
    return region


def ex_values(ex: _Extractor, expr: tvm.ir.Expr) -> set[int]:
    """All values that a variable (a tensor or a tuple) gives access to."""
    root = ex.resolve(expr)
    if isinstance(root, tvm.ir.Tuple):
        return set().union(*(ex_values(ex, f) for f in root.fields)) if root.fields else set()
    key = ex.key(root)
    if key in ex.by_key:
        return {ex.by_key[key]}
    return {
        v
        for k, v in ex.by_key.items()
        if (isinstance(k, tuple) and k[0] is root) or (isinstance(k, tuple) and k[0] == root)
    }


def _mismatch(kernel: Kernel, inputs: list[int], scalars: list, outputs: tuple[int, ...]) -> str:
    buffers = len(kernel.tensors) and sum(1 for p in kernel.params if p in kernel.tensors)
    if buffers != len(inputs) + len(outputs):
        return f"the call passes {len(inputs)} tensors and makes {len(outputs)}, the kernel has {buffers} buffers"
    if len(kernel.scalars) != len(scalars):
        return f"the call passes {len(scalars)} scalars, the kernel takes {len(kernel.scalars)}"
    made = [kernel.tensors[p] for p in kernel.params if p in kernel.tensors][len(inputs) :]
    if {t.key for t in made} != {t.key for t in kernel.outputs}:
        return "the kernel writes one of its inputs or leaves an output unwritten"
    return ""


def _used(expr: object) -> list[Var]:
    """Relax variables in an expression, in order, without repeats."""
    found: dict[Var, None] = {}

    def visit(e: tvm.ir.Expr) -> None:
        if isinstance(e, Var) and not isinstance(e.ty, tvm.ir.PrimType):
            found.setdefault(e)

    if isinstance(expr, tvm.ir.Expr):
        relax.analysis.post_order_visit(expr, visit)
    return list(found)


def _symbols_defined(binding: relax.Binding) -> list[Var]:
    if isinstance(binding, relax.MatchCast):
        return list(relax.analysis.definable_tir_vars_in_type(binding.ty))
    return list(relax.analysis.definable_tir_vars_in_type(binding.var.ty))


def _symbols_used(binding: relax.Binding) -> list[Var]:
    """Shape symbols in the binding's arguments and types."""
    found: dict[Var, None] = {}

    def visit(e: tvm.ir.Expr) -> None:
        if isinstance(e, Var) and isinstance(e.ty, tvm.ir.PrimType):
            found.setdefault(e)
        elif getattr(e, "ty", None) is not None and not isinstance(e, tvm.ir.GlobalVar):
            try:
                for s in relax.analysis.tir_vars_in_type(e.ty):
                    found.setdefault(s)
            except (TypeError, RuntimeError):
                pass

    relax.analysis.post_order_visit(binding.value, visit)
    for t in getattr(binding.value, "ty_args", None) or ():
        for s in relax.analysis.tir_vars_in_type(t):
            found.setdefault(s)
    return list(found)


def _is_in_place(value: tvm.ir.Expr) -> bool:
    return getattr(getattr(value, "op", None), "name", "") in IN_PLACE


def _as_function(binding: relax.Binding) -> relax.Function:
    """The binding alone as a function body, for TVM's purity analysis."""
    body = relax.SeqExpr([relax.BindingBlock([binding])], binding.var)
    return relax.Function([], body, binding.var.ty, is_pure=False)


def _describe(value: tvm.ir.Expr) -> str:
    op = getattr(value, "op", None)
    name = getattr(op, "name_hint", None) or getattr(op, "name", None) or getattr(op, "global_symbol", None)
    if name in ("relax.call_pure_packed", "relax.call_dps_packed", *IN_PLACE):
        first = value.args[0]
        return f"{name.removeprefix('relax.')} {getattr(first, 'global_symbol', getattr(first, 'name_hint', first))}"
    return str(name) if name else type(value).__name__


def _root_name(expr: tvm.ir.Expr) -> str:
    return "const" if isinstance(expr, tvm.ir.GenericConst) else str(getattr(expr, "name", type(expr).__name__)).lower()
