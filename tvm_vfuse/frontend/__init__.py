"""From files and names to workloads."""

from tvm_vfuse.frontend.load import load
from tvm_vfuse.frontend.real_models import REAL_MODELS, RealModel, locate

__all__ = ["REAL_MODELS", "RealModel", "load", "locate"]
