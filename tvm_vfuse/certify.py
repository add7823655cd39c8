"""Certify fused kernels: each computes what its unfused operators do, and writes all of its outputs.

The unfused module runs on random inputs, and the value of each of its bindings is kept. Then the fused module runs.
Before each of its kernels the inputs are replaced by the unfused values (so that a fault stays where it is made), and
the outputs are filled with a NaN of a pattern of its own (so that an element left out, or read too early, shows). After
it the outputs are compared with the unfused values. Last, the whole function runs undisturbed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tvm

from tvm_vfuse import pipeline
from tvm_vfuse.build import Runner, compile_module, to_arrays, to_device
from tvm_vfuse.compare.columns import Lowered, lower_column
from tvm_vfuse.compare.error import max_error, output_error, tolerance
from tvm_vfuse.compare.float64 import is_float
from tvm_vfuse.compare.reference import Referee
from tvm_vfuse.compare.trace import Launch, Trace, trace
from tvm_vfuse.device import runs_here
from tvm_vfuse.errors import InputError
from tvm_vfuse.options import FusionOptions

Array = np.ndarray[Any, Any]

# A quiet NaN with a payload that no arithmetic makes, by bytes of an element; integers get the same bits.
_POISON = {8: 0x7FF8DEADBEEF5EED, 4: 0x7FC5BEEF, 2: 0x7ED5, 1: 0xA5}


@dataclass(frozen=True)
class Certificate:
    """Outcome of checking one kernel, or ``main``: the whole function.

    Parameters
    ----------
    name : str
    ops : tuple of str
        Operators in the kernel; empty for the whole function.
    passed : bool
    max_error : float or None
        Largest error against unfused over seeds and outputs; None where the kernel's values have no unfused counterpart
        of the same name (the whole function covers it).
    tolerance : float
        Largest error accepted.
    exact : bool
        Whether all outputs equal the unfused ones bit for bit.
    detail : str
        What is wrong, where something is.
    """

    name: str
    ops: tuple[str, ...]
    passed: bool
    max_error: float | None
    tolerance: float
    exact: bool
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
        One for each kernel in the order of their first launch, then one for the whole function.

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
        values, expected = unfused.values(inputs)
        limit = tolerance(unfused.dtypes(inputs))
        for certificate in fused.certify(inputs, values, limit, seed):
            _merge(results, certificate)
        got = fused.outputs(inputs)
        whole = _whole(got, expected, limit, seed)
        _merge(results, whole if whole.passed else _near_float64(whole, prepared, inputs, got, expected))
    if options.math == "vector" and results["main"].passed and not all(c.passed for c in results.values()):
        progress(f"{workload.name}: once more with the platform's math functions")
        plain = certify_workload(workload, target, replace(options, math="libm"), seeds, progress)
        _excuse_math(results, {certificate.name: certificate for certificate in plain})
    return list(results.values())


def _excuse_math(results: dict[str, Certificate], plain: dict[str, Certificate]) -> None:
    """Pass kernels that differ from unfused by their math functions alone.

    That is: the kernel equals unfused with the platform's functions, and the whole function is right with ours.
    """
    for name, certificate in results.items():
        if not certificate.passed and name in plain and plain[name].passed:
            detail = f"differs by {certificate.max_error:.3g} through its math functions; equal with --math libm"
            results[name] = replace(certificate, passed=True, detail=detail)


class _Subject:
    """A compiled module whose kernels can be watched."""

    def __init__(self, lowered: Lowered) -> None:
        self.mod, self.ops = lowered.mod, lowered.ops
        self.executable = compile_module(lowered.mod, lowered.target)

    def outputs(self, inputs: Sequence[Any]) -> list[Array]:
        """Outputs of an undisturbed run."""
        return Runner(self.executable).run(inputs)

    def dtypes(self, inputs: Sequence[Any]) -> list[str]:
        """Dtypes that the kernels read and write."""
        functions = [launch.function for launch in trace(self.mod, inputs).launches if launch.function is not None]
        return sorted({str(param.ty.dtype) for function in functions for param in function.params})

    def values(self, inputs: Sequence[Any]) -> tuple[dict[str, Array], list[Array]]:
        """Value of each named binding that a kernel makes, and the outputs of the run."""
        walked = trace(self.mod, inputs)
        found: dict[str, Array] = {}

        def after(launch: Launch, arguments: Sequence[Any]) -> None:
            for name, tensor in zip(_names(walked, launch.outputs), _last(arguments, launch)):
                if name is not None:
                    found[name] = np.array(tensor.numpy())

        return found, self._watched(walked, inputs, lambda _launch, _arguments: None, after)

    def certify(self, inputs: Sequence[Any], values: dict[str, Array], limit: float, seed: int) -> list[Certificate]:
        """Run each kernel on unfused inputs and compare its outputs with the unfused ones."""
        walked = trace(self.mod, inputs)
        made: list[Certificate] = []

        def before(launch: Launch, arguments: Sequence[Any]) -> None:
            tensors = [argument for argument in arguments if hasattr(argument, "numpy")]
            for name, tensor in zip(_names(walked, launch.inputs), tensors):
                if name in values:
                    tensor.copyfrom(values[name].reshape(tensor.shape))
            for tensor in _fresh(launch, arguments):
                _poison(tensor)

        def after(launch: Launch, arguments: Sequence[Any]) -> None:
            faults = [fault for tensor in _fresh(launch, arguments) if (fault := _poison_left(tensor))]
            wanted = [values.get(name or "") for name in _names(walked, launch.outputs)]
            got = [tensor.numpy() for tensor in _last(arguments, launch)]
            pairs = [(out, want.reshape(out.shape)) for out, want in zip(got, wanted) if want is not None]
            error = max((output_error(out, want) for out, want in pairs), default=None)
            if error is not None and not error <= limit:
                faults.append(f"error {error:.3g} exceeds {limit:.3g}")
            exact = len(pairs) == len(got) and all(out.tobytes() == want.tobytes() for out, want in pairs)
            members = tuple(self.ops.get(launch.name, [launch.name]))
            detail = f"seed {seed}: {'; '.join(faults)}" if faults else ""
            made.append(Certificate(launch.name, members, not faults, error, limit, exact, detail))

        self._watched(walked, inputs, before, after)
        return made

    def _watched(
        self,
        walked: Trace,
        inputs: Sequence[Any],
        before: Callable[[Launch, Sequence[Any]], None],
        after: Callable[[Launch, Sequence[Any]], None],
    ) -> list[Array]:
        """Run with hooks around each kernel; the n-th call of a kernel is its n-th launch in the trace.

        Where the trace has branches, loops or packed calls, launches and calls may not pair up: then no hook is called.
        """
        waiting: dict[str, list[Launch]] = {}
        for launch in () if walked.notes else walked.launches:
            waiting.setdefault(launch.name, []).append(launch)

        def observe(_function: Any, name: str, is_before: bool, _result: Any, *arguments: Any) -> None:
            if waiting.get(name):
                if is_before:
                    before(waiting[name][0], arguments)
                else:
                    after(waiting[name].pop(0), arguments)

        runner = Runner(self.executable)
        runner.instrument(observe)
        return to_arrays(runner(*to_device(inputs)))


def _names(walked: Trace, tensors: Sequence[Any]) -> list[str | None]:
    """Name of the binding that each tensor of a launch belongs to, where it has one."""
    return [walked.names.get(next(iter(tensor.storages))) if len(tensor.storages) == 1 else None for tensor in tensors]


def _last(arguments: Sequence[Any], launch: Launch) -> Sequence[Any]:
    """The arguments that a kernel writes: they come last."""
    return arguments[len(arguments) - len(launch.outputs) :]


def _fresh(launch: Launch, arguments: Sequence[Any]) -> list[Any]:
    """Outputs that hold nothing yet: all but those that lie in an input's memory."""
    read = {storage for value in launch.inputs for storage in value.storages}
    return [t for value, t in zip(launch.outputs, _last(arguments, launch)) if not value.storages & read]


