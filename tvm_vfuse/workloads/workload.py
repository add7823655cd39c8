"""What a workload is: a module to build, inputs to feed it, and where it is simple the result to expect."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import tvm


@dataclass(frozen=True)
class Workload:
    """One input of the program: a built-in graph or a file.

    Parameters
    ----------
    name : str
        The built-in's name, or the file's.
    description : str
        One line for people.
    shapes : str
        Shapes of the inputs as text, for example ``"x 4096x2048, mask 4096x2048"``.
    dtype : str
        dtype of the floating-point tensors (of the inputs, where they differ).
    builder : callable
        Makes the Relax module. TVM is imported inside it, never before.
    sampler : callable
        seed -> inputs of ``main``, in order.
    oracle : callable or None
        inputs -> outputs computed in float64 by NumPy; None where there is none.
    memory_bound : bool
        Whether memory traffic, not arithmetic, is what costs.
    tags : tuple of str
        For choosing among workloads, for example ``"pattern"`` or ``"network"``.
    notes : tuple of str
        What was assumed about the input (a symbolic dimension's value, say); to be shown to the user.
    """

    name: str
    description: str
    shapes: str
    dtype: str
    builder: Callable[[], tvm.IRModule]
    sampler: Callable[[int], list[np.ndarray]]
    oracle: Callable[[list[np.ndarray]], list[np.ndarray]] | None = None
    memory_bound: bool = True
    tags: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def build(self) -> tvm.IRModule:
        """Make the module: high-level Relax operators, one public function ``main``, weights bound as constants."""
        return self.builder()

    def inputs(self, seed: int = 0) -> list[np.ndarray]:
        """Sample the inputs of ``main``; the same seed gives the same values on every machine."""
        return self.sampler(seed)

    def reference(self, inputs: list[np.ndarray]) -> list[np.ndarray] | None:
        """Compute the outputs for `inputs` in float64 (integers stay integers), or None where there is no reference."""
        return None if self.oracle is None else self.oracle(inputs)
