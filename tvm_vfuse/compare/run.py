"""Compare the columns on one workload: static counts, outputs, and times."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import tvm

from tvm_vfuse import pipeline
from tvm_vfuse.build import Runner, compile_module, to_arrays, to_device
from tvm_vfuse.compare.columns import COLUMNS, Lowered, lower_column
from tvm_vfuse.compare.error import tolerance
from tvm_vfuse.compare.flops import kernel_flop
from tvm_vfuse.compare.kernel_memory import in_kernel_bytes
from tvm_vfuse.compare.measure import measure
from tvm_vfuse.compare.record import Row, kernel_list
from tvm_vfuse.compare.reference import Arrays, Referee
from tvm_vfuse.compare.trace import Trace, trace
from tvm_vfuse.compare.traffic import boundary_bytes, ideal_bytes, peak_bytes, sum_known
from tvm_vfuse.device import runs_here
from tvm_vfuse.errors import InputError
from tvm_vfuse.options import FusionOptions

Progress = Callable[[str], Any]


@dataclass
class _Column:
    """A column on its way through the stages; ``failure`` ends it."""

    name: str
    lowered: Lowered | None = None
    trace: Trace | None = None
    runner: Runner | None = None
    compile_s: float | None = None
    outputs: Arrays | None = None
    overwritten: list[int] = field(default_factory=list)
    failure: str | None = None

    def attempt(self, stage: str, step: Callable[[], Any]) -> Any:
        """Run a step unless the column has failed; what it raises becomes the column's failure."""
        if self.failure is not None:
            return None
        try:
            return step()
        except InputError:
            raise
        except Exception as err:  # noqa: BLE001 - a column of TVM's or ours may fail in any way; the others still count
            reason = next((line.strip() for line in str(err).splitlines() if line.strip()), "")
            self.failure = f"{stage}: {type(err).__name__}: {reason[:200]}"
            return None


def compare_workload(
    workload: Any,
    target: tvm.target.Target,
    options: FusionOptions | None = None,
    against: Sequence[str] = ("unfused", "stock"),
    timed: bool = True,
    budget_s: float = 10.0,
    progress: Progress = lambda _text: None,
    label: str | None = None,
) -> list[Row]:
    """Compare our kernels with others on one workload.

    Parameters
    ----------
    workload : Workload
        With ``name``, ``build()`` and ``inputs(seed)``.
    target : tvm.target.Target
        An LLVM target; where its code does not run here, only static counts and compile times are given.
    options : FusionOptions or None
    against : sequence of str
        Columns to set beside ``vfuse``.
    timed : bool
        Whether to measure time.
    budget_s : float
        Time to spend on measuring, in s, compilation and one run of each column apart.
    progress : callable
        Told in words what is going on.
    label : str or None
        What the rows call the input; None: the workload's name.

    Returns
    -------
    list of Row
        One for each column, in the order of :data:`COLUMNS`.
    """
    options = options or FusionOptions()
    unknown = [name for name in against if name not in COLUMNS]
    if unknown:
        raise InputError(f"column {unknown[0]!r} is unknown; one of {', '.join(COLUMNS)}")
    shown = [name for name in COLUMNS if name in against or name == "vfuse"]
    session = _Session(workload, label or workload.name, target, options, progress)
    columns = [session.column(name) for name in shown]
    for column in columns:
        session.compile(column)
    rows = {column.name: session.static_row(column) for column in columns}
    if runs_here(target):
        for column in columns:
            session.execute(column)
        referee = session.referee()
        for column in columns:
            rows[column.name] = session.judged(rows[column.name], column, referee)
        if timed:
            session.time([c for c in columns if c.outputs is not None and not rows[c.name].wrong], rows, budget_s)
    return [replace(rows[column.name], failure=column.failure) for column in columns]


