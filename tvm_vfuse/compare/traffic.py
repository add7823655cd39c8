"""Bytes that a run moves and holds, from its trace."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tvm_vfuse.compare.trace import Launch, TensorValue, Trace


def launch_bytes(launch: Launch) -> int | None:
    """Bytes of a kernel's distinct inputs plus its outputs, each once; None where a size is unknown."""
    return sum_known([_distinct_bytes(launch.inputs), _distinct_bytes(launch.outputs)])


def boundary_bytes(trace: Trace) -> int | None:
    """Sum of :func:`launch_bytes` over the kernels of a run."""
    return sum_known(launch_bytes(launch) for launch in trace.launches)


def ideal_bytes(trace: Trace) -> int | None:
    """Bytes of the whole function's inputs, constants and outputs, each once: one kernel's boundary.

    Only constants that some kernel reads from memory count; those written into a kernel's code do not.
    """
    read = {storage for launch in trace.launches for value in launch.inputs for storage in value.storages}
    constants = [value for storage, value in trace.constants.items() if storage in read]
    return _distinct_bytes([*trace.parameters, *constants, *trace.results])


def peak_bytes(trace: Trace, in_kernel: Sequence[int | None]) -> int | None:
    """Most bytes of intermediates alive at once.

    Parameters
    ----------
    trace : Trace
    in_kernel : sequence of int or None
        Bytes that each launch keeps in memory by itself while it runs.

    Returns
    -------
    int or None
        An intermediate lives from the launch that makes it to the last one that reads it; the function's own inputs,
        constants and results are not intermediates. None where a size is unknown.
    """
    results = {storage for value in trace.results for storage in value.storages}
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for step, launch in enumerate(trace.launches):
        for value in (*launch.inputs, *launch.outputs):
            for storage in value.storages & trace.created.keys() - results:
                first.setdefault(storage, step)
                last[storage] = step
    alive_at: list[list[int | None]] = [[held] for held in in_kernel]
    for storage, start in first.items():
        for step in range(start, last[storage] + 1):
            alive_at[step].append(trace.created[storage].nbytes)
    sums = [sum_known(sizes) for sizes in alive_at]
    known = [size for size in sums if size is not None]
    return max(known, default=0) if len(known) == len(sums) else None


def _distinct_bytes(values: Iterable[TensorValue]) -> int | None:
    """Sum of sizes, memory that is named twice counted once (at its largest view)."""
    sizes: dict[frozenset[int], int | None] = {}
    for value in values:
        size, before = value.nbytes, sizes.get(value.storages, 0)
        sizes[value.storages] = None if size is None or before is None else max(size, before)
    return sum_known(sizes.values())


def sum_known(sizes: Iterable[int | None]) -> int | None:
    """Sum of sizes; None where one is unknown."""
    result = 0
    for size in sizes:
        if size is None:
            return None
        result += size
    return result
