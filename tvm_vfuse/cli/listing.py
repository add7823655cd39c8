"""``tvm-vfuse list``: the built-in workloads."""

from __future__ import annotations

from pathlib import Path

import click

from tvm_vfuse.cli.options import json_option


@click.command("list")
@json_option
def list_workloads(json_file: Path | None) -> None:
    """List the built-in workloads: name, what it is, shapes, dtype."""
    from tvm_vfuse.build import write_json
    from tvm_vfuse.report.lists import print_workloads
    from tvm_vfuse.workloads import all_workloads

    workloads = all_workloads()
    if json_file is not None:
        keys = ("name", "description", "shapes", "dtype", "memory_bound")
        write_json(json_file, [{key: getattr(workload, key) for key in keys} for workload in workloads])
    print_workloads(workloads)
