"""Compile a module of kernels, run it, and write it to a directory that loads back with TVM alone."""

from __future__ import annotations

import contextlib
import json
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tvm_vfuse.errors import InputError


def compile_module(mod: Any, target: Any) -> Any:
    """Lower and compile a Relax module of ``call_tir``s.

    Parameters
    ----------
    mod : tvm.ir.IRModule
        Functions of ``call_tir``s (high-level operators that are left are legalised); it is not changed.
    target : tvm.target.Target

    Returns
    -------
    tvm.relax.VMExecutable
        Compiled with TVM's ``default_build`` pipeline, which fuses nothing; a module with branches without its memory
        planning, under which the sides of a branch crash (apache/tvm#20191).
    """
    import tvm
    from tvm import relax

    from tvm_vfuse.pipeline import has_branches

    lowering = _lower_branches() if has_branches(mod) else relax.get_pipeline("default_build")
    return tvm.compile(mod, target=target, relax_pipeline=lowering)


def _lower_branches() -> Any:
    """``default_build`` without StaticPlanBlockMemory."""
    import tvm
    from tvm import relax

    passes = relax.transform
    return tvm.transform.Sequential(
        [
            relax.backend.DispatchSampling(),
            relax.backend.DispatchSortScan(),
            passes.LegalizeOps(),
            passes.RewriteDataflowReshape(),
            passes.ToNonDataflow(),
            passes.RemovePurityChecking(),
            passes.CallTIRRewrite(),
            passes.LowerAllocTensor(),
            passes.KillAfterLastUse(),
            passes.LowerRuntimeBuiltin(),
            passes.ComputePrimValue(),
            passes.VMShapeLower(),
            passes.AttachGlobalSymbol(),
        ]
    )


class Runner:
    """An executable on this CPU: arrays in, arrays out.

    Parameters
    ----------
    executable : tvm.relax.VMExecutable
    entry : str
        The function that is called.
    """

    def __init__(self, executable: Any, entry: str = "main") -> None:
        import tvm
        from tvm import relax

        self._machine = relax.VirtualMachine(executable, tvm.cpu())
        self._function = self._machine[entry]

    def __call__(self, *arguments: Any) -> Any:
        """Call with arguments made by :func:`to_device`; the result stays on the device."""
        return self._function(*arguments)

    def run(self, inputs: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
        """Outputs for a list of arrays, flattened, as arrays of their own memory."""
        return to_arrays(self._function(*to_device(inputs)))

    def instrument(self, observer: Callable[..., Any]) -> None:
        """Have ``observer(function, name, before, result, *arguments)`` called around each kernel."""
        self._machine.set_instrument(observer)


def to_device(inputs: Sequence[Any]) -> list[Any]:
    """Turn arrays (or nested sequences of them) into arguments for a :class:`Runner`."""
    import tvm

    def convert(value: Any) -> Any:
        if isinstance(value, tuple | list):
            return [convert(item) for item in value]
        return tvm.runtime.tensor(np.array(value, order="C"))

    return [convert(value) for value in inputs]


def to_arrays(result: Any) -> list[np.ndarray[Any, Any]]:
    """Flatten a result, a tensor or nested tuples of them, into arrays of their own memory."""
    if hasattr(result, "numpy"):
        return [np.array(result.numpy())]
    if isinstance(result, int | float | bool):
        return [np.asarray(result)]
    return [array for item in result for array in to_arrays(item)]


# -------------------------------------------------------------------------------------------------------------- files
@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a temporary path beside ``path`` to write to; it takes the place of ``path`` only if nothing went wrong.

    Raises
    ------
    InputError
        If the directory can't be written.
    """
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.stem}-", suffix=path.suffix, dir=path.parent)
        os.close(handle)
    except OSError as err:
        raise InputError(f"can't write {path}: {err.strerror or err}; choose another path") from None
    temporary = Path(name)
    try:
        yield temporary
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(0o666 & ~mask)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_json(path: Path, data: Any) -> None:
    """Write ``data`` as JSON in one step: a reader sees the old file or the whole new one."""
    with replacing(path) as temporary:
        temporary.write_text(json_text(data))


def json_text(data: Any) -> str:
    """JSON text of ``data``; an infinite number is written 1e999, which readers take for infinity, and NaN as null."""
    text = json.dumps(data, indent=1)
    return (
        _NOT_JSON.sub(lambda match: {"NaN": "null"}.get(match[0], match[0].replace("Infinity", "1e999")), text) + "\n"
    )


_NOT_JSON = re.compile(r"(?m)(?<=[ \[])(?:NaN|-?Infinity)(?=,?$)")


def write_directory(out: Path, executable: Any, plan: Any, kernels: Sequence[Any]) -> list[Path]:
    """Write a built module.

    Parameters
    ----------
    out : Path
        Directory, made where it does not exist.
    executable : tvm.relax.VMExecutable
    plan : JSON data
        Groups and refused edges, written to ``plan.json``.
    kernels : sequence of JSON data
        The kernel list, written to ``resources.json``.

    Returns
    -------
    list of Path
        The files written: ``module.so``, ``plan.json``, ``resources.json``.

    Raises
    ------
    InputError
        If the directory can't be made or no C++ compiler is found to link the library.
    """
    from tvm.support import cc

    if cc.get_cc() is None:
        raise InputError("no C++ compiler to link module.so; install one, for example: apt-get install g++")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as err:
        raise InputError(f"can't make the directory {out}: {err.strerror or err}; choose another with -o") from None
    library, plan_file, resources = out / "module.so", out / "plan.json", out / "resources.json"
    with replacing(library) as temporary:
        _export(executable, temporary)
    write_json(plan_file, plan)
    write_json(resources, list(kernels))
    return [library, plan_file, resources]


def _export(executable: Any, path: Path) -> None:
    """Link the library; where that fails, one line that says why."""
    try:
        executable.export_library(str(path))
    except RuntimeError as err:
        lines = [line.strip() for line in str(err).splitlines() if "error" in line.lower()] or [str(err)[:200]]
        raise InputError(f"linking {path.name} failed: {lines[-1]}; is the target this machine's own?") from err
