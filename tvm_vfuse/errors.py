"""The error tree: every message says what, where, the numbers, and the way out."""

from __future__ import annotations


class VFuseError(Exception):
    """Base of every error that tvm_vfuse raises on purpose.

    Attributes
    ----------
    exit_status : int
        What the command line exits with when this error reaches it.
    """

    exit_status = 1


class InputError(VFuseError):
    """Bad input or usage: a missing file, an unknown name, an option out of range."""

    exit_status = 2


class CheckFailed(VFuseError):
    """A check found a wrong result, a race or a column slower than asked for."""

    exit_status = 1


class InternalError(VFuseError):
    """An invariant of ours does not hold; always a fault of tvm_vfuse."""

    exit_status = 1


class Reject(VFuseError):
    """A group can't be one kernel of the template that was asked.

    The planner reads it as "cut here"; the report shows it as the reason of a refused edge.

    Parameters
    ----------
    reason : str
        Short machine-readable reason, for example ``"reduction-read-by-other-row"``.
    detail : str
        One sentence with the names and the numbers.
    culprit : int | None
        Index of the member (in the group's order) that could not join, where one can be named.
    """

    def __init__(self, reason: str, detail: str, culprit: int | None = None) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail
        self.culprit = culprit
