"""A comparison as text: one table for each input, then a summary with geometric means."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.console import Console
from rich.text import Text

from tvm_vfuse.compare.measure import Timing, geometric_mean
from tvm_vfuse.compare.record import Row
from tvm_vfuse.report.console import console, number, table


def print_comparison(results: Sequence[Sequence[Row]]) -> None:
    """Print one table for each input and, for several inputs, a summary with geometric means."""
    out = console()
    for rows in results:
        _print_input(out, rows)
    _print_summary(out, results)


_METRICS: tuple[tuple[str, Callable[[Row], str]], ...] = (
    ("kernels", lambda row: _count(row.kernels)),
    ("boundary", lambda row: _bytes(row.boundary_bytes)),
    ("ideal", lambda row: _bytes(row.ideal_bytes)),
    ("in kernels", lambda row: _bytes(row.in_kernel_bytes)),
    ("peak", lambda row: _bytes(row.peak_bytes)),
    ("flop", lambda row: _si(row.flop)),
    ("flop/byte", lambda row: number(row.flop_per_byte)),
    ("predicted us", lambda row: number(row.predicted_us)),
    ("median ms", lambda row: _median(row.measured_ms)),
    ("  p25..p75", lambda row: _spread(row.measured_ms)),
    ("  rounds", lambda row: _count(row.measured_ms.runs if row.measured_ms else None)),
    ("time / stock", lambda row: _median(row.time_ratio.get("stock"))),
    ("  p25..p75", lambda row: _spread(row.time_ratio.get("stock"))),
    ("time / unfused", lambda row: _median(row.time_ratio.get("unfused"))),
    ("  p25..p75", lambda row: _spread(row.time_ratio.get("unfused"))),
    ("max error", lambda row: number(row.max_error)),
    ("compile s", lambda row: number(row.compile_s)),
)


def _print_input(out: Console, rows: Sequence[Row]) -> None:
    shown = table(out, "", *(row.column for row in rows), title=rows[0].input)
    for name, text in _METRICS:
        cells = [text(row) for row in rows]
        if any(cell != "-" for cell in cells):
            shown.add_row(name, *cells)
    out.print(shown)
    for line in _remarks(rows):
        out.print(Text(line))
    out.print()


def _remarks(rows: Sequence[Row]) -> list[str]:
    """Failures, wrong results and notes, each said once with the columns it holds for."""
    holders: dict[str, list[str]] = {}
    for row in rows:
        wrong = [f"WRONG RESULT, error {number(row.max_error)}"] if row.wrong else []
        failure = [f"FAILED, {row.failure}"] if row.failure else []
        for text in (*wrong, *failure, *row.notes):
            holders.setdefault(text, []).append(row.column)
    return [f"{', '.join(columns)}: {text}" for text, columns in holders.items()]


def _print_summary(out: Console, results: Sequence[Sequence[Row]]) -> None:
    """For each other column one line an input, what ours takes of it; geometric means under it."""
    others = [row.column for row in results[0] if row.column != "vfuse"] if results else []
    for other in others:
        headers = ("kernels", "bytes", "time", "p25..p75")
        shown = table(out, f"vfuse / {other}", *headers, "max error")
        collected: list[list[float]] = [[], [], []]
        for rows in results:
            by_column = {row.column: row for row in rows}
            ours, theirs = by_column["vfuse"], by_column[other]
            timing = ours.time_ratio.get(other)
            ratios = (
                _quotient(ours.kernels, theirs.kernels),
                _quotient(ours.boundary_bytes, theirs.boundary_bytes),
                timing.median if timing else None,
            )
            for values, ratio in zip(collected, ratios):
                values += [ratio] if ratio else []
            shown.add_row(rows[0].input, *map(number, ratios), _spread(timing), number(ours.max_error))
        if len(results) > 1:
            shown.add_section()
            shown.add_row("geometric mean", *(number(geometric_mean(values)) for values in collected), "", "")
        out.print(shown)
        out.print()


def _quotient(numerator: int | None, denominator: int | None) -> float | None:
    return numerator / denominator if numerator is not None and denominator else None


def _count(value: int | None) -> str:
    return "-" if value is None else str(value)


def _bytes(value: int | None) -> str:
    if value is None:
        return "-"
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= size:
            return f"{value / size:.4g} {unit}"
    return f"{value} B"


def _si(value: int | None) -> str:
    if value is None:
        return "-"
    for unit, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:.4g} {unit}"
    return str(value)


def _median(timing: Timing | None) -> str:
    return "-" if timing is None else number(timing.median)


def _spread(timing: Timing | None) -> str:
    return "-" if timing is None else f"{number(timing.p25)}..{number(timing.p75)}"
