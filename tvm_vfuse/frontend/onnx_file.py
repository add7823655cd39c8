"""Import an ONNX file into Relax."""

from __future__ import annotations

import re
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tvm_vfuse.errors import InputError
from tvm_vfuse.frontend.onnx_prepare import integer_scalars, prepare, symbolic_dims
from tvm_vfuse.frontend.quiet import quiet


def import_onnx(path: Path, dims: Mapping[str, int], name: str = "") -> tuple[Any, list[str]]:
    """Import `path`, its weights bound as constants.

    Parameters
    ----------
    path : pathlib.Path
        An existing file.
    dims : mapping of str to int
        Values of symbolic dimensions and of integer scalar inputs. Symbolic dimensions without a value are kept where
        the importer can; else a leading one (the batch) is set to 1, with a note.
    name : str
        For messages; the file's name by default.

    Returns
    -------
    (tvm.IRModule, list of str)
        The module, and what was assumed.

    Raises
    ------
    InputError
        Where the file can't be read or imported: one line with the operators or dimensions at fault.
    """
    name = name or path.name
    attempt = _attempt(path, dims, name)
    batch = dict.fromkeys(attempt.leading, 1)
    if attempt.mod is None and batch and not attempt.final:
        attempt = _attempt(path, {**dims, **batch}, name)
        if attempt.mod is not None:
            return attempt.mod, [f"dimension {k} was set to 1" for k in batch]
    if attempt.mod is not None:
        return attempt.mod, []
    values = " ".join(f"--dim {dim}=N" for dim in attempt.open)
    hint = f"; fixing its dimensions may help: {values}" if values and not attempt.final else ""
    raise InputError(f"{name}: {attempt.problem}{hint}")


@dataclass(frozen=True)
class _Attempt:
    """The outcome of one import: `mod`, or `problem` (`final` where no dimension can change it).

    `leading` and `open` name the dimensions that are still symbolic: those of axis 0, and all.
    """

    mod: Any
    problem: str
    final: bool
    leading: tuple[str, ...]
    open: tuple[str, ...]


def _attempt(path: Path, dims: Mapping[str, int], name: str) -> _Attempt:
    from tvm import relax
    from tvm.relax.frontend.onnx import from_onnx

    model = _read(path)
    mod, failure, invalid = None, None, ""
    with quiet() as chatter:
        try:
            model = prepare(model, dims, name)
            mod = from_onnx(model, keep_params_in_input=False)
            if symbolic_dims(model.graph):
                _verify_shapes(relax.transform.LegalizeOps()(mod))
        except InputError:
            raise
        except Exception as error:  # noqa: BLE001 - the importer raises what its operators happen to raise
            traceback.clear_frames(error.__traceback__)
            mod, failure, invalid = None, f"{type(error).__name__}: {error}", _check(model)
    still, scalars = symbolic_dims(model.graph), integer_scalars(model.graph)
    leading = tuple(dict.fromkeys(name for key, name in still.items() if key.endswith("_0")))
    problem = _explain(failure, invalid, chatter.text) if failure is not None else ""
    final = bool(invalid) or "not supported by" in problem
    return _Attempt(mod, problem, final, leading, tuple(dict.fromkeys([*still.values(), *scalars])))


def _read(path: Path) -> Any:
    try:
        import onnx
        from google.protobuf.message import DecodeError
    except ImportError:
        raise InputError(f"{path.name}: reading ONNX needs the onnx package: pip install 'tvm-vfuse[onnx]'") from None
    try:
        model = onnx.load(str(path))
    except DecodeError:
        raise InputError(f"{path.name} is no ONNX file, or a broken one: export the model again") from None
    except (OSError, ValueError, onnx.checker.ValidationError) as error:
        raise InputError(f"{path.name} can't be read as ONNX: {_first_line(str(error))}") from None
    if not model.graph.node:
        raise InputError(f"{path.name} holds no ONNX graph (no operators): export the model again")
    return model


def _verify_shapes(mod: Any) -> None:
    """Refuse a module with a tensor whose shape the importer lost: no pass downstream could use it."""
    from tvm import relax

    for block in mod["main"].body.blocks:
        for binding in block.bindings:
            kind = binding.var.ty
            if isinstance(kind, relax.TensorType) and not isinstance(kind.shape, relax.ShapeExpr):
                raise ValueError(f"the shape of {binding.var.name} depends on data or on unfixed dimensions")


def _check(model: Any) -> str:
    import onnx

    try:
        onnx.checker.check_model(model)
    except onnx.checker.ValidationError as error:
        return _first_line(str(error))
    return ""


def _explain(failure: str, invalid: str, chatter: str) -> str:
    listed = re.search(r"not supported for frontend ONNX: (.*)", failure)
    if listed:
        operators = ", ".join(sorted(op.strip() for op in listed[1].split(",")))
        return f"operators not supported by TVM's ONNX importer: {operators}; export without them"
    if invalid:
        return f"the ONNX graph is invalid: {invalid}"
    converting = re.findall(r"Error converting operator (\w+)", chatter)
    where = f"operator {converting[-1]} can't be imported" if converting else "TVM's ONNX importer failed"
    return f"{where} ({_first_line(failure)})"


def _first_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0][:300] if lines else ""
