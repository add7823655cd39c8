"""All built-in workloads, and how a spec such as ``softmax:4096x2048:float16`` names one."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from functools import cache

from tvm_vfuse.errors import InputError
from tvm_vfuse.workloads import (
    convolution,
    elementwise,
    kernelbench,
    kernelbench_more,
    networks,
    patterns,
    relay_twins,
    rows,
    transformer,
)
from tvm_vfuse.workloads.template import Sizes, Template
from tvm_vfuse.workloads.tensors import DTYPE_NAMES, shape_text
from tvm_vfuse.workloads.workload import Workload

FAMILIES = (
    elementwise,
    rows,
    convolution,
    transformer,
    patterns,
    kernelbench,
    kernelbench_more,
    relay_twins,
    networks,
)


@cache
def templates() -> dict[str, Template]:
    """Every built-in by name, in the order of the families."""
    return {t.name: t for family in FAMILIES for t in family.TEMPLATES}


def all_workloads() -> tuple[Workload, ...]:
    """Every built-in at its default sizes and dtype; TVM is not imported."""
    return tuple(t.workload() for t in templates().values())


def nearest(word: str, choices: Iterable[str]) -> str:
    """The choices most like `word`, as text; empty where none is like it."""
    pool = list(dict.fromkeys(choices))
    found = difflib.get_close_matches(word.lower(), pool, n=3, cutoff=0.5)
    found += [c for c in pool if len(word) > 2 and word.lower() in c and c not in found]
    return ", ".join(found[:3])


def find(spec: str) -> Workload:
    """Look up a built-in workload.

    Parameters
    ----------
    spec : str
        ``name``, then optionally, after colons, sizes (``4096x8192``, or a named size such as ``small``) and a dtype.

    Raises
    ------
    InputError
        Where the name is unknown, or a size or dtype can't be had; one line with the nearest names.
    """
    name, *parts = spec.split(":")
    known = templates()
    if name not in known:
        raise InputError(unknown_name(name, known))
    template = known[name]
    sizes: Sizes | None = None
    dtype: str | None = None
    for part in parts:
        chosen = _sizes(template, part)
        if chosen is not None and sizes is None:
            sizes = chosen
        elif part.lower() in DTYPE_NAMES and dtype is None:
            dtype = DTYPE_NAMES[part.lower()]
        else:
            raise InputError(_bad_part(template, part, repeated=chosen is not None or part.lower() in DTYPE_NAMES))
    return template.workload(sizes, dtype)


def unknown_name(name: str, known: Iterable[str]) -> str:
    """The message for a name that is none of `known`."""
    like = nearest(name, known)
    hint = f"; did you mean {like}?" if like else ""
    return f"unknown workload {name!r}{hint} ('tvm-vfuse list' shows all; a file ends in .onnx, .pt2, .py or .json)"


def _sizes(template: Template, part: str) -> Sizes | None:
    if part in template.sizes:
        return template.sizes[part]
    if re.fullmatch(r"\d+(x\d+)*", part):
        return tuple(int(size) for size in part.split("x"))
    return None


def _bad_part(template: Template, part: str, repeated: bool) -> str:
    if repeated:
        return f"{template.name}: {part!r} gives sizes or dtype a second time"
    named = ", ".join(f"{k} ({shape_text(v)})" for k, v in template.sizes.items())
    like = nearest(part, [*template.sizes, *template.dtypes, *DTYPE_NAMES])
    hint = f"did you mean {like}? " if like else ""
    wanted = f"sizes are {' x '.join(template.dims)}, by name {named}; " if template.dims else ""
    return f"{template.name}: {part!r} is no size or dtype; {hint}{wanted}dtypes are {', '.join(template.dtypes)}"
