"""``tvm-vfuse check``: fused against unfused."""

from __future__ import annotations

import click

from tvm_vfuse.cli.options import Shared, shared_options
from tvm_vfuse.cli.progress import progress
from tvm_vfuse.errors import CheckFailed


@click.command()
@click.argument("input_spec", metavar="INPUT")
@click.option("--seeds", type=click.IntRange(min=1), default=3, metavar="N", help="How many random inputs.")
@shared_options
def check(input_spec: str, seeds: int, shared: Shared) -> None:
    """Certify that fused kernels compute what the unfused operators do, on random inputs and poisoned outputs."""
    from tvm_vfuse.certify import certify_workload
    from tvm_vfuse.report.lists import print_certificates

    target = shared.target()
    workload = shared.load(input_spec)
    with progress(shared.verbose) as say:
        certificates = certify_workload(workload, target, shared.options, seeds, say)
    print_certificates(certificates)
    shared.tell(input_spec, workload)
    bad = [certificate.name for certificate in certificates if not certificate.passed]
    if bad:
        raise CheckFailed(f"{input_spec}: {len(bad)} of {len(certificates)} checks failed: {', '.join(bad[:5])}")
