"""Import an exported PyTorch program (.pt2) into Relax."""

from __future__ import annotations

import re
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tvm_vfuse.errors import InputError
from tvm_vfuse.frontend.module_workload import fix_dims
from tvm_vfuse.frontend.quiet import quiet


def import_torch(path: Path, dims: Mapping[str, int]) -> tuple[Any, list[str]]:
    """Import `path` (written by ``torch.export.save``), parameters and buffers bound as constants.

    Parameters
    ----------
    path : pathlib.Path
        An existing file.
    dims : mapping of str to int
        Values of symbolic dimensions.

    Returns
    -------
    (tvm.IRModule, list of str)
        The module, and what was assumed (nothing).

    Raises
    ------
    InputError
        Where PyTorch is missing, or the file can't be read or imported.
    """
    try:
        import torch
    except ImportError:
        raise InputError(f"{path.name}: reading .pt2 needs PyTorch: pip install 'tvm-vfuse[torch]'") from None
    with quiet():
        try:
            program = torch.export.load(str(path))
        except Exception as error:  # noqa: BLE001 - zipfile, pickle, JSON and torch each raise their own
            problem: str | None = f"{type(error).__name__}: {_first_line(error)}"
        else:
            problem = None
    if problem is not None:
        raise InputError(f"{path.name} is no exported PyTorch program ({problem}); write one with torch.export.save")
    mod = import_program(program, path.name)
    return fix_dims(mod, dims, path.name), []


def import_program(program: Any, name: str) -> Any:
    """Import a ``torch.export.ExportedProgram``.

    Parameters
    ----------
    program : torch.export.ExportedProgram
        As ``torch.export.export`` returns it.
    name : str
        For messages.

    Raises
    ------
    InputError
        Where the importer lacks an operator, or fails.
    """
    failure = ""
    with quiet():
        from tvm.relax.frontend.torch import from_exported_program

        try:
            return from_exported_program(program, keep_params_as_input=False, unwrap_unit_return_tuple=True)
        except Exception as error:  # noqa: BLE001 - the importer raises what its operators happen to raise
            traceback.clear_frames(error.__traceback__)
            failure = _explain(error)
    raise InputError(f"{name}: {failure}")


def _explain(error: BaseException) -> str:
    listed = re.search(r"Unsupported function types? \[?(.*?)\]?$", str(error), re.MULTILINE)
    if listed:
        operators = ", ".join(sorted({op.strip(" '\"") for op in listed[1].split(",")}))
        return f"operators not supported by TVM's PyTorch importer: {operators}; export without them, or through ONNX"
    return f"TVM's PyTorch importer failed: {type(error).__name__}: {_first_line(error)}"


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:300] if lines else ""
