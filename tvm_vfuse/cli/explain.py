"""``tvm-vfuse explain``: what is fused, and why the rest is not."""

from __future__ import annotations

from pathlib import Path

import click

from tvm_vfuse.cli.options import Shared, json_option, shared_options
from tvm_vfuse.cli.progress import progress


@click.command()
@click.argument("input_spec", metavar="INPUT")
@json_option
@shared_options
def explain(input_spec: str, json_file: Path | None, shared: Shared) -> None:
    """Print the groups, and each refused edge with its reason."""
    from tvm_vfuse import pipeline
    from tvm_vfuse.build import write_json
    from tvm_vfuse.report.explain import print_explanation

    target = shared.target()
    workload = shared.load(input_spec)
    with progress(shared.verbose) as say:
        say(f"{input_spec}: planning")
        result = pipeline.run(workload.build(), target, shared.options)
    if json_file is not None:
        write_json(json_file, {"groups": list(result.groups), "refused": list(result.refused)})
    print_explanation(result.groups, result.refused)
    shared.tell(input_spec, workload)
