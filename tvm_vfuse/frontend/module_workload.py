"""From an imported Relax module to a workload with random inputs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from tvm_vfuse.errors import InputError
from tvm_vfuse.workloads.tensors import TensorSpec, sample, shape_text
from tvm_vfuse.workloads.workload import Workload

SYMBOLIC_EXTENT = 8
"""What a symbolic dimension is sampled as when the user names no value."""
INTEGER_BOUND = 8
"""Integer inputs are drawn from [0, this): small enough to index most tables."""


def main_of(mod: Any, name: str) -> Any:
    """The Relax function ``main`` of a module.

    Raises
    ------
    InputError
        Where there is none.
    """
    from tvm import relax

    functions = {gv.name_hint: f for gv, f in mod.functions.items() if isinstance(f, relax.Function)}
    if "main" not in functions:
        others = f"it has {', '.join(sorted(functions))}" if functions else "it has no Relax function at all"
        raise InputError(f"{name}: the module has no Relax function 'main' ({others}); rename the entry function")
    return functions["main"]


def symbols_of(main: Any) -> list[str]:
    """Names of the symbolic dimensions in main's parameters, in order of appearance."""
    from tvm import relax

    texts = " ".join(str(extent) for param in main.params for extent in extents_of(param))
    used = set(re.findall(r"[A-Za-z_]\w*", texts))
    return [v.name for v in relax.analysis.defined_symbolic_vars(main) if v.name in used]


def fix_dims(mod: Any, dims: Mapping[str, int], name: str) -> Any:
    """Replace symbolic dimensions of ``main`` by the numbers in `dims`.

    Raises
    ------
    InputError
        Where `dims` names a dimension that the module does not have, or a value below 1.
    """
    from tvm import relax

    symbols = symbols_of(main_of(mod, name))
    check_dims(dims, symbols, name)
    return relax.transform.BindSymbolicVars(dict(dims), "main")(mod) if dims else mod


def check_dims(dims: Mapping[str, int], known: Sequence[str], name: str) -> None:
    """Refuse values below 1 and names that are not `known`.

    Raises
    ------
    InputError
        With the names there are.
    """
    for key, value in dims.items():
        if key not in known:
            have = f"symbolic dimensions are {', '.join(known)}" if known else "it has no symbolic dimension"
            raise InputError(f"{name}: there is no dimension {key!r} to set to {value}; {have}")
        if value < 1:
            raise InputError(f"{name}: dimension {key} is {value}; extents start at 1")


def workload_of(
    mod: Any, name: str, description: str, notes: Sequence[str] = (), integer_bound: int = INTEGER_BOUND
) -> Workload:
    """A workload that feeds `mod` random inputs by shape and dtype.

    Parameters
    ----------
    mod : tvm.IRModule
        Module with a Relax function ``main`` whose parameters are all tensors.
    name, description : str
        As in `Workload`.
    notes : sequence of str
        What the importer assumed.
    integer_bound : int
        Integer inputs are drawn from [0, integer_bound).

    Raises
    ------
    InputError
        Where ``main`` has parameters that are no tensors, or tensors of unknown rank or dtype, or takes an element that
        is not there.
    """
    from tvm_vfuse.frontend.safe_takes import make_takes_safe

    main_of(mod, name)
    mod = make_takes_safe(mod, name)
    main = mod["main"]
    symbols = symbols_of(main)
    concrete = main.bind_symbolic_vars(dict.fromkeys(symbols, SYMBOLIC_EXTENT)) if symbols else main
    specs = [_spec(param, name, integer_bound) for param in concrete.params]
    floats = {s.dtype for s in specs if s.dtype and "float" in s.dtype}
    kinds = floats or {s.dtype for s in specs if s.dtype}
    assumed = tuple(f"symbolic dimension {s} is sampled as {SYMBOLIC_EXTENT}" for s in symbols)
    shapes = zip(main.params, specs, strict=True)
    return Workload(
        name=name,
        description=description,
        shapes=", ".join(f"{p.name} {shape_text(extents_of(p))}" for p, _ in shapes),
        dtype=", ".join(sorted(kinds)) or "none",
        builder=lambda: mod,
        sampler=partial(sample, specs, "float32", name),
        memory_bound=False,
        tags=("file",),
        notes=(*notes, *assumed),
    )


def _spec(param: Any, name: str, integer_bound: int) -> TensorSpec:
    from tvm import relax

    kind = param.ty
    if not isinstance(kind, relax.TensorType) or kind.shape is None or kind.dtype is None:
        what = type(kind).__name__.removesuffix("Type").lower()
        unknown = "a tensor of unknown shape or dtype" if isinstance(kind, relax.TensorType) else f"a {what}"
        raise InputError(f"{name}: parameter {param.name} of main is {unknown}; only tensors of known rank can be fed")
    dtype = str(kind.dtype)
    shape = tuple(int(extent) for extent in extents_of(param))
    if dtype == "bool":
        return TensorSpec(param.name, shape, "boolean", dtype)
    if "int" in dtype:
        return TensorSpec(param.name, shape, "index", dtype, high=integer_bound)
    return TensorSpec(param.name, shape, "normal", dtype)


def extents_of(param: Any) -> list[int | str]:
    """Extents of a tensor parameter: numbers, and expressions as text where they are symbolic."""
    shape = getattr(param.ty, "shape", None)
    values = shape.values if shape is not None and hasattr(shape, "values") else []
    return [int(v) if hasattr(v, "value") else re.sub(r"T\.int64\((\d+)\)", r"\1", str(v)) for v in values]
