"""The options of a run: one frozen dataclass, passed down; no globals, no environment variables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tvm_vfuse.errors import InputError

Numerics = Literal["exact", "fast"]
Math = Literal["vector", "libm"]
Mode = Literal["search", "rules"]


@dataclass(frozen=True)
class FusionOptions:
    """What the user may decide about a fusion run.

    Parameters
    ----------
    numerics : "exact" or "fast"
        ``exact``: elementwise results equal the unfused ones bit for bit (no contraction across original operators).
        ``fast``: products and sums of neighbouring operators may contract.
    math : "vector" or "libm"
        ``vector``: our exp, tanh, erf (within 2 ULP, vectorised); ``libm``: the platform's.
    mode : "search" or "rules"
        ``search`` minimises predicted time; ``rules`` follows fixed pattern templates only.
    always, never : tuple of str
        Names of rules (``tvm-vfuse explain`` prints them) that are forced on, or switched off.
    groups : tuple of tuple of str, or None
        A fusion plan given by hand: each inner tuple names the members (binding names) of one group.
    max_group_size : int or None
        The most operators a group may hold.
    first_groups : int or None
        Fuse the first N groups only and leave the others unfused (for bisecting).
    registers : int or None
        Register budget per thread, by hand.
    seed : int
        Seed of random inputs and of every search.
    """

    numerics: Numerics = "exact"
    math: Math = "vector"
    mode: Mode = "search"
    always: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    groups: tuple[tuple[str, ...], ...] | None = None
    max_group_size: int | None = None
    first_groups: int | None = None
    registers: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name, allowed in (
            ("numerics", ("exact", "fast")),
            ("math", ("vector", "libm")),
            ("mode", ("search", "rules")),
        ):
            if getattr(self, name) not in allowed:
                raise InputError(f"option {name}: {getattr(self, name)!r} is not one of {', '.join(allowed)}")
        for name, least in (("max_group_size", 1), ("first_groups", 0), ("registers", 16)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise InputError(f"option {name}: {value} is below the least value, {least}")