def _poison(tensor: Any) -> None:
    """Fill a tensor with the pattern of its element size."""
    host = tensor.numpy()
    if host.dtype != np.bool_:
        bits = np.full(host.shape, _POISON[host.dtype.itemsize], dtype=f"u{host.dtype.itemsize}")
        tensor.copyfrom(bits.view(host.dtype))


def _poison_left(tensor: Any) -> str:
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


def _whole(got: Sequence[Array], expected: Sequence[Array], limit: float, seed: int) -> Certificate:
    error = max_error(got, expected)
    detail = "" if error <= limit else f"seed {seed}: error {error:.3g} exceeds {limit:.3g}"
    exact = len(got) == len(expected) and all(a.tobytes() == b.tobytes() for a, b in zip(got, expected))
    return Certificate("main", (), not detail, error, limit, exact, detail)


def _near_float64(
    whole: Certificate, prepared: Any, inputs: Sequence[Any], got: Sequence[Array], expected: Sequence[Array]
) -> Certificate:
    """Certificate of a function that is far from unfused, passed where it is near float64: then unfused is far off."""
    verdict = Referee(prepared, inputs, lambda: list(expected), whole.tolerance).judge(list(got))
    if verdict.wrong:
        return whole
    return replace(whole, passed=True, max_error=verdict.max_error, detail="")


def _merge(results: dict[str, Certificate], new: Certificate) -> None:
    """Keep one certificate for each kernel: the first fault, the largest error, exact only if always exact."""
    old = results.get(new.name)
    if old is None:
        results[new.name] = new
        return
    errors = [error for error in (old.max_error, new.max_error) if error is not None]
    base = new if old.passed and not new.passed else old
    results[new.name] = replace(base, max_error=max(errors, default=None), exact=old.exact and new.exact)
