"""Built-in inputs: published and benchmark workloads, fusion patterns, networks."""

from tvm_vfuse.workloads.registry import all_workloads, find, nearest, templates, unknown_name
from tvm_vfuse.workloads.workload import Workload

__all__ = ["Workload", "all_workloads", "find", "nearest", "templates", "unknown_name"]
