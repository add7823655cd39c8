"""Puts the stages of several kernels together as one group, without building anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import tvm
from tvm.ir import Var

from tvm_vfuse.errors import Reject
from tvm_vfuse.graph.indices import const_int, free_vars, promote, substitute
from tvm_vfuse.graph.stages import Joint, Kernel, Stage, Tensor

Expr: TypeAlias = tvm.ir.Expr


@dataclass(frozen=True)
class Member:
    """One operator of a group: its kernel and, for each buffer parameter, the group's tensor."""

    kernel: Kernel
    arguments: tuple[Tensor, ...]
    scalars: tuple[Expr, ...] = ()


@dataclass(frozen=True)
class Program:
    """The stages of a group in execution order, with the group's boundary.

    Invariant: every stage reads inputs or outputs of earlier stages only.
    """

    stages: tuple[Stage, ...]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    symbols: tuple[Var, ...]

    def producer(self) -> Mapping[int, Stage]:
        """The stage that makes each tensor, by the tensor's key."""
        return {s.output.key: s for s in self.stages}


def program_of(kernel: Kernel) -> Program:
    """The program of a kernel that stands alone."""
    return Program(kernel.stages, kernel.inputs, kernel.outputs, _symbols(kernel.stages))


def compose(members: Sequence[Member], outputs: Sequence[Tensor]) -> Program:
    """One program out of the members' kernels.

    Parameters
    ----------
    members : in execution order
    outputs : tensors that somebody outside reads

    Raises
    ------
    Reject
        If a dynamic kernel's shapes can't be matched with its arguments'.
    """
    stages: list[Stage] = []
    written: set[int] = set()
    inputs: dict[int, Tensor] = {}
    fresh = 1 + max((t.key for m in members for t in m.arguments), default=0)
    for number, m in enumerate(members):
        mapped: dict[int, Tensor] = {}
        env: dict[Var, Expr] = dict(zip(m.kernel.scalars, m.scalars, strict=True))
        for mine, theirs in zip(m.kernel.parameters, m.arguments, strict=True):
            mapped[mine.key] = theirs
            _match_shape(mine, theirs, env)
        joints: dict[int, Joint] = {}
        for s in m.kernel.stages:
            for t in (s.output, *s.reads.values(), *(s.joint.outputs if s.joint else ())):
                if t.key not in mapped:
                    shape = tuple(promote(d, env) for d in t.shape)
                    mapped[t.key] = Tensor(fresh, t.name, shape, t.dtype)
                    fresh += 1
            joint = None if s.joint is None else joints.setdefault(id(s.joint), _rename_joint(s.joint, mapped, env))
            stages.append(replace(_rename(s, mapped, env, number), joint=joint))
            for t in stages[-1].reads.values():
                if t.key not in written:
                    inputs.setdefault(t.key, t)
            written.add(stages[-1].output.key)
    return Program(tuple(stages), tuple(inputs.values()), tuple(outputs), _symbols(stages))


def _rename(stage: Stage, mapped: Mapping[int, Tensor], env: Mapping[Var, Expr], member: int) -> Stage:
    reads = {v: mapped[t.key] for v, t in stage.reads.items()}
    out = replace(stage, output=mapped[stage.output.key], reads=reads, member=member)
    if not env:
        return out
    return replace(
        out,
        element=substitute(stage.element, env),
        indices=tuple(substitute(i, env) for i in stage.indices),
        init=None if stage.init is None else substitute(stage.init, env),
        spatial=tuple((v, promote(e, env)) for v, e in stage.spatial),
        reduce=tuple((v, promote(e, env)) for v, e in stage.reduce),
    )


def _rename_joint(joint: Joint, mapped: Mapping[int, Tensor], env: Mapping[Var, Expr]) -> Joint:
    if env and any(free_vars(e) & set(env) for e in joint.elements):
        raise Reject("opaque", "a joint reduction depends on a shape symbol")
    return replace(joint, outputs=tuple(mapped[t.key] for t in joint.outputs))


def _match_shape(mine: Tensor, theirs: Tensor, env: dict[Var, Expr]) -> None:
    """Bind the kernel's shape symbols to the argument's extents (in ``env``); constant extents must agree."""
    fits = len(mine.shape) == len(theirs.shape) and mine.dtype == theirs.dtype
    for a, b in zip(mine.shape, theirs.shape, strict=False):
        if isinstance(a, Var):
            env.setdefault(a, b)
        elif const_int(a) is not None:
            fits &= const_int(a) == const_int(b)  # a dynamic argument of a static kernel does not fit either
    if not fits:
        raise Reject("shape-mismatch", f"{mine.name} is declared {_show(mine)}, the argument is {_show(theirs)}")


def _show(t: Tensor) -> str:
    return f"{t.dtype}[{', '.join(str(s) for s in t.shape)}]"


def _symbols(stages: Sequence[Stage]) -> tuple[Var, ...]:
    found: dict[Var, None] = {}
    for s in stages:
        axes = {v for v, _ in (*s.spatial, *s.reduce)}
        for t in (s.output, *s.reads.values()):
            for d in t.shape:
                found.update(dict.fromkeys(sorted(free_vars(d), key=lambda v: v.name)))
        for _, e in (*s.spatial, *s.reduce):
            found.update(dict.fromkeys(v for v in sorted(free_vars(e), key=lambda v: v.name) if v not in axes))
    return tuple(found)
