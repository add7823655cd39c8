"""Time several functions side by side: interleaved rounds, so that what disturbs the machine disturbs all of them."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_SAMPLE_S = 0.005  # shortest time of a sample: far above the clock's and the thread pool's jitter
_MAX_INNER = 1000
_MIN_ROUNDS, _MAX_ROUNDS = 3, 51
_WARM_BELOW_S = 0.03  # a call shorter than this is called once untimed first: it wakes the threads and fills the caches
_PAUSE_S = 0.002  # lets the threads of the function before go to sleep


@dataclass(frozen=True)
class Timing:
    """Times of one call.

    Parameters
    ----------
    median, p25, p75 : float
        Quartiles over the rounds, in ms.
    runs : int
        Number of rounds.
    """

    median: float
    p25: float
    p75: float
    runs: int


@dataclass(frozen=True)
class Measurement:
    """Result of :func:`measure`.

    Parameters
    ----------
    samples_ms : dict of str to list
        For each function one time per round, in ms; None where it sat the round out.
    """

    samples_ms: dict[str, list[float | None]]

    def timing(self, name: str) -> Timing:
        """Quartiles of a function's times."""
        return quartiles([sample for sample in self.samples_ms[name] if sample is not None])

    def ratio(self, name: str, base: str) -> Timing:
        """Quartiles of time(name) / time(base), each taken within one round (plain numbers, not ms)."""
        pairs = zip(self.samples_ms[name], self.samples_ms[base], strict=True)
        return quartiles([a / b for a, b in pairs if a is not None and b is not None])


def measure(
    functions: Mapping[str, Callable[[], Any]],
    budget_s: float = 10.0,
    clock: Callable[[], float] = time.perf_counter,
    pause: Callable[[float], Any] = time.sleep,
) -> Measurement:
    """Time functions in interleaved rounds whose order rotates.

    Parameters
    ----------
    functions : mapping of str to callable
        What to time; each is called at least four times.
    budget_s : float
        Time to spend in all, in s, shared evenly; a slow function gets fewer rounds, but at least 3, evenly spread.
    clock, pause : callable
        For tests.
    """
    names = list(functions)
    call_s = {name: _once(functions[name], clock) for name in names}
    inner = {name: max(1, min(_MAX_INNER, round(_SAMPLE_S / max(call_s[name], 1e-9)))) for name in names}
    warm = {name: call_s[name] < _WARM_BELOW_S for name in names}
    sample_s = {name: call_s[name] * (inner[name] + warm[name]) + _PAUSE_S for name in names}
    rounds = {name: _rounds(budget_s / len(names), sample_s[name]) for name in names}
    total = max(rounds.values(), default=0)
    samples: dict[str, list[float | None]] = {name: [] for name in names}
    collecting = gc.isenabled()
    gc.disable()
    try:
        for index in range(total):
            first = index % len(names)
            for name in names[first:] + names[:first]:
                if not _takes_part(index, rounds[name], total):
                    samples[name].append(None)
                    continue
                pause(_PAUSE_S)
                if warm[name]:
                    functions[name]()
                samples[name].append(1e3 * _repeat(functions[name], inner[name], clock))
    finally:
        if collecting:
            gc.enable()
    return Measurement(samples)


def quartiles(values: Sequence[float]) -> Timing:
    """Median and quartiles of at least one number."""
    if len(values) == 1:
        return Timing(values[0], values[0], values[0], 1)
    p25, median, p75 = statistics.quantiles(values, n=4, method="inclusive")
    return Timing(median, p25, p75, len(values))


def geometric_mean(values: Sequence[float]) -> float | None:
    """Geometric mean of positive numbers; None of none."""
    return statistics.geometric_mean(values) if values else None


def _rounds(share_s: float, sample_s: float) -> int:
    return max(_MIN_ROUNDS, min(_MAX_ROUNDS, int(share_s / sample_s)))


def _takes_part(index: int, rounds: int, total: int) -> bool:
    """Whether a function with fewer rounds than the total is in round ``index``: they are spread evenly."""
    return (index + 1) * rounds // total > index * rounds // total


def _once(function: Callable[[], Any], clock: Callable[[], float]) -> float:
    start = clock()
    function()
    return clock() - start


def _repeat(function: Callable[[], Any], times: int, clock: Callable[[], float]) -> float:
    """Seconds of one call, averaged over ``times`` calls."""
    start = clock()
    for _ in range(times):
        function()
    return (clock() - start) / times
