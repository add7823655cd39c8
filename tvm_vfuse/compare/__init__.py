"""Compare unfused, stock and our kernels: counts, errors and times."""

from tvm_vfuse.compare.columns import COLUMNS
from tvm_vfuse.compare.record import Kernel, Row
from tvm_vfuse.compare.run import compare_workload

__all__ = ["COLUMNS", "Kernel", "Row", "compare_workload"]
