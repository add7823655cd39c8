"""From a PrimFunc of blocks to a scheduled CPU kernel of plain loops."""

from __future__ import annotations

from dataclasses import dataclass

from tvm import relax, tirx
from tvm.s_tir import SBlock, SBlockRealize

from tvm_vfuse.device import CpuDevice
from tvm_vfuse.errors import Reject
from tvm_vfuse.graph.blocks import read_kernel
from tvm_vfuse.graph.compose import Program, program_of
from tvm_vfuse.graph.evaluate import evaluate
from tvm_vfuse.graph.indices import new_analyzer
from tvm_vfuse.graph.nodes import Evaluation
from tvm_vfuse.graph.stages import Kernel
from tvm_vfuse.options import FusionOptions
from tvm_vfuse.schedule.cpu_choice import Loops, choose_loops, default_tile
from tvm_vfuse.schedule.cpu_kernel import build_body
from tvm_vfuse.schedule.parking import park
from tvm_vfuse.schedule.strides import collapse
from tvm_vfuse.schedule.tile import TileConfig
from tvm_vfuse.schedule.values import Context
from tvm_vfuse.schedule.vector_math import expand

SCHEDULED = "tirx.is_scheduled"
TEMPLATE = "tvm_vfuse.template"


@dataclass(frozen=True)
class CpuPlan:
    """An evaluated group with its loops and tile."""

    evaluation: Evaluation
    loops: Loops
    tile: TileConfig

    @property
    def scratch(self) -> frozenset[int]:
        """Identities of the nodes that the kernel keeps a row of in memory."""
        return frozenset(park(self.evaluation, self.loops.inner_vars).scratch)

    @property
    def template(self) -> str:
        """Which of the templates the loops are an instance of."""
        if not self.evaluation.reductions:
            return "elementwise"
        if self.loops.lane_in_reduce:
            return "row-reduction"
        return "tiled-reduction" if self.loops.tile is not None else "column-reduction"


def plan_cpu(program: Program, device: CpuDevice, tile: TileConfig | None = None) -> CpuPlan:
    """Evaluate a group and choose its loops.

    Raises
    ------
    Reject
        If the group can't be one kernel.
    """
    evaluation = evaluate(program)
    collapse(evaluation)
    loops = choose_loops(evaluation)
    return CpuPlan(evaluation, loops, tile or default_tile(evaluation, loops, device))


def schedule_cpu(
    func: tirx.PrimFunc, device: CpuDevice, options: FusionOptions, tile: TileConfig | None = None
) -> tirx.PrimFunc:
    """Build the kernel of ``func`` for a CPU.

    Parameters
    ----------
    func : a PrimFunc of blocks, as legalisation and FuseTIR make them
    device : the CPU
    options : numerics and math choose what is emitted
    tile : shape of the kernel; by default from the strides and the vector width

    Returns
    -------
    tirx.PrimFunc
        The same parameters, plain loops, marked ``tirx.is_scheduled``.

    Raises
    ------
    Reject
        If the function is opaque or no template takes it.
    """
    if relax.analysis.has_reshape_pattern(func):
        raise Reject("reshape", "a reshape costs nothing: TVM turns its call into a view")
    kernel = read_kernel(func)
    plan = plan_cpu(program_of(kernel), device, tile)
    return build_cpu(func, kernel, plan, options)


def build_cpu(func: tirx.PrimFunc, kernel: Kernel, plan: CpuPlan, options: FusionOptions) -> tirx.PrimFunc:
    """Emit the loops of a planned kernel."""
    buffers = {t.key: v for v, t in kernel.tensors.items()}
    context = Context(
        buffers=buffers,
        analyzer=new_analyzer(plan.evaluation.program.symbols),
        lane_axis=plan.loops.lane.var,
        expand=expand if options.math == "vector" else None,
        contract=options.numerics == "fast",
    )
    body = build_body(plan.evaluation, plan.loops, plan.tile, context)
    attrs = {k: v for k, v in (func.attrs or {}).items() if k != "op_pattern"}
    root = SBlock([], [], [], "root", body)  # TVM's lowering passes expect a root block
    out = tirx.PrimFunc(list(func.params), SBlockRealize([], True, root), func.ret_type)
    for k, v in attrs.items():
        out = out.with_attr(k, v)
    return out.with_attr(SCHEDULED, True).with_attr("tirx.noalias", True).with_attr(TEMPLATE, plan.template)
