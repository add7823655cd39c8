"""What a comparison says about one (input, column), and its JSON form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from tvm_vfuse.compare.measure import Timing
from tvm_vfuse.compare.trace import Trace
from tvm_vfuse.compare.traffic import launch_bytes

GPU_FIELDS = (
    "registers",
    "spill_bytes",
    "stack_bytes",
    "shared_bytes",
    "threads",
    "blocks",
    "occupancy",
    "vector_bytes",
)
"""Fields of a kernel that only a GPU has; null on a CPU."""


@dataclass(frozen=True)
class Kernel:
    """One kernel of a column.

    Parameters
    ----------
    name : str
    ops : tuple of str
        Names of the operators in it.
    launches : int
        How often one run launches it.
    boundary_bytes, in_kernel_bytes : int or None
        Of one launch, in bytes.
    """

    name: str
    ops: tuple[str, ...]
    launches: int
    boundary_bytes: int | None
    in_kernel_bytes: int | None

    def to_json(self) -> dict[str, Any]:
        """Return the kernel as JSON data."""
        return {**asdict(self), "ops": list(self.ops), **dict.fromkeys(GPU_FIELDS)}


@dataclass(frozen=True)
class Row:
    """One (input, column); units as in the JSON form, None where a thing is unknown or was not measured.

    Parameters
    ----------
    input, target, column : str
    kernels : int or None
        Kernels launched for one run.
    boundary_bytes, ideal_bytes, in_kernel_bytes, peak_bytes : int or None
        See :mod:`tvm_vfuse.compare.traffic` and :mod:`tvm_vfuse.compare.kernel_memory`.
    flop : int or None
        Arithmetic of the unfused function: the same for every column.
    predicted_us : float or None
    measured_ms : Timing or None
    max_error : float or None
        Against ``reference`` (``float64``, or ``unfused`` where there is no float64 form).
    compile_s : float or None
    kernel_list : tuple of Kernel
    time_ratio : dict of str to Timing
        Time divided by another column's, round by round, by that column's name.
    wrong : bool
        Whether the result is outside the dtype's tolerance.
    failure : str or None
        Why the column has no result.
    notes : tuple of str
    """

    input: str
    target: str
    column: str
    kernels: int | None = None
    boundary_bytes: int | None = None
    ideal_bytes: int | None = None
    in_kernel_bytes: int | None = None
    flop: int | None = None
    peak_bytes: int | None = None
    predicted_us: float | None = None
    measured_ms: Timing | None = None
    max_error: float | None = None
    compile_s: float | None = None
    kernel_list: tuple[Kernel, ...] = ()
    time_ratio: dict[str, Timing] = field(default_factory=dict)
    reference: str | None = None
    wrong: bool = False
    failure: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def flop_per_byte(self) -> float | None:
        """Arithmetic intensity over the boundary's bytes."""
        return self.flop / self.boundary_bytes if self.flop is not None and self.boundary_bytes else None

    def to_json(self) -> dict[str, Any]:
        """Return the row as JSON data, one key for each field."""
        data = asdict(self)
        data["kernel_list"] = [kernel.to_json() for kernel in self.kernel_list]
        data["notes"] = list(self.notes)
        data["flop_per_byte"] = self.flop_per_byte
        return data


def kernel_list(trace: Trace, ops: dict[str, list[str]], in_kernel: Sequence[int | None]) -> tuple[Kernel, ...]:
    """List the distinct kernels of a trace in the order of their first launch.

    Parameters
    ----------
    trace : Trace
    ops : dict of str to list of str
        Members of the fused kernels, by name; a kernel that is absent is one operator.
    in_kernel : sequence of int or None
        Bytes that each launch keeps in memory by itself.
    """
    launches = Counter(launch.name for launch in trace.launches)
    kernels: dict[str, Kernel] = {}
    for launch, held in zip(trace.launches, in_kernel, strict=True):
        members = tuple(ops.get(launch.name, [launch.name]))
        kernel = Kernel(launch.name, members, launches[launch.name], launch_bytes(launch), held)
        kernels.setdefault(launch.name, kernel)
    return tuple(kernels.values())