class _Session:
    """One workload's module, inputs and columns."""

    def __init__(self, workload: Any, label: str, target: Any, options: FusionOptions, progress: Progress) -> None:
        self.label, self.target, self.options, self.progress = label, target, options, progress
        self._say("building the module")
        with target:
            self.prepared = pipeline.prepare(workload.build())
        self.inputs = workload.inputs(options.seed)
        self._columns: dict[str, _Column] = {}

    def _say(self, text: str) -> None:
        self.progress(f"{self.label}: {text}")

    def column(self, name: str) -> _Column:
        """Lower and trace a column, once."""
        if name not in self._columns:
            column = self._columns[name] = _Column(name)
            self._say(f"{name}: passes")
            lowered = column.attempt("passes", lambda: lower_column(name, self.prepared, self.target, self.options))
            if lowered is not None:
                column.lowered = lowered
                column.trace = column.attempt("trace", lambda: trace(lowered.mod, self.inputs))
        return self._columns[name]

    def compile(self, column: _Column) -> None:
        """Compile a column for its target, once."""
        lowered = column.lowered
        if lowered is None or column.compile_s is not None:
            return
        self._say(f"{column.name}: compiling")
        start = time.perf_counter()
        executable = column.attempt("compile", lambda: compile_module(lowered.mod, lowered.target))
        if executable is not None:
            column.compile_s = lowered.seconds + time.perf_counter() - start
            if runs_here(lowered.target):
                column.runner = column.attempt("load", lambda: Runner(executable))

    def execute(self, column: _Column) -> None:
        """Run a column once for its outputs."""
        runner = column.runner
        if runner is not None and column.outputs is None:
            self._say(f"{column.name}: running")
            column.outputs = column.attempt("run", lambda: self._run(column, runner))

    def _run(self, column: _Column, runner: Runner) -> Arrays:
        arguments = to_device(self.inputs)
        outputs = to_arrays(runner(*arguments))
        pairs = zip(to_arrays(arguments), to_arrays(to_device(self.inputs)), strict=True)
        column.overwritten = [index for index, (now, before) in enumerate(pairs) if now.tobytes() != before.tobytes()]
        return outputs

    def unfused_outputs(self) -> Arrays:
        """Outputs of the unfused column, whether it is shown or not."""
        column = self.column("unfused")
        self.compile(column)
        self.execute(column)
        if column.outputs is None:
            raise InputError(f"{self.label}: the unfused function does not run ({column.failure})")
        return column.outputs

    def referee(self) -> Referee:
        """Judge of the outputs; evaluates the function in float64."""
        self._say("reference in float64")
        return Referee(self.prepared, self.inputs, self.unfused_outputs, tolerance(self._dtypes()))

    # ------------------------------------------------------------------------------------------------------ counts
    def static_row(self, column: _Column) -> Row:
        """What the module alone tells of a column."""
        row = Row(input=self.label, target=str(self.target), column=column.name, compile_s=column.compile_s)
        if column.trace is None or column.lowered is None:
            return row
        unfused = self.column("unfused").trace
        held = [in_kernel_bytes(launch.function, launch.bindings) for launch in column.trace.launches]
        return replace(
            row,
            kernels=len(column.trace.launches),
            boundary_bytes=boundary_bytes(column.trace),
            ideal_bytes=ideal_bytes(unfused) if unfused is not None else None,
            in_kernel_bytes=sum_known(held),
            flop=sum_known(kernel_flop(x.function, x.bindings) for x in unfused.launches)
            if unfused is not None
            else None,
            peak_bytes=peak_bytes(column.trace, held),
            predicted_us=column.lowered.predicted_us,
            kernel_list=kernel_list(column.trace, column.lowered.ops, held),
            notes=column.trace.notes,
        )

    # ----------------------------------------------------------------------------------------------------- results
    def judged(self, row: Row, column: _Column, referee: Referee) -> Row:
        """The row with its error and verdict; a column that overwrites an input is wrong unless unfused does too."""
        if column.outputs is None:
            return row
        verdict = referee.judge(column.outputs)
        wrong, notes = verdict.wrong, list(verdict.notes)
        if column.overwritten:
            self.unfused_outputs()
            wrong = wrong or column.overwritten != self.column("unfused").overwritten
            notes.append(f"inputs {', '.join(map(str, column.overwritten))} are overwritten by a run")
        return replace(
            row,
            max_error=verdict.max_error,
            reference=verdict.reference,
            wrong=wrong,
            notes=(*row.notes, *notes),
        )

    def _dtypes(self) -> list[str]:
        """Dtypes that the unfused kernels compute in."""
        unfused = self.column("unfused").trace
        launches = unfused.launches if unfused is not None else ()
        params = [param for launch in launches if launch.function is not None for param in launch.function.params]
        return sorted({str(param.ty.dtype) for param in params})

    def time(self, columns: Sequence[_Column], rows: dict[str, Row], budget_s: float) -> None:
        """Measure columns side by side and add what was measured to their rows."""
        self._say("measuring")
        arguments = to_device(self.inputs)
        functions = {c.name: (lambda run=c.runner: run(*arguments)) for c in columns if c.runner is not None}
        if not functions:
            return
        measured = measure(functions, budget_s)
        for name in functions:
            ratios = {base: measured.ratio(name, base) for base in functions if base != name}
            rows[name] = replace(rows[name], measured_ms=measured.timing(name), time_ratio=ratios)
