"""Modules beyond one dataflow block: several functions, several blocks, branches."""

from __future__ import annotations

import numpy as np
import tvm
from tvm.script import ir as I
from tvm.script import relax as R

from tests.cases.case import Case
from tests.cases.modules import uniform


def helper_called_twice() -> tvm.IRModule:
    @I.ir_module
    class Shared:
        @R.function(private=True)
        def squash(x: R.Tensor((3, 4), "float32")) -> R.Tensor((3, 4), "float32"):
            with R.dataflow():
                raised = R.add(x, R.const(1.0, "float32"))
                y = R.tanh(raised)
                R.output(y)
            return y

        @R.function
        def after_exp(x: R.Tensor((3, 4), "float32")) -> R.Tensor((3, 4), "float32"):
            cls = Shared
            with R.dataflow():
                power = R.exp(x)
                squashed = cls.squash(power)
                y = R.multiply(squashed, R.const(2.0, "float32"))
                R.output(y)
            return y

        @R.function
        def less_exp(x: R.Tensor((3, 4), "float32")) -> R.Tensor((3, 4), "float32"):
            cls = Shared
            with R.dataflow():
                squashed = cls.squash(x)
                power = R.exp(x)
                y = R.subtract(squashed, power)
                R.output(y)
            return y

    return Shared


def value_crosses_blocks() -> tvm.IRModule:
    @I.ir_module
    class TwoBlocks:
        @R.function
        def main(x: R.Tensor((4, 4), "float32")):
            with R.dataflow():
                size = R.abs(x)
                raised = R.add(size, R.const(1.0, "float32"))
                R.output(size, raised)
            with R.dataflow():
                root = R.sqrt(raised)
                y = R.multiply(root, size)
                R.output(y)
            return (y, size)

    return TwoBlocks


def branches_that_only_reshape() -> tvm.IRModule:
    @I.ir_module
    class Branches:
        @R.function
        def main(x: R.Tensor((4, 8), "float32"), flag: R.Tensor((), "bool")) -> R.Tensor((4, 8), "float32"):
            if flag:
                flat = R.reshape(x, (32,))
                y = R.reshape(flat, (4, 8))
            else:
                turned = R.reshape(x, (8, 4))
                y = R.reshape(turned, (4, 8))
            return y

    return Branches


CASES = [
    Case(
        name="helper_called_by_two_functions",
        source="apache/tvm#14044",
        what="only the first function of a module is fused, or a private helper is fused twice into one name",
        build=helper_called_twice,
        inputs=lambda: [uniform(8, 3, 4)],
        expect=lambda x: [
            np.tanh(np.exp(x) + np.float32(1)) * np.float32(2),
            np.tanh(x + np.float32(1)) - np.exp(x),
        ],
        functions=("after_exp", "less_exp"),
        bitwise=True,
    ),
    Case(
        name="value_crosses_dataflow_blocks",
        source="dataflow block boundary",
        what="a value that leaves its block for the next one, and the function, is taken for an inner one",
        build=value_crosses_blocks,
        inputs=lambda: [uniform(15, 4, 4)],
        expect=lambda x: [np.sqrt(np.abs(x) + np.float32(1)) * np.abs(x), np.abs(x)],
        bitwise=True,
    ),
    Case(
        name="branches_that_only_reshape",
        source="apache/tvm#20191",
        what="both branches give back their input under another shape; memory planning crashes in the second",
        build=branches_that_only_reshape,
        inputs=lambda: [uniform(17, 4, 8), np.array(False)],
        expect=lambda x, flag: [x],
        bitwise=True,
        isolated=True,
        unfused_plans_memory=False,
    ),
]
