"""What every test may use: skips for missing hardware and packages, and a seeded source of random numbers."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest


def _has_gpu() -> bool:
    import tvm

    return bool(tvm.cuda().exist)


def _has_cuda_compiler() -> bool:
    return importlib.util.find_spec("nvidia.cu13") is not None


def _has_torch() -> bool:
    return importlib.util.find_spec("torch") is not None


NEEDS = {
    "gpu": (_has_gpu, "no NVIDIA GPU here"),
    "cuda_compiler": (_has_cuda_compiler, "the packages of the extra 'cuda' are not installed"),
    "torch": (_has_torch, "PyTorch is not installed"),
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what this machine can't run; each need is looked up once, and only if some test has it."""
    for marker, (is_there, why) in NEEDS.items():
        wanting = [item for item in items if item.get_closest_marker(marker)]
        if wanting and not is_there():
            for item in wanting:
                item.add_marker(pytest.mark.skip(reason=why))


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Random numbers that depend on the test's name alone: the same in every run and in any order."""
    return np.random.default_rng(list(request.node.nodeid.encode()))
