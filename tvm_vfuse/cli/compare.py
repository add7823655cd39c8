"""``tvm-vfuse compare``: our kernels beside unfused and stock ones."""

from __future__ import annotations

from pathlib import Path

import click

from tvm_vfuse.cli.options import BUILT_IN_DEFAULT, DEFAULT_INPUTS, Shared, json_option, shared_options
from tvm_vfuse.cli.progress import progress
from tvm_vfuse.errors import CheckFailed, InputError


@click.command()
@click.argument("inputs", nargs=-1, metavar="[INPUT]...")
@click.option(
    "--against", default="unfused,stock", metavar="COLUMNS", help="Columns beside vfuse, separated by commas."
)
@click.option("--measure/--no-measure", default=True, help="Measure time.")
@click.option(
    "--budget", default=10.0, type=click.FloatRange(min=0.0), metavar="S", help="Seconds to measure an input."
)
@json_option
@shared_options
def compare(
    inputs: tuple[str, ...], against: str, measure: bool, budget: float, json_file: Path | None, shared: Shared
) -> None:
    """Compare kernels, traffic, errors and times of unfused, stock and our kernels.

    Without INPUT pretrained models run (those whose packages are installed). A column with a wrong result ends in
    exit status 1.
    """
    from tvm_vfuse.build import write_json
    from tvm_vfuse.compare import compare_workload
    from tvm_vfuse.report.comparison import print_comparison

    target = shared.target()
    columns = [name.strip() for name in against.split(",") if name.strip()]
    specs = inputs or _default_inputs()
    workloads = [shared.load(spec) for spec in specs]
    results = []
    with progress(shared.verbose) as say:
        for spec, workload in zip(specs, workloads):
            rows = compare_workload(workload, target, shared.options, columns, measure, budget, say, label=spec)
            results.append(rows)
    if json_file is not None:
        write_json(json_file, [row.to_json() for rows in results for row in rows])
    print_comparison(results)
    for spec, workload in zip(specs, workloads):
        shared.tell(spec, workload)
    bad = [row for rows in results for row in rows if row.wrong or (row.failure and row.column != "stock")]
    if bad:
        raise CheckFailed("; ".join(f"{row.input}: {row.column}: {row.failure or 'wrong result'}" for row in bad))


def _default_inputs() -> tuple[str, ...]:
    """The pretrained models that are installed; a built-in network where none is."""
    from tvm_vfuse.frontend.real_models import locate

    found = []
    for name in DEFAULT_INPUTS:
        try:
            locate(name)
        except InputError as missing:
            click.echo(f"note: {missing}", err=True)
        else:
            found.append(name)
    return tuple(found) or (BUILT_IN_DEFAULT,)
