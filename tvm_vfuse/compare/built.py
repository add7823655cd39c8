"""Build our module of a workload, with the facts that ``build`` writes beside the library."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tvm

from tvm_vfuse import pipeline
from tvm_vfuse.build import compile_module
from tvm_vfuse.compare.columns import lower_column
from tvm_vfuse.compare.kernel_memory import in_kernel_bytes
from tvm_vfuse.compare.record import Kernel, kernel_list
from tvm_vfuse.compare.trace import trace
from tvm_vfuse.options import FusionOptions


@dataclass(frozen=True)
class Built:
    """A compiled module.

    Parameters
    ----------
    executable : tvm.relax.VMExecutable
    plan : dict
        Groups and refused edges, as ``explain --json`` has them.
    kernels : tuple of Kernel
    """

    executable: Any
    plan: dict[str, Any]
    kernels: tuple[Kernel, ...]


def build_workload(
    workload: Any,
    target: tvm.target.Target,
    options: FusionOptions | None = None,
    progress: Callable[[str], Any] = lambda _text: None,
) -> Built:
    """Fuse and compile a workload for a target; nothing is run.

    Parameters
    ----------
    workload : Workload
        With ``name``, ``build()`` and ``inputs(seed)``.
    target : tvm.target.Target
    options : FusionOptions or None
    progress : callable
        Told in words what is going on.
    """
    options = options or FusionOptions()
    progress(f"{workload.name}: fusing")
    with target:
        prepared = pipeline.prepare(workload.build())
    lowered = lower_column("vfuse", prepared, target, options)
    walked = trace(lowered.mod, workload.inputs(options.seed))
    held = [in_kernel_bytes(launch.function, launch.bindings) for launch in walked.launches]
    progress(f"{workload.name}: compiling {len(walked.launches)} kernels")
    executable = compile_module(lowered.mod, lowered.target)
    return Built(executable, lowered.plan, kernel_list(walked, lowered.ops, held))
