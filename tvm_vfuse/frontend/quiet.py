"""Keep libraries' chatter off the program's output while a model is imported."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass
class Chatter:
    """What was written meanwhile; filled in when the block ends."""

    text: str = ""


@contextlib.contextmanager
def quiet() -> Iterator[Chatter]:
    """Divert standard output and error, C libraries' included, and hide Python warnings.

    Yields
    ------
    Chatter
        Holds the diverted text once the block has ended.
    """
    chatter, printed = Chatter(), io.StringIO()
    _flush()
    with tempfile.TemporaryFile() as sink:
        try:
            with contextlib.ExitStack() as stack:
                for descriptor in (1, 2):
                    stack.enter_context(_diverted(descriptor, sink.fileno()))
                stack.enter_context(contextlib.redirect_stdout(printed))
                stack.enter_context(contextlib.redirect_stderr(printed))
                stack.enter_context(warnings.catch_warnings())
                warnings.simplefilter("ignore")
                yield chatter
        finally:
            sink.seek(0)
            chatter.text = printed.getvalue() + sink.read().decode(errors="replace")


@contextlib.contextmanager
def _diverted(descriptor: int, target: int) -> Iterator[None]:
    try:
        saved = os.dup(descriptor)
    except OSError:  # closed by whoever started us: nothing to divert
        yield
        return
    try:
        os.dup2(target, descriptor)
        yield
    finally:
        os.dup2(saved, descriptor)
        os.close(saved)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and not stream.closed:
            stream.flush()
