"""Lists as text: workloads, certificates, what ``doctor`` found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.text import Text

from tvm_vfuse.report.console import console, number, table


def print_workloads(workloads: Sequence[Any]) -> None:
    """Print the built-in workloads."""
    out = console()
    shown = table(out, "name", "what it is", "shapes", "dtype", left=4)
    for workload in workloads:
        shown.add_row(workload.name, Text(workload.description), Text(workload.shapes), workload.dtype)
    out.print(shown)


def print_certificates(certificates: Sequence[Any]) -> None:
    """Print the outcome of a check, then what is wrong."""
    out = console()
    shown = table(out, "kernel", "operators", "verdict", "max error", "tolerance", left=3)
    for certificate in certificates:
        verdict = "FAILED" if not certificate.passed else "bit for bit" if certificate.exact else "ok"
        numbers = (number(certificate.max_error), number(certificate.tolerance))
        shown.add_row(Text(certificate.name), Text(" ".join(certificate.ops)), verdict, *numbers)
    out.print(shown)
    for certificate in certificates:
        if certificate.detail:
            out.print(Text(f"{certificate.name}: {certificate.detail}"))


def print_diagnosis(findings: Sequence[Any]) -> None:
    """Print what ``doctor`` found, then what is missing and the command that gets it."""
    out = console()
    shown = table(out, "what", "found", left=2)
    for finding in findings:
        shown.add_row(Text(finding.name), Text(finding.value))
    out.print(shown)
    missing = [finding for finding in findings if finding.remedy]
    for finding in missing:
        out.print(Text(f"{finding.name}: {finding.remedy}"), soft_wrap=True)
    if not missing:
        out.print("Nothing is missing.")
