"""``tvm-vfuse build``: the library and its data, in a directory."""

from __future__ import annotations

from pathlib import Path

import click

from tvm_vfuse.cli.options import Shared, shared_options
from tvm_vfuse.cli.progress import progress


@click.command()
@click.argument("input_spec", metavar="INPUT")
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), metavar="DIR", help="Where to.")
@shared_options
def build(input_spec: str, output: Path, shared: Shared) -> None:
    """Build the fused module: DIR/module.so, plan.json, resources.json; TVM alone loads it back."""
    from tvm_vfuse.build import write_directory
    from tvm_vfuse.compare.built import build_workload

    target = shared.target()
    workload = shared.load(input_spec)
    with progress(shared.verbose) as say:
        built = build_workload(workload, target, shared.options, say)
        files = write_directory(output, built.executable, built.plan, [kernel.to_json() for kernel in built.kernels])
    for path in files:
        click.echo(str(path))
    shared.tell(input_spec, workload)
