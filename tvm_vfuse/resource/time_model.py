"""Predicted time of a group: launch + the larger of traffic and arithmetic, with a little of the smaller.

The partition depends on the ratios of these numbers only; they are stated so that a report can be checked.
"""

from __future__ import annotations

from dataclasses import dataclass

# Share of the shorter of compute and memory that hides behind the longer (XLA's GPU model, read in its source).
OVERLAP = 0.95


@dataclass(frozen=True)
class Machine:
    """What the time model needs of a device.

    Attributes
    ----------
    bytes_per_us : memory bandwidth in B/us
    vector_ops_per_us : element operations per us over all cores
    launch_us : time of one kernel call in us
    source : where the numbers come from
    """

    bytes_per_us: float
    vector_ops_per_us: float
    launch_us: float
    source: str

    def time_us(self, num_bytes: float, vector_ops: float, kernels: int = 1) -> float:
        """Predicted time in us of ``kernels`` kernels that move ``num_bytes`` and do ``vector_ops``."""
        memory, compute = num_bytes / self.bytes_per_us, vector_ops / self.vector_ops_per_us
        return kernels * self.launch_us + memory + compute - OVERLAP * min(memory, compute)


def cpu_machine(cores: int, vector_bits: int) -> Machine:
    """A CPU of ``cores`` cores with vectors of ``vector_bits`` bits.

    Bandwidth 10 GB/s a core and a call of 3 us: measured on an EPYC (Zen 3) with two cores (copy 10-12 GB/s a core,
    parallel launch 2.4-21 us). Arithmetic: one vector operation a cycle at 2.5 GHz on 32-bit elements.
    """
    lanes = max(1, vector_bits // 32)
    return Machine(
        10e3 * cores, 2.5e3 * lanes * cores, 3.0, "measured on a two-core EPYC (Zen 3); see docs/architecture.md"
    )
