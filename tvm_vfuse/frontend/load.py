"""From what the user names to a workload: a built-in, a pretrained model, or a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tvm_vfuse.errors import InputError
from tvm_vfuse.frontend.json_file import import_json
from tvm_vfuse.frontend.module_workload import INTEGER_BOUND, workload_of
from tvm_vfuse.frontend.onnx_file import import_onnx
from tvm_vfuse.frontend.python_file import import_python
from tvm_vfuse.frontend.real_models import REAL_MODELS, locate
from tvm_vfuse.frontend.torch_file import import_torch
from tvm_vfuse.workloads import Workload, find, templates, unknown_name

Importer = Callable[[Path, Mapping[str, int]], tuple[Any, list[str]]]
IMPORTERS: dict[str, tuple[Importer, str]] = {
    ".onnx": (import_onnx, "ONNX model"),
    ".pt2": (import_torch, "exported PyTorch program"),
    ".py": (import_python, "TVMScript module"),
    ".json": (import_json, "saved Relax module"),
}


def load(spec: str, dims: Mapping[str, int] | None = None) -> Workload:
    """Find what `spec` names and make a workload of it.

    Parameters
    ----------
    spec : str
        A built-in workload (``softmax:4096x2048``), a pretrained model (``magika``), or a file (``net.onnx``).
    dims : mapping of str to int, or None
        Values of symbolic dimensions of a file, by their name in the file, or as ``INPUT_AXIS``; for ONNX also of
        integer scalar inputs.

    Raises
    ------
    InputError
        For everything that is wrong with the input: one line, with the way out.
    """
    fixed = dict(dims or {})
    base = spec.split(":")[0]
    if base in templates():
        if fixed:
            raise InputError(f"{base} is built in and takes its sizes in the name, such as {base}:SIZES; no dimensions")
        return find(spec)
    if spec in REAL_MODELS:
        return _real(spec, fixed)
    path = Path(spec)
    if path.suffix not in IMPORTERS and not path.exists() and "/" not in spec:
        if path.suffix:
            raise InputError(f"{spec}: {_suffixes(path.suffix)}")
        raise InputError(unknown_name(base, [*templates(), *REAL_MODELS]))
    return _file(path, fixed)


def _real(name: str, dims: Mapping[str, int]) -> Workload:
    model = REAL_MODELS[name]
    mod, notes = import_onnx(locate(name), {**model.dims, **dims}, name)
    return workload_of(mod, name, model.description, notes, model.integer_bound)


def _file(path: Path, dims: Mapping[str, int]) -> Workload:
    if path.is_dir():
        raise InputError(f"{path} is a directory; name a file in it ({', '.join(IMPORTERS)})")
    if path.suffix not in IMPORTERS:
        raise InputError(f"{path}: {_suffixes(path.suffix)}")
    if not path.exists():
        raise InputError(f"{path}: there is no such file")
    try:
        size = path.stat().st_size
        with path.open("rb"):
            pass
    except OSError as error:
        raise InputError(f"{path} can't be opened: {error.strerror}") from None
    if size == 0:
        raise InputError(f"{path} is empty")
    importer, kind = IMPORTERS[path.suffix]
    mod, notes = importer(path.resolve(), dims)
    return workload_of(mod, path.name, kind, notes, INTEGER_BOUND)


def _suffixes(suffix: str) -> str:
    named = f"a file ending in {suffix} can't be read" if suffix else "a file without a suffix can't be read"
    return f"{named}; files end in {', '.join(IMPORTERS)}"
