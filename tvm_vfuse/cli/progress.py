"""Progress on standard error: a live line on a terminal, plain lines under ``-v``, else nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from rich.console import Console


@contextlib.contextmanager
def progress(verbose: bool = False) -> Iterator[Callable[[str], None]]:
    """Give a function that tells the user what is going on."""
    console = Console(stderr=True, highlight=False)
    if verbose or not console.is_terminal:
        yield (lambda text: console.print(text, markup=False, soft_wrap=True)) if verbose else (lambda _text: None)
        return
    with console.status("") as status:
        yield lambda text: status.update(text)
