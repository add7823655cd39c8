"""The console that results are printed on: tables on a terminal, plain aligned text in a pipe."""

from __future__ import annotations

import math
import os

from rich import box
from rich.console import Console
from rich.table import Table

_PLAIN = box.Box("    \n    \n -- \n    \n    \n    \n    \n    \n", ascii=True)


_PIPE_WIDTH = 160  # of a pipe, which has no width: enough that most rows stay on one line


def console() -> Console:
    """Console for results: standard output, colours on a terminal only, no line wider than the terminal."""
    made = Console(highlight=False)
    if not made.is_terminal and "COLUMNS" not in os.environ:
        made.width = _PIPE_WIDTH
    return made


def table(out: Console, *headers: str, title: str | None = None, left: int = 1) -> Table:
    """Return an empty table; its first ``left`` columns are left-aligned text, the others right-aligned numbers."""
    frame = box.SIMPLE_HEAD if out.is_terminal else _PLAIN
    made = Table(title=title, title_justify="left", title_style="bold", box=frame, show_edge=False, pad_edge=False)
    for index, header in enumerate(headers):
        made.add_column(header, justify="left" if index < left else "right", overflow="fold")
    return made


def number(value: float | None) -> str:
    """Three significant digits; plain where that is short."""
    if value is None:
        return "-"
    if not math.isfinite(value) or value == 0:
        return f"{value:g}"
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}" if abs(value) < 1e6 else f"{value:.2e}"
