"""What a legality rule answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True)
class Facts:
    """What the evaluation of a group learnt; construction and report go on from it.

    Attributes
    ----------
    template : name of the template that takes the group
    block_axes : extents of the shared block axes, as text
    scopes : intermediate name -> "register", "shared" or "global"
    vector_ops : weighted operations of one run, recompute included
    in_kernel_bytes : bytes of intermediates that stay in memory inside the kernel
    """

    template: str
    block_axes: tuple[str, ...]
    scopes: Mapping[str, str] = field(default_factory=dict)
    vector_ops: float = 0.0
    in_kernel_bytes: int = 0


@dataclass(frozen=True)
class Verdict:
    """Legal (``reason`` is empty) or refused, with the reason, one sentence of detail and the way out."""

    reason: str = ""
    detail: str = ""
    slack: str = ""
    facts: Facts | None = None

    @property
    def legal(self) -> bool:
        """True if nothing was refused."""
        return not self.reason

    def __bool__(self) -> bool:
        raise TypeError("a verdict is no bool: ask .legal, or read .reason")


LEGAL = Verdict()

Refused = Mapping[tuple[tuple[int, ...], tuple[int, ...]], Verdict]


class Oracle(Protocol):
    """Evaluates sets of operators as one kernel (``graph.evaluate`` stands behind it)."""

    @property
    def cuts(self) -> Refused:
        """Sets (members, clones) that turned out to be unbuildable after planning, with the reason."""

    def __call__(self, members: tuple[int, ...], clones: tuple[int, ...]) -> Verdict:
        """Facts of ``members`` as one kernel that also computes ``clones``, or the reason against it."""
