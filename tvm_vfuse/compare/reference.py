"""The reference that a column's outputs are measured against: the unfused function evaluated in float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import relax

from tvm_vfuse.build import Runner, compile_module
from tvm_vfuse.compare.error import max_error, output_error
from tvm_vfuse.compare.float64 import as_float64, to_float64
from tvm_vfuse.device import host_target
from tvm_vfuse.frontend.quiet import quiet

Arrays = list[np.ndarray[Any, Any]]


# Where the unfused function's own error is up to this many tolerances, float64 can still tell a fault from rounding.
_ROUNDING_FACTOR = 10.0


@dataclass(frozen=True)
class Verdict:
    """How a column's outputs stand to the reference.

    Parameters
    ----------
    max_error : float
        Largest error over the outputs.
    reference : str
        ``float64``, or ``unfused`` where for some output that is the reference.
    wrong : bool
        Whether some output is outside the tolerance.
    notes : tuple of str
        Why the reference is not float64, where it is not.
    """

    max_error: float
    reference: str
    wrong: bool
    notes: tuple[str, ...] = ()


class Referee:
    """Judge of the columns of one workload.

    Parameters
    ----------
    prepared : IRModule
        Prepared Relax module; it is evaluated in float64 on this CPU, at once.
    inputs : sequence of array
    unfused : callable
        Gives the outputs of the unfused column, when they are needed.
    tolerance : float
        Largest error that is rounding.
    """

    def __init__(
        self, prepared: tvm.ir.IRModule, inputs: Sequence[Any], unfused: Callable[[], Arrays], tolerance: float
    ) -> None:
        self._unfused, self._tolerance = unfused, tolerance
        self._outputs: Arrays | None = None
        self._why = ""
        try:
            self._outputs = evaluate_float64(prepared, inputs)
        except Exception as err:  # noqa: BLE001 - whatever TVM raises here, the unfused column is the next best reference
            self._why = next((line.strip() for line in str(err).splitlines() if line.strip()), type(err).__name__)

    def judge(self, outputs: Arrays) -> Verdict:
        """Compare a column's outputs with the reference, output by output.

        The reference is float64, except where the unfused function in its own dtypes is outside the tolerance itself
        (overflow, explicit narrowing, a comparison at an edge): there float64 says nothing about fusion, and the
        unfused output is the reference.
        """
        if self._outputs is None:
            error = max_error(outputs, self._unfused())
            note = f"errors are against the unfused column, not float64: {self._why[:160]}"
            return Verdict(error, "unfused", not error <= self._tolerance, (note,))
        if len(outputs) != len(self._outputs):
            return Verdict(float("inf"), "float64", True, (f"{len(outputs)} outputs, expected {len(self._outputs)}",))
        judged = [self._judge(index, out, wide) for index, (out, wide) in enumerate(zip(outputs, self._outputs))]
        notes = tuple(note for _, _, note in judged if note)
        worst = max((error for error, _, _ in judged), default=0.0)
        return Verdict(worst, "unfused" if notes else "float64", not all(good for _, good, _ in judged), notes)

    def _judge(self, index: int, output: Any, wide: Any) -> tuple[float, bool, str]:
        """Error of one output, whether it is good, and a note where the unfused output is its reference."""
        error = output_error(output, wide)
        if error <= self._tolerance:
            return error, True, ""
        unfused = self._unfused()[index]
        own = output_error(unfused, wide)
        if own <= self._tolerance:
            return error, False, ""
        if error <= own <= _ROUNDING_FACTOR * self._tolerance:
            return error, True, ""
        against = output_error(output, unfused)
        note = f"output {index}: unfused is {own:.2g} from float64 by itself, so it is the reference"
        return against, against <= self._tolerance, note


def evaluate_float64(prepared: tvm.ir.IRModule, inputs: Sequence[Any]) -> Arrays:
    """Outputs of a prepared module in float64 on this CPU.

    The module is turned before legalisation, where operators choose constants by their dtype, and again after it, where
    some of them compute in float32 whatever they are given (``rms_norm``) or have no float64 form (``layer_norm``).
    Raises what TVM raises where neither works.
    """
    target = host_target()
    wide = [as_float64(value) for value in inputs]
    legalize = relax.transform.LegalizeOps()
    try:
        with target, quiet():
            legal = legalize(to_float64(prepared))
    except (RuntimeError, TypeError, ValueError):
        with target:
            legal = legalize(prepared)
    return Runner(compile_module(to_float64(legal), target)).run(wide)
