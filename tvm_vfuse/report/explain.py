"""``explain`` as text: the groups, then each refused edge with its reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rich.text import Text

from tvm_vfuse.report.console import console, table


def print_explanation(groups: Sequence[Mapping[str, Any]], refused: Sequence[Mapping[str, Any]]) -> None:
    """Print groups and refused edges.

    Parameters
    ----------
    groups : sequence of mapping
        Keys ``name, ops, template, scopes, registers_predicted, saved_bytes, predicted_us``.
    refused : sequence of mapping
        Keys ``producer, consumer, reason, detail, slack``.
    """
    out = console()
    shown = table(out, "group", "operators", "template", "scopes", "registers", "saved B", "predicted us", left=4)
    for group in groups:
        scopes = Counter(group.get("scopes", {}).values())
        shown.add_row(
            Text(str(group["name"])),
            Text(" ".join(map(str, group["ops"]))),
            Text(str(group.get("template") or "-")),
            Text(", ".join(f"{count} {scope}" for scope, count in sorted(scopes.items())) or "-"),
            *(_cell(group.get(key)) for key in ("registers_predicted", "saved_bytes", "predicted_us")),
        )
    out.print(shown)
    out.print()
    if not refused:
        out.print("No edge was refused.")
        return
    edges = table(out, "producer", "consumer", "reason", "detail", left=4)
    for edge in refused:
        edges.add_row(*(Text(str(edge.get(key) or "-")) for key in ("producer", "consumer", "reason", "detail")))
    out.print(edges)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.3g}" if isinstance(value, float) else str(value)
