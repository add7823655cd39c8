"""The parts that decide import without TVM: their tests take milliseconds, and TVM's names stay out of them."""

from __future__ import annotations

import subprocess
import sys

import pytest

FREE_OF_TVM = ["errors", "options", "graph.model", "legality", "resource", "plan"]


@pytest.mark.parametrize("name", FREE_OF_TVM)
def test_a_deciding_layer_imports_without_loading_tvm(name):
    program = f"import sys, tvm_vfuse.{name}; sys.exit('tvm' in sys.modules or 'tvm_ffi' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr or f"tvm_vfuse.{name} loads TVM"
