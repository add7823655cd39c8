"""Walk a Relax module as one run would, and list the kernels that it launches with the tensors they touch.

Shapes are concrete (bound from the inputs), views share the storage of what they view, and calls of private Relax
functions are followed. Branches and loops are walked once each, statically; :attr:`Trace.notes` says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tvm
from tvm import relax, tirx

from tvm_vfuse.compare.shapes import Bindings, Shape, bind_shape, element_bits, evaluate, evaluate_shape, num_bytes
from tvm_vfuse.errors import InputError

_LAUNCHES = ("relax.call_tir", "relax.call_tir_inplace", "relax.call_dps_packed")
_VIEWS = ("relax.reshape", "relax.expand_dims", "relax.flatten", "relax.squeeze", "relax.memory.view")
_PACKED = ("relax.call_pure_packed", "relax.call_inplace_packed", "relax.call_packed", "relax.invoke_pure_closure")


@dataclass(frozen=True)
class TensorValue:
    """A tensor at one point of the run.

    Parameters
    ----------
    storages : frozenset of int
        The memory it may lie in; more than one only after a branch.
    shape : tuple of int or None
    bits : int
        Bits of one element.
    """

    storages: frozenset[int]
    shape: Shape
    bits: int

    @property
    def nbytes(self) -> int | None:
        """Size in bytes; None where an extent is known at run time only."""
        return num_bytes(self.shape, self.bits)


@dataclass(frozen=True)
class Scalar:
    """A shape, a primitive value or anything else that is no tensor; ``values`` are its integers where known."""

    values: tuple[int | None, ...] = ()


Value = TensorValue | Scalar | tuple  # tuples nest


@dataclass(frozen=True)
class Launch:
    """One kernel launched.

    Parameters
    ----------
    name : str
        Name of the kernel's function.
    inputs, outputs : tuple of TensorValue
        What it is given and what it writes, in the order of its parameters.
    function : tvm.tirx.PrimFunc or None
        None for an external kernel.
    bindings : dict
        Values of the function's own symbolic variables.
    """

    name: str
    inputs: tuple[TensorValue, ...]
    outputs: tuple[TensorValue, ...]
    function: Any
    bindings: Bindings = field(hash=False, compare=False)


@dataclass(frozen=True)
class Trace:
    """The launches of one run and what the memory they touch is.

    Parameters
    ----------
    launches : tuple of Launch
        In the order of execution.
    parameters, results : tuple of TensorValue
        Tensors among the function's inputs and outputs.
    constants : dict of int to TensorValue
        Storage of each constant that a kernel reads.
    created : dict of int to TensorValue
        Storage of each tensor made during the run.
    names : dict of int to str
        Variable that holds each storage; only names that one binding has, of memory that is never written again.
    notes : tuple of str
        What a static walk can't tell, in words.
    """

    launches: tuple[Launch, ...]
    parameters: tuple[TensorValue, ...]
    results: tuple[TensorValue, ...]
    constants: dict[int, TensorValue]
    created: dict[int, TensorValue]
    names: dict[int, str]
    notes: tuple[str, ...]


def trace(mod: tvm.ir.IRModule, inputs: Sequence[Any], entry: str = "main") -> Trace:
    """List the launches of ``mod[entry]`` on ``inputs``.

    Parameters
    ----------
    mod : IRModule
        A Relax module of ``call_tir``s, before it is lowered to calls with storage.
    inputs : sequence of array or of nested sequences of arrays
        Arguments of the entry function; only their shapes are read.
    entry : str

    Raises
    ------
    InputError
        If the module has no such function or takes another number of inputs.
    """
    mod = relax.transform.RewriteDataflowReshape()(mod)
    function = entry_function(mod, entry)
    if len(function.params) != len(inputs):
        raise InputError(f"{entry} takes {len(function.params)} inputs, but {len(inputs)} were given")
    walker = _Walker(mod)
    arguments = [walker.argument(param.ty, array) for param, array in zip(function.params, inputs)]
    result = walker.call(function, arguments)
    constants = {walker.constants[key]: value for key, value in walker.constant_values.items()}
    return Trace(
        launches=tuple(walker.launches),
        parameters=_tensors(arguments),
        results=_tensors([result]),
        constants=constants,
        created=walker.created,
        names=walker.unique_names(),
        notes=tuple(walker.notes),
    )


def entry_function(mod: tvm.ir.IRModule, entry: str = "main") -> relax.Function:
    """Return the Relax function ``entry`` of a module; :class:`InputError` where there is none."""
    functions = {var.name_hint: f for var, f in mod.functions.items() if isinstance(f, relax.Function)}
    if entry not in functions:
        raise InputError(
            f"the module has no function {entry!r}; rename one of {', '.join(sorted(functions)) or 'none'}"
        )
    return functions[entry]


def _tensors(values: Sequence[Any]) -> tuple[TensorValue, ...]:
    """All tensors among (nested) values, in order."""
    found: list[TensorValue] = []
    for value in values:
        if isinstance(value, TensorValue):
            found.append(value)
        elif isinstance(value, tuple | list):
            found.extend(_tensors(value))
    return tuple(found)


class _Walker:
    """Abstract interpreter of Relax functions: values are storages and concrete shapes."""

    def __init__(self, mod: tvm.ir.IRModule) -> None:
        self.mod = mod
        self.launches: list[Launch] = []
        self.created: dict[int, TensorValue] = {}
        self.constants: dict[int, int] = {}
        self.constant_values: dict[int, TensorValue] = {}
        self.notes: list[str] = []
        self.names: dict[int, str] = {}
        self.bound: Counter[str] = Counter()
        self._next = 0
        self._active: list[Any] = []

    # ---------------------------------------------------------------------------------------------------- values
    def argument(self, ty: Any, array: Any) -> Value:
        """Value of an entry argument, shaped as the array given for it."""
        if isinstance(ty, tvm.ir.TupleType):
            return tuple(self.argument(field_ty, item) for field_ty, item in zip(ty.fields, array, strict=True))
        if isinstance(ty, relax.TensorType):
            shape = tuple(int(extent) for extent in np.shape(array))
            return TensorValue(frozenset({self._storage()}), shape, element_bits(ty.dtype))
        if isinstance(ty, relax.ShapeType):
            return Scalar(tuple(int(extent) for extent in array))
        return Scalar((int(array),)) if np.ndim(array) == 0 and np.asarray(array).dtype.kind in "iub" else Scalar()

    def _storage(self) -> int:
        self._next += 1
        return self._next

    def _fresh(self, ty: Any, bindings: Bindings) -> Value:
        """Value of a type whose tensors are newly made."""
        if isinstance(ty, tvm.ir.TupleType):
            return tuple(self._fresh(field_ty, bindings) for field_ty in ty.fields)
        if not isinstance(ty, relax.TensorType):
            return Scalar()
        value = TensorValue(frozenset({self._storage()}), _type_shape(ty, bindings), _type_bits(ty))
        self.created[next(iter(value.storages))] = value
        return value

    def _constant(self, expr: Any) -> Value:
        data = expr.value
        if not isinstance(data, tvm.runtime.Tensor):
            return Scalar()
        key = data.__chandle__()
        if key not in self.constants:
            self.constants[key] = self._storage()
            shape = tuple(int(extent) for extent in data.shape)
            storages = frozenset({self.constants[key]})
            self.constant_values[key] = TensorValue(storages, shape, element_bits(expr.ty.dtype))
        return self.constant_values[key]

    def unique_names(self) -> dict[int, str]:
        """Name of each storage that holds one value throughout, where only one binding has that name."""
        changed = {
            storage
            for launch in self.launches
            for value in launch.outputs
            for storage in value.storages
            if any(storage in read.storages for read in launch.inputs)
        }
        return {
            storage: name for storage, name in self.names.items() if self.bound[name] == 1 and storage not in changed
        }

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    # ------------------------------------------------------------------------------------------------- functions
    def call(self, function: relax.Function, arguments: Sequence[Value]) -> Value:
        """Walk a function's body with the given arguments; returns its result."""
        bindings: Bindings = {}
        for param, value in zip(function.params, arguments, strict=True):
            _bind_type(param.ty, value, bindings)
        if any(active.same_as(function) for active in self._active):
            self._note("loop: the body of a recursive function is counted once")
            return self._fresh(function.ret_ty, bindings)
        self._active.append(function)
        scope: dict[Any, Any] = dict(zip(function.params, arguments))
        result = self._eval(function.body, scope, bindings)
        self._active.pop()
        return result

    def _eval(self, expr: Any, scope: dict[Any, Any], bindings: Bindings) -> Any:
        if isinstance(expr, relax.SeqExpr):
            for block in expr.blocks:
                for binding in block.bindings:
                    self._bind(binding, scope, bindings)
            return self._eval(expr.body, scope, bindings)
        if isinstance(expr, tvm.ir.Var):
            return scope[expr] if expr in scope else Scalar((bindings.get(expr),))
        if isinstance(expr, tvm.ir.GenericConst):
            return self._constant(expr)
        if isinstance(expr, tvm.ir.Tuple):
            return tuple(self._eval(item, scope, bindings) for item in expr.fields)
        if isinstance(expr, tvm.ir.TupleGetItem):
            whole = self._eval(expr.tuple_value, scope, bindings)
            return whole[expr.index] if isinstance(whole, tuple) else self._fresh(expr.ty, bindings)
        if isinstance(expr, relax.ShapeExpr):
            return Scalar(evaluate_shape(expr.values, bindings))
        if isinstance(expr, relax.If):
            return self._branch(expr, scope, bindings)
        if isinstance(expr, relax.Function):
            return expr
        if isinstance(expr, tvm.ir.Call) and not isinstance(expr.ty, tvm.ir.PrimType):
            return self._call(expr, scope, bindings)
        return Scalar((evaluate(expr, bindings),))

    def _bind(self, binding: Any, scope: dict[Any, Any], bindings: Bindings) -> None:
        value = self._eval(binding.value, scope, bindings)
        if isinstance(binding, relax.MatchCast):
            _bind_type(binding.ty, value, bindings)
        scope[binding.var] = value
        self.bound[binding.var.name] += 1
        if isinstance(value, TensorValue) and len(value.storages) == 1:
            self.names.setdefault(next(iter(value.storages)), binding.var.name)

    def _branch(self, expr: relax.If, scope: dict[Any, Any], bindings: Bindings) -> Value:
        self._note("branch: the kernels of both sides are counted")
        sides = [self._eval(side, dict(scope), bindings) for side in (expr.true_branch, expr.false_branch)]
        return _join(sides[0], sides[1])

    # ----------------------------------------------------------------------------------------------------- calls
    def _call(self, call: tvm.ir.Call, scope: dict[Any, Any], bindings: Bindings) -> Value:
        name = getattr(call.op, "name", "") if isinstance(call.op, tvm.ir.Op) else ""
        if name in _LAUNCHES:
            return self._launch(call, name, scope, bindings)
        arguments = [self._eval(arg, scope, bindings) for arg in call.args]
        if name in _VIEWS and isinstance(arguments[0], TensorValue):
            return TensorValue(arguments[0].storages, _type_shape(call.ty, bindings), _type_bits(call.ty))
        callee = self.mod[call.op] if isinstance(call.op, tvm.ir.GlobalVar) else scope.get(call.op)
        if isinstance(callee, relax.Function):
            return self.call(callee, arguments)
        if name in _PACKED or isinstance(call.op, relax.ExternFunc):
            self._note("calls of packed functions are not kernels of ours and are not counted")
        return self._fresh(call.ty, bindings)

    def _launch(self, call: tvm.ir.Call, name: str, scope: dict[Any, Any], bindings: Bindings) -> Value:
        given = self._eval(call.args[1], scope, bindings)
        given = given if isinstance(given, tuple) else (given,)
        if len(call.args) > 2:
            given = (*given, self._eval(call.args[2], scope, bindings))
        out_ty = call.ty_args[0]
        if name == "relax.call_tir_inplace":
            out = self._inplace(out_ty, call.attrs.inplace_indices, given, bindings)
        else:
            out = self._fresh(out_ty, bindings)
        outputs = _tensors([out])
        function = self.mod[call.args[0]] if isinstance(call.args[0], tvm.ir.GlobalVar) else None
        kernel = call.args[0].name_hint if function is not None else str(call.args[0].global_symbol)
        bound = _bind_primfunc(function, given, outputs) if function is not None else {}
        self.launches.append(Launch(kernel, _tensors(given), outputs, function, bound))
        return out

    def _inplace(self, out_ty: Any, indices: Any, given: tuple, bindings: Bindings) -> Value:
        """Outputs of an in-place call: those with an index lie in that argument's memory."""
        fields = list(out_ty.fields) if isinstance(out_ty, tvm.ir.TupleType) else [out_ty]
        out = tuple(
            given[int(index)] if int(index) >= 0 else self._fresh(ty, bindings)
            for ty, index in zip(fields, indices, strict=True)
        )
        return out if isinstance(out_ty, tvm.ir.TupleType) else out[0]


