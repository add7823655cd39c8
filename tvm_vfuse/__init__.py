"""Vertical operator fusion for Apache TVM.

``import tvm_vfuse`` is cheap: TVM is loaded when the first name below that needs it is used.

Examples
--------
>>> import tvm_vfuse
>>> fuse = tvm_vfuse.make(tvm_vfuse.parse_target("llvm"))  # a pass: Relax module -> module of fused kernels
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

# Public name -> the module that holds it.
_EXPORTS = {
    "FusionOptions": "tvm_vfuse.options",
    "VFuseError": "tvm_vfuse.errors",
    "InputError": "tvm_vfuse.errors",
    "CheckFailed": "tvm_vfuse.errors",
    "parse_target": "tvm_vfuse.device",
    "load": "tvm_vfuse.frontend.load",
    "make": "tvm_vfuse.pipeline",
    "run": "tvm_vfuse.pipeline",
    "compare_workload": "tvm_vfuse.compare",
    "certify_workload": "tvm_vfuse.certify",
    "build_workload": "tvm_vfuse.compare.built",
}

__all__ = ["__version__", *_EXPORTS]


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_EXPORTS[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
