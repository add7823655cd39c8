"""Builds the body of a CPU kernel from an evaluated group: by rows, by columns, or by small staged tiles."""

from __future__ import annotations

from tvm import tirx

from tvm_vfuse.graph.nodes import Evaluation
from tvm_vfuse.schedule.cpu_choice import Loops
from tvm_vfuse.schedule.cpu_columns import Columns
from tvm_vfuse.schedule.cpu_loops import LoopWriter
from tvm_vfuse.schedule.cpu_rows import build_rows
from tvm_vfuse.schedule.cpu_transpose import build_tiles, find_transposed
from tvm_vfuse.schedule.levels import Levels
from tvm_vfuse.schedule.tile import TileConfig
from tvm_vfuse.schedule.values import Context


def build_body(evaluation: Evaluation, loops: Loops, tile: TileConfig, context: Context) -> tirx.Stmt:
    """The kernel's loops, its registers allocated inside them."""
    levels = Levels(evaluation, loops, context)
    writer = LoopWriter(context, tile, evaluation.placement)
    transposed = find_transposed(evaluation, loops)
    if transposed is not None:
        return build_tiles(levels, writer, transposed)
    if loops.lane_in_reduce:
        return build_rows(levels, writer, tile)
    return Columns(levels, writer, tile).build()
