"""The command line: ``tvm-vfuse``.

Exit status: 0 done; 1 a check failed; 2 bad input or usage, with one line on standard error. Standard output carries
the result alone. TVM is imported by the commands that need it, so ``--help`` and ``list`` answer at once.
"""

from __future__ import annotations

import click

from tvm_vfuse import __version__
from tvm_vfuse.cli.build import build
from tvm_vfuse.cli.check import check
from tvm_vfuse.cli.compare import compare
from tvm_vfuse.cli.doctor import doctor
from tvm_vfuse.cli.explain import explain
from tvm_vfuse.cli.group import OneLineErrors
from tvm_vfuse.cli.listing import list_workloads

__all__ = ["cli", "main"]


@click.group(
    "tvm-vfuse", cls=OneLineErrors, no_args_is_help=False, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(__version__, prog_name="tvm-vfuse", message="%(prog)s %(version)s")
def cli() -> None:
    """Vertical operator fusion for Apache TVM: one kernel a group, intermediates in registers."""


for command in (list_workloads, compare, explain, build, check, doctor):
    cli.add_command(command)


def main() -> None:
    """Entry point of the ``tvm-vfuse`` program."""
    cli(prog_name="tvm-vfuse")
