"""``tvm-vfuse doctor``: what is installed, what was found, what is missing."""

from __future__ import annotations

from pathlib import Path

import click

from tvm_vfuse.cli.options import json_option


@click.command()
@json_option
def doctor(json_file: Path | None) -> None:
    """Print versions, compilers and devices found, and how to get what is missing."""
    from tvm_vfuse.build import write_json
    from tvm_vfuse.doctor import diagnose
    from tvm_vfuse.report.lists import print_diagnosis

    findings = diagnose()
    if json_file is not None:
        write_json(json_file, [finding.to_json() for finding in findings])
    print_diagnosis(findings)
