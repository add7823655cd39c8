"""Inputs that other compilers got wrong: right without fusion, right with it, on every CPU target."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cases import registry
from tests.cases.case import Case
from tests.cases.runner import TARGETS, bitwise_fault, fused_fault, unfused_fault

HAS_AVX2 = "avx2" in Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else False
ROOT = Path(__file__).parents[2]

each_target = pytest.mark.parametrize(
    "target_name",
    [
        pytest.param(name, marks=pytest.mark.skipif(name == "haswell" and not HAS_AVX2, reason="this CPU has no AVX2"))
        for name in TARGETS
    ],
)


def each_case(*, is_wanted: Callable[[Case], bool]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", [*filter(is_wanted, registry.CASES)], ids=lambda case: case.name)


def test_names_are_unique():
    names = [case.name for case in registry.CASES]
    assert len(set(names)) == len(names)


@each_target
@each_case(is_wanted=lambda case: True)
def test_unfused_is_right(case, target_name):
    assert unfused_fault(case, target_name) is None


@each_target
@each_case(is_wanted=lambda case: not case.isolated)
def test_fused_is_right(case, target_name):
    assert fused_fault(case, target_name) is None


@each_target
@each_case(is_wanted=lambda case: case.bitwise and not case.isolated)
def test_fused_equals_unfused_bit_for_bit(case, target_name):
    assert bitwise_fault(case, target_name) is None


@each_case(is_wanted=lambda case: case.isolated)
def test_case_that_may_crash_is_right_when_fused(case):
    targets = [name for name in TARGETS if name != "haswell" or HAS_AVX2]
    command = [sys.executable, "-m", "tests.cases.runner", case.name, *targets]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    checks = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, f"crashed after {checks}:\n{done.stderr[-4000:]}"
    assert [check for check in checks if check[2] is not None] == []
    assert len(checks) == len(targets) * (2 if case.bitwise else 1)
