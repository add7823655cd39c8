"""Certify fused kernels: they write all of their outputs, and what they compute is what the unfused operators do.

Fused and unfused modules run on the same random inputs. Before each kernel its outputs are filled with a NaN of a
pattern of its own, so that an element that a kernel leaves out, or reads too early, shows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tvm

from tvm_vfuse import pipeline
from tvm_vfuse.build import Runner, compile_module, to_arrays, to_device
from tvm_vfuse.compare.columns import Lowered, lower_column
from tvm_vfuse.compare.error import max_error, tolerance
from tvm_vfuse.compare.float64 import is_float
from tvm_vfuse.compare.trace import Launch, entry_function, trace
from tvm_vfuse.device import runs_here
from tvm_vfuse.errors import InputError
from tvm_vfuse.options import FusionOptions

# A quiet NaN with a payload that no arithmetic makes, by bytes of an element; integers get the same bits.
_POISON = {8: 0x7FF8DEADBEEF5EED, 4: 0x7FC5BEEF, 2: 0x7ED5, 1: 0xA5}


@dataclass(frozen=True)
class Certificate:
    """Outcome of one check.

    Parameters
    ----------
    name : str
        The kernel, or ``main`` for the whole function.
    claim : str
        What was checked.
    passed : bool
    max_error : float or None
        Largest error over the seeds; None where the claim is not about numbers.
    tolerance : float or None
        Largest error accepted.
    detail : str
        What is wrong, where something is.
    """

    name: str
    claim: str
    passed: bool
    max_error: float | None = None
    tolerance: float | None = None
    detail: str = ""


def certify_workload(
    workload: Any,
    target: tvm.target.Target,
    options: FusionOptions | None = None,
    seeds: int = 3,
    progress: Callable[[str], Any] = lambda _text: None,
) -> list[Certificate]:
    """Check a workload's fused kernels against its unfused operators on random inputs.

    Parameters
    ----------
    workload : Workload
        With ``name``, ``build()`` and ``inputs(seed)``.
    target : tvm.target.Target
        Must run on this machine.
    options : FusionOptions or None
    seeds : int
        Number of random inputs; they start at the options' seed.
    progress : callable
        Told in words what is going on.

    Returns
    -------
    list of Certificate
        For each kernel that it writes all of its outputs; for the whole function that it equals the unfused one.

    Raises
    ------
    InputError
        If code for the target can't run here.
    """
    options = options or FusionOptions()
    if not runs_here(target):
        raise InputError("code for this target does not run on this machine, so it can't be checked; use --target llvm")
    with target:
        prepared = pipeline.prepare(workload.build())
    progress(f"{workload.name}: building the fused and the unfused module")
    fused, unfused = (_Subject(lower_column(name, prepared, target, options)) for name in ("vfuse", "unfused"))
    results: dict[str, Certificate] = {}
    for seed in range(options.seed, options.seed + seeds):
        progress(f"{workload.name}: seed {seed}")
        inputs = workload.inputs(seed)
        expected, dtypes = unfused.run(inputs)[0], unfused.dtypes(inputs)
        got, unwritten = fused.run(inputs)
        for kernel in fused.kernels(inputs):
            _merge(results, _written(kernel, unwritten.get(kernel, ""), seed))
        _merge(results, _equal(got, expected, tolerance(dtypes), seed))
    return list(results.values())


class _Subject:
    """A compiled module whose kernels' outputs are poisoned before they run."""

    def __init__(self, lowered: Lowered) -> None:
        self.mod = lowered.mod
        entry_function(self.mod)
        self.runner = Runner(compile_module(lowered.mod, lowered.target))

    def run(self, inputs: Sequence[Any]) -> tuple[list[np.ndarray[Any, Any]], dict[str, str]]:
        """Outputs, and for each kernel that left poison in an output where it did."""
        fresh = {launch.name: _fresh_outputs(launch) for launch in self._launches(inputs)}
        unwritten: dict[str, str] = {}

        def observe(_function: Any, name: str, before: bool, _result: Any, *arguments: Any) -> None:
            for position in fresh.get(name, ()):
                tensor = arguments[position]
                if before:
                    _poison(tensor)
                elif (left := _poisoned_elements(tensor)) and name not in unwritten:
                    unwritten[name] = f"output {len(arguments) + position}: {left}"

        self.runner.instrument(observe)
        return to_arrays(self.runner(*to_device(inputs))), unwritten

    def kernels(self, inputs: Sequence[Any]) -> list[str]:
        """Names of the kernels, in the order of their first launch."""
        return list(Counter(launch.name for launch in self._launches(inputs)))

    def dtypes(self, inputs: Sequence[Any]) -> list[str]:
        """Dtypes that the kernels read and write."""
        functions = [launch.function for launch in self._launches(inputs) if launch.function is not None]
        return sorted({str(param.ty.dtype) for function in functions for param in function.params})

    def _launches(self, inputs: Sequence[Any]) -> tuple[Launch, ...]:
        return trace(self.mod, inputs).launches


def _fresh_outputs(launch: Launch) -> tuple[int, ...]:
    """Positions (from the end) of a kernel's arguments that it must write: its outputs, unless they are inputs too."""
    read = {storage for value in launch.inputs for storage in value.storages}
    count = len(launch.outputs)
    return tuple(index - count for index, value in enumerate(launch.outputs) if not value.storages & read)


def _poison(tensor: Any) -> None:
    """Fill a tensor with the pattern of its element size."""
    host = np.asarray(tensor.numpy())
    if host.dtype == np.bool_:
        return
    bits = np.full(host.shape, _POISON[host.dtype.itemsize], dtype=f"u{host.dtype.itemsize}")
    tensor.copyfrom(bits.view(host.dtype))


def _poisoned_elements(tensor: Any) -> str:
    """Say where the pattern is left; empty where it is nowhere.

    Narrow integers may hold it by chance and never count.
    """
    host = np.ascontiguousarray(tensor.numpy())
    size = host.dtype.itemsize
    if size < (2 if is_float(host.dtype) else 4):
        return ""
    left = np.flatnonzero(host.view(f"u{size}").ravel() == _POISON[size])
    if not left.size:
        return ""
    where = tuple(int(i) for i in np.unravel_index(int(left[0]), host.shape))
    return f"{left.size} of {host.size} elements never written, the first at {where}"


def _written(kernel: str, fault: str, seed: int) -> Certificate:
    claim = "every element of each output is written"
    return Certificate(kernel, claim, passed=not fault, detail=f"seed {seed}: {fault}" if fault else "")


def _equal(got: Sequence[Any], expected: Sequence[Any], limit: float, seed: int) -> Certificate:
    error = max_error(got, expected)
    passed = error <= limit
    detail = "" if passed else f"seed {seed}: error {error:.3g} exceeds {limit:.3g}"
    return Certificate("main", "fused equals unfused", passed, error, limit, detail)


def _merge(results: dict[str, Certificate], new: Certificate) -> None:
    """Keep one certificate a check over the seeds: the first fault, the largest error."""
    old = results.get(new.name)
    if old is None:
        results[new.name] = new
        return
    error = new.max_error if old.max_error is None else max(old.max_error, new.max_error or 0.0)
    base = new if old.passed and not new.passed else old
    results[new.name] = replace(base, max_error=error)