def _join(left: Any, right: Any) -> Any:
    """Value after a branch: it lies in either side's memory."""
    if isinstance(left, tuple) and isinstance(right, tuple):
        return tuple(_join(a, b) for a, b in zip(left, right, strict=True))
    if isinstance(left, TensorValue) and isinstance(right, TensorValue):
        shape = tuple(a if a == b else None for a, b in zip(left.shape, right.shape, strict=False))
        return TensorValue(left.storages | right.storages, shape, left.bits)
    return left if left == right else Scalar()


def _type_shape(ty: Any, bindings: Bindings) -> Shape:
    return (None,) if ty.shape is None or not hasattr(ty.shape, "values") else evaluate_shape(ty.shape.values, bindings)


def _type_bits(ty: Any) -> int:
    return element_bits(ty.dtype) if ty.dtype is not None else 8


def _bind_type(ty: Any, value: Any, bindings: Bindings) -> None:
    """Bind the symbolic variables of a Relax type from the value that has it."""
    if isinstance(ty, tvm.ir.TupleType) and isinstance(value, tuple):
        for field_ty, item in zip(ty.fields, value, strict=True):
            _bind_type(field_ty, item, bindings)
    elif isinstance(ty, relax.TensorType) and isinstance(value, TensorValue):
        if ty.shape is not None and hasattr(ty.shape, "values"):
            bind_shape(ty.shape.values, value.shape, bindings)
    elif isinstance(ty, relax.ShapeType) and isinstance(value, Scalar) and ty.values is not None:
        bind_shape(ty.values, value.values, bindings)


def _bind_primfunc(function: tirx.PrimFunc, given: tuple, outputs: tuple[TensorValue, ...]) -> Bindings:
    """Bind a PrimFunc's symbolic variables: its scalar parameters, and what its buffers' shapes tell."""
    bindings: Bindings = {}
    scalars = [number for value in given if isinstance(value, Scalar) for number in value.values]
    tensors = [*_tensors(given), *outputs]
    for param in function.params:
        if isinstance(param.ty, tvm.ir.PrimType):
            number = scalars.pop(0) if scalars else None
            if number is not None:
                bindings[param] = number
        elif hasattr(param.ty, "shape") and tensors:
            bind_shape(param.ty.shape, tensors.pop(0).shape, bindings)
    return bindings
