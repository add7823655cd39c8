"""Options that commands share, and how they become :class:`tvm_vfuse.options.FusionOptions`."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from tvm_vfuse.errors import InputError
from tvm_vfuse.options import FusionOptions

DEFAULT_INPUTS = ("magika", "silero_vad", "mtcnn_onet")
"""What ``compare`` runs when no INPUT is given: pretrained models that ``make setup`` installs."""

BUILT_IN_DEFAULT = "mobilenet_224"
"""What it runs where their packages are missing: a real architecture with seeded weights."""

_SHARED = (
    click.option(
        "--target", "target_text", default="llvm", metavar="T", help="llvm (this CPU), or a TVM target as JSON."
    ),
    click.option(
        "--numerics", type=click.Choice(["exact", "fast"]), default="exact", help="May products and sums contract?"
    ),
    click.option("--math", type=click.Choice(["vector", "libm"]), default="vector", help="Whose exp, tanh, erf."),
    click.option("--always", multiple=True, metavar="RULE", help="Force a rule on (may be repeated)."),
    click.option("--never", multiple=True, metavar="RULE", help="Switch a rule off (may be repeated)."),
    click.option(
        "--groups", "groups_file", type=click.Path(path_type=Path), metavar="FILE", help="Fusion plan by hand: JSON."
    ),
    click.option("--max-group-size", type=int, metavar="N", help="Most operators in a group."),
    click.option("--first-groups", type=int, metavar="N", help="Fuse the first N groups only (to bisect)."),
    click.option("--registers", type=int, metavar="N", help="Register budget per thread."),
    click.option("--seed", type=click.IntRange(min=0), default=0, metavar="N", help="Seed of inputs and searches."),
    click.option(
        "--dim",
        "dims",
        multiple=True,
        metavar="NAME=N",
        help="Value of a symbolic dimension of a file (may be repeated).",
    ),
    click.option("-v", "--verbose", is_flag=True, help="Say more on standard error; tracebacks for faults."),
)


@dataclass(frozen=True)
class Shared:
    """Values of the shared options.

    Parameters
    ----------
    target_text : str
    options : FusionOptions
    dims : dict of str to int
        Values of a file's symbolic dimensions.
    verbose : bool
    """

    target_text: str
    options: FusionOptions
    dims: dict[str, int]
    verbose: bool

    def target(self) -> Any:
        """Return the TVM target; :class:`InputError` where the text names none."""
        from tvm_vfuse.device import parse_target

        return parse_target(self.target_text)

    def load(self, spec: str) -> Any:
        """Load the workload that ``spec`` names."""
        from tvm_vfuse.frontend.load import load

        return load(spec, self.dims)

    def tell(self, spec: str, workload: Any) -> None:
        """Say on standard error what was assumed about a workload (after the result: an error stands there alone)."""
        for note in workload.notes:
            click.echo(f"{spec}: {note}", err=True)


def shared_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the shared options to a command; it gets their values as ``shared``."""

    @functools.wraps(command)
    def wrapped(**values: Any) -> Any:
        groups_file = values.pop("groups_file")
        options = FusionOptions(
            numerics=values.pop("numerics"),
            math=values.pop("math"),
            always=tuple(values.pop("always")),
            never=tuple(values.pop("never")),
            groups=None if groups_file is None else read_groups(groups_file),
            max_group_size=values.pop("max_group_size"),
            first_groups=values.pop("first_groups"),
            registers=values.pop("registers"),
            seed=values.pop("seed"),
        )
        shared = Shared(values.pop("target_text"), options, _dims(values.pop("dims")), values.pop("verbose"))
        return command(shared=shared, **values)

    for option in reversed(_SHARED):
        wrapped = option(wrapped)
    return wrapped


def _dims(pairs: tuple[str, ...]) -> dict[str, int]:
    """Values of ``--dim`` as a dict; :class:`InputError` where one is not NAME=N."""
    dims: dict[str, int] = {}
    for pair in pairs:
        name, _, number = pair.partition("=")
        if not name or not number.isdecimal() or int(number) < 1:
            raise InputError(f"--dim {pair}: expected NAME=N with a whole number N of at least 1, such as batch=8")
        dims[name] = int(number)
    return dims


def _writable(_context: click.Context, _param: click.Parameter, path: Path | None) -> Path | None:
    """Refuse a file in a directory that does not exist before any work is done."""
    if path is not None and not path.absolute().parent.is_dir():
        raise click.BadParameter(f"{path.parent} is no directory; make it first")
    return path


json_option = click.option(
    "--json",
    "json_file",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    callback=_writable,
    metavar="FILE",
    help="Write the result as JSON.",
)


def read_groups(path: Path) -> tuple[tuple[str, ...], ...]:
    """Read a fusion plan given by hand.

    Parameters
    ----------
    path : Path
        JSON: a list of groups, each a list of binding names; or a ``plan.json`` as ``build`` writes it (an object whose
        ``groups`` hold ``members``).

    Raises
    ------
    InputError
        If the file can't be read, is no JSON, has other keys, or a group is not a list of names.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as err:
        raise InputError(f"groups file {path}: {err.strerror or err}") from None
    except ValueError as err:
        raise InputError(f"groups file {path} is no valid JSON: {err}") from None
    if isinstance(data, dict):
        unknown = sorted(data.keys() - {"groups", "refused"})
        if unknown or "groups" not in data:
            what = f"key {unknown[0]!r} is unknown" if unknown else "there is no key 'groups'"
            raise InputError(f"groups file {path}: {what}; give a list of lists of binding names, or a plan.json")
        data = data["groups"]
    if not isinstance(data, list):
        raise InputError(f'groups file {path}: expected a list of groups such as [["lv", "lv1"], ["lv2", "lv3"]]')
    return tuple(_group(path, number, group) for number, group in enumerate(data))


def _group(path: Path, number: int, group: Any) -> tuple[str, ...]:
    """Binding names of one group of a groups file."""
    names = group.get("members") if isinstance(group, dict) else group
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise InputError(f"groups file {path}: group {number} is not a list of binding names")
    return tuple(names)
