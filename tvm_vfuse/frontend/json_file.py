"""Read a Relax module saved by ``tvm.ir.save_json``, and the parameters saved beside it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tvm_vfuse.errors import InputError
from tvm_vfuse.frontend.module_workload import extents_of, fix_dims, main_of
from tvm_vfuse.frontend.quiet import quiet
from tvm_vfuse.workloads import nearest
from tvm_vfuse.workloads.tensors import shape_text


def import_json(path: Path, dims: Mapping[str, int]) -> tuple[Any, list[str]]:
    """Read `path`; where NAME.params lies beside NAME.json, bind its arrays to ``main``'s parameters by name.

    Parameters
    ----------
    path : pathlib.Path
        An existing file.
    dims : mapping of str to int
        Values of symbolic dimensions.

    Returns
    -------
    (tvm.IRModule, list of str)
        The module, and a note where parameters were bound.

    Raises
    ------
    InputError
        Where either file is broken, or they don't belong together.
    """
    import tvm

    mod, problem = None, ""
    with quiet():
        try:
            mod = tvm.ir.load_json(path.read_text(encoding="utf-8"))
        except UnicodeDecodeError:
            problem = "is not text"
        except json.JSONDecodeError as error:
            problem = f"is not JSON: {error.msg} at line {error.lineno}"
        except Exception as error:  # noqa: BLE001 - the reader raises by what it stumbles over
            problem = _explain(error)
    if problem:
        raise InputError(f"{path.name} {problem}; save the module with tvm.ir.save_json of TVM 0.27")
    if not isinstance(mod, tvm.IRModule):
        raise InputError(f"{path.name} holds a {type(mod).__name__}, not an IRModule; save the whole module")
    beside = path.with_suffix(".params")
    mod = fix_dims(mod, dims, path.name)
    return (_bound(mod, beside, path.name), [f"parameters bound from {beside.name}"]) if beside.is_file() else (mod, [])


def _explain(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    if text and "Legacy json" in text[0]:
        return "is in the JSON form of an older TVM (a Relay module, perhaps)"
    return f"is no saved TVM module: {text[0][:200] if text else type(error).__name__}"


def _bound(mod: Any, params: Path, name: str) -> Any:
    import tvm
    from tvm import relax

    main = main_of(mod, name)
    known = {p.name: p for p in main.params}
    arrays, problem = {}, ""
    with quiet():
        try:
            arrays = dict(tvm.runtime.load_param_dict(params.read_bytes()).items())
        except Exception as error:  # noqa: BLE001 - a broken file fails wherever its bytes lead
            problem = str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error).__name__
    if problem:
        raise InputError(f"{params.name} is no parameter file ({problem}); save it with tvm.runtime.save_param_dict")
    for key, array in arrays.items():
        if key not in known:
            like = nearest(key, known)
            hint = f"; nearest: {like}" if like else ""
            raise InputError(f"{params.name} holds {key!r}, which is no parameter of main in {name}{hint}")
        _matches(known[key], array, params.name)
    return relax.transform.BindParams("main", {key: value.numpy() for key, value in arrays.items()})(mod)


def _matches(param: Any, array: Any, name: str) -> None:
    have = f"{shape_text(array.shape)} {array.dtype}"
    want = f"{shape_text(extents_of(param))} {param.ty.dtype}"
    if have != want:
        raise InputError(f"{name}: {param.name} is {have}, main takes {want}; the files do not belong together")
