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

each_case = pytest.mark.parametrize("case", registry.CASES, ids=lambda case: case.name)
each_target = pytest.mark.parametrize(
    "target_name",
    [
        pytest.param(name, marks=pytest.mark.skipif(name == "haswell" and not HAS_AVX2, reason="this CPU has no AVX2"))
        for name in TARGETS
    ],
)


def check(find_fault: Callable[[Case, str], str | None], case: Case, target_name: str) -> None:
    """Fusion of an isolated case may crash: then it must not take the other tests with it."""
    if case.isolated and find_fault is not unfused_fault:
        command = [sys.executable, "-m", "tests.cases.runner", find_fault.__name__, case.name, target_name]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-4000:]
        assert json.loads(done.stdout)["fault"] is None
    else:
        assert find_fault(case, target_name) is None


def test_names_are_unique():
    names = [case.name for case in registry.CASES]
    assert len(set(names)) == len(names)


@each_target
@each_case
def test_unfused_is_right(case, target_name):
    check(unfused_fault, case, target_name)


@each_target
@each_case
def test_fused_is_right(case, target_name):
    check(fused_fault, case, target_name)


@each_target
@pytest.mark.parametrize("case", [c for c in registry.CASES if c.bitwise], ids=lambda case: case.name)
def test_fused_equals_unfused_bit_for_bit(case, target_name):
    check(bitwise_fault, case, target_name)
