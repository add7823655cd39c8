"""A workload before its sizes and dtype are chosen."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from tvm_vfuse.errors import InputError
from tvm_vfuse.workloads.ops import Value, seeded_weights
from tvm_vfuse.workloads.tensors import FLOATS, TensorSpec, sample, shape_text
from tvm_vfuse.workloads.workload import Workload

Sizes = tuple[int, ...]


@dataclass(frozen=True)
class Template:
    """A graph over sizes, with the sizes that are used by name.

    Parameters
    ----------
    name, description : str
        As in `Workload`.
    dims : tuple of str
        What each size is, for example ``("rows", "columns")``; empty where the graph's sizes are fixed.
    sizes : mapping of str to sizes
        Named sizes; ``default`` is one of them.
    inputs : callable
        sizes -> the parameters of ``main``.
    graph : callable
        (ops, sizes, *inputs) -> outputs.
    memory_bound : bool
        As in `Workload`.
    tags : tuple of str
        As in `Workload`.
    dtypes : tuple of str
        Allowed dtypes, the default first.
    check : callable or None
        sizes -> what is wrong with them, or None.
    """

    name: str
    description: str
    dims: tuple[str, ...]
    sizes: Mapping[str, Sizes]
    inputs: Callable[[Sizes], Sequence[TensorSpec]]
    graph: Callable[..., Sequence[Value]]
    memory_bound: bool = True
    tags: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = FLOATS
    check: Callable[[Sizes], str | None] | None = None

    def renamed(self, name: str, description: str = "", **changes: Any) -> Template:
        """The same graph under another name (its weights change with the name)."""
        return replace(self, name=name, description=description or self.description, **changes)

    def workload(self, sizes: Sizes | None = None, dtype: str | None = None) -> Workload:
        """Choose sizes and dtype.

        Parameters
        ----------
        sizes : tuple of int or None
            One for each of `dims`; None: the default.
        dtype : str or None
            One of `dtypes`; None: the first.

        Raises
        ------
        InputError
            Where the number of sizes, a size or the dtype can't be had.
        """
        chosen = self.sizes["default"] if sizes is None else sizes
        kind = dtype or self.dtypes[0]
        self._verify(chosen, kind)
        specs = tuple(self.inputs(chosen))
        graph = partial(_at_sizes, self.graph, chosen)
        weights = seeded_weights(self.name)

        def build() -> Any:
            from tvm_vfuse.workloads.relax_ops import build_module

            return build_module(graph, specs, kind, weights)

        def reference(arrays: list[np.ndarray]) -> list[np.ndarray]:
            from tvm_vfuse.workloads.numpy_ops import evaluate

            return evaluate(graph, kind, weights, arrays)

        return Workload(
            name=self.name,
            description=self.description,
            shapes=", ".join(f"{s.name} {shape_text((*s.symbolic, *s.shape[len(s.symbolic) :]))}" for s in specs),
            dtype=kind,
            builder=build,
            sampler=partial(sample, specs, kind, self.name),
            oracle=reference,
            memory_bound=self.memory_bound,
            tags=self.tags,
            notes=_symbol_notes(specs),
        )

    def _verify(self, sizes: Sizes, dtype: str) -> None:
        example = shape_text(self.sizes["default"])
        if len(sizes) != len(self.dims):
            wanted = f"{' x '.join(self.dims)}, such as {self.name}:{example}" if self.dims else "none"
            raise InputError(
                f"{self.name}: {shape_text(sizes)} has {len(sizes)} sizes, not {len(self.dims)} ({wanted})"
            )
        for dim, size in zip(self.dims, sizes, strict=True):
            if size < 1:
                raise InputError(f"{self.name}: {dim} is {size}; sizes start at 1, such as {self.name}:{example}")
        if dtype not in self.dtypes:
            raise InputError(f"{self.name}: dtype {dtype} is not one of {', '.join(self.dtypes)}")
        problem = self.check(sizes) if self.check else None
        if problem:
            raise InputError(f"{self.name}: {problem}; the default is {self.name}:{example}")


def _at_sizes(graph: Callable[..., Sequence[Value]], sizes: Sizes, ops: Any, *inputs: Value) -> Sequence[Value]:
    return graph(ops, sizes, *inputs)


def _symbol_notes(specs: Sequence[TensorSpec]) -> tuple[str, ...]:
    values = {name: spec.shape[i] for spec in specs for i, name in enumerate(spec.symbolic)}
    return tuple(f"symbolic dimension {name} is sampled as {value}" for name, value in values.items())


def same_shape(*names: str, **changes: Any) -> Callable[[Sizes], list[TensorSpec]]:
    """Inputs that all have the workload's sizes for shape."""

    def specs(sizes: Sizes) -> list[TensorSpec]:
        return [TensorSpec(name, sizes, **changes) for name in names]

    return specs
