"""Networks exported from PyTorch, fused and unfused, against PyTorch's own result."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

from tests.workloads.execution import error, fused, run, unfused
from tvm_vfuse.frontend.module_workload import workload_of
from tvm_vfuse.frontend.torch_file import import_program

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch
TOLERANCE = 2e-5


class LastStep(torch.nn.Module):
    """An LSTM over a sequence, and a head on its last step."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = torch.nn.LSTM(12, 16, batch_first=True)
        self.head = torch.nn.Linear(16, 3)

    def forward(self, x: Any) -> Any:
        every, _ = self.lstm(x)
        return self.head(every[:, -1]), every


def cnn() -> Any:
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1),
        torch.nn.BatchNorm2d(8),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(8, 16, 3, padding=1, stride=2),
        torch.nn.BatchNorm2d(16),
        torch.nn.SiLU(),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(16, 10),
    )


def mlp() -> Any:
    return torch.nn.Sequential(
        torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.LayerNorm(32), torch.nn.Linear(32, 5), torch.nn.Softmax(-1)
    )


def encoder_layer() -> Any:
    return torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, activation="gelu")


NETWORKS = {
    "cnn": (cnn, (2, 3, 17, 13)),
    "mlp": (mlp, (7, 16)),
    "encoder_layer": (encoder_layer, (2, 11, 32)),
    "lstm": (LastStep, (2, 5, 12)),
}


@functools.cache
def exported(name: str) -> tuple[Any, np.ndarray, list[np.ndarray]]:
    """The imported module, an input, and PyTorch's outputs for it; batch norms carry non-trivial statistics."""
    make, shape = NETWORKS[name]
    torch.manual_seed(11)
    network = make()
    with torch.no_grad():
        network(torch.randn(*shape) * 2 + 1)
        network.eval()
        x = torch.randn(*shape)
        outputs = network(x)
    program = torch.export.export(network, (x,))
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    imported = workload_of(import_program(program, name), name, "from PyTorch")
    return imported.build(), x.numpy(), [t.numpy() for t in outputs]


@pytest.mark.parametrize("passes", [fused, unfused])
@pytest.mark.parametrize("name", NETWORKS)
def test_exported_network_equals_torch(name, passes):
    mod, x, expected = exported(name)
    assert error(run(mod, [x], passes), expected) < TOLERANCE


@pytest.mark.parametrize("name", NETWORKS)
def test_weights_are_bound(name):
    mod, _, _ = exported(name)
    assert len(mod["main"].params) == 1
