"""A click group whose errors are one line on standard error and an exit status."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence
from typing import Any

import click

from tvm_vfuse.errors import VFuseError

_VERBOSE = ("-v", "--verbose")


class OneLineErrors(click.Group):
    """Group that ends each failure with one line: status 2 for bad input or usage, 1 for failed checks and faults."""

    def main(  # type: ignore[override]  # click's overloads tell apart a standalone_mode that is always on here
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any
    ) -> Any:
        """Run a command and exit with its status."""
        given = list(sys.argv[1:] if args is None else args)
        name = prog_name or "tvm-vfuse"
        extra["standalone_mode"] = False
        try:
            status = super().main(args=given, prog_name=name, **extra)
        except Exception as err:  # noqa: BLE001 - nothing reaches the user as a traceback unless -v asks for it
            if any(option in given for option in _VERBOSE):
                traceback.print_exc()
            line, status = _line_and_status(err, name)
            _say(line)
        sys.exit(status if isinstance(status, int) else 0)


def _line_and_status(err: Exception, name: str) -> tuple[str, int]:
    """Text for standard error (may be empty) and exit status."""
    if isinstance(err, click.exceptions.Exit):
        return "", err.exit_code
    if isinstance(err, click.exceptions.NoArgsIsHelpError):
        return err.format_message(), 2
    if isinstance(err, click.UsageError):
        path = err.ctx.command_path if err.ctx is not None else name
        return f"{path}: {_one_line(err.format_message())} (see {path} --help)", 2
    if isinstance(err, click.ClickException):
        return f"{name}: {_one_line(err.format_message())}", 2
    if isinstance(err, click.Abort):
        return f"{name}: interrupted", 130
    if isinstance(err, VFuseError):
        return f"{name}: {_one_line(str(err))}", err.exit_status
    if isinstance(err, BrokenPipeError):
        sys.stdout = None  # the reader went away: nothing more can be said there
        return "", 0
    return f"{name}: {type(err).__name__}: {_one_line(str(err))} (-v shows the traceback)", 1


def _one_line(text: str) -> str:
    """First line that says something, at most 300 characters."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "no message")[:300]


def _say(line: str) -> None:
    if line:
        click.echo(line, err=True)
