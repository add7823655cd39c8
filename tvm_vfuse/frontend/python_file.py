"""Read a Python file that defines an IRModule named ``Module``."""

from __future__ import annotations

import importlib.util
import re
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tvm_vfuse.errors import InputError
from tvm_vfuse.frontend.module_workload import fix_dims
from tvm_vfuse.frontend.quiet import quiet

_MODULE_NAME = "_tvm_vfuse_input"


def import_python(path: Path, dims: Mapping[str, int]) -> tuple[Any, list[str]]:
    """Execute `path` and take its ``Module``. TVMScript reads the source text, so the file is run as a real module.

    Parameters
    ----------
    path : pathlib.Path
        An existing file; **it is executed**.
    dims : mapping of str to int
        Values of symbolic dimensions.

    Returns
    -------
    (tvm.IRModule, list of str)
        The module, and what was assumed (nothing).

    Raises
    ------
    InputError
        Where the file doesn't run, or defines no IRModule named ``Module``.
    """
    spec = importlib.util.spec_from_file_location(_MODULE_NAME, path)
    if spec is None or spec.loader is None:
        raise InputError(f"{path.name} can't be loaded as a Python file")
    module = importlib.util.module_from_spec(spec)
    problem = ""
    sys.modules[_MODULE_NAME] = module
    try:
        with quiet() as chatter:
            try:
                spec.loader.exec_module(module)
            except (Exception, SystemExit) as error:  # noqa: BLE001 - it is somebody's program: anything may come
                problem = _explain(error, path)
                traceback.clear_frames(error.__traceback__)
    finally:
        del sys.modules[_MODULE_NAME]
    if problem:
        raise InputError(f"{path.name}: {problem}{_diagnostic(chatter.text)}")
    return fix_dims(_module_in(module, path), dims, path.name), []


def _module_in(module: Any, path: Path) -> Any:
    import tvm

    found = getattr(module, "Module", None)
    if isinstance(found, tvm.IRModule):
        return found
    if found is not None:
        raise InputError(
            f"{path.name}: Module is a {type(found).__name__}, not an IRModule; decorate it with I.ir_module"
        )
    others = sorted(k for k, v in vars(module).items() if isinstance(v, tvm.IRModule))
    hint = f"rename {others[0]} to Module" if others else "define '@I.ir_module class Module' in it"
    raise InputError(f"{path.name} defines no IRModule named Module; {hint}")


def _explain(error: BaseException, path: Path) -> str:
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return f"line {error.lineno}: syntax error: {error.msg}"
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if Path(f.filename) == path]
    where = f"line {lines[-1]}: " if lines else ""
    text = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{where}{type(error).__name__}: {text[0][:300] if text else 'no message'}"


def _diagnostic(chatter: str) -> str:
    """What TVMScript's parser printed about the source, in one line."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", chatter)
    found = re.search(r"error: (.+?)\n(?:.*-->\s*\S+?:(\d+))?", plain)
    return f" ({found[1].strip()}{f', line {found[2]}' if found[2] else ''})" if found else ""
