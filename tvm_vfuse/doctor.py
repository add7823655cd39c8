"""What this installation has: versions, compilers, devices, and the command that gets what is missing."""

from __future__ import annotations

import ctypes.util
import importlib.metadata
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tvm_vfuse import __version__
from tvm_vfuse.device import cache_bytes, cpu_device, cpu_model, host_target, usable_cores

PINNED = {"apache-tvm": "0.27.0.post1", "apache-tvm-ffi": "0.1.14.post0"}
"""Versions that this package is made for; the same as in pyproject.toml."""


@dataclass(frozen=True)
class Finding:
    """One thing that was looked for.

    Parameters
    ----------
    name : str
    value : str
        What was found, in words.
    remedy : str
        The command that gets what is missing or mends what is wrong; empty where all is well.
    """

    name: str
    value: str
    remedy: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the finding as JSON data."""
        return asdict(self)


def diagnose() -> list[Finding]:
    """Look at everything that the program can use; never raises for what is missing."""
    findings = [
        Finding("tvm-vfuse", __version__),
        Finding("python", f"{platform.python_version()} ({sys.executable})"),
        Finding("system", f"{platform.system()} {platform.machine()}"),
        *(_pinned(name, version) for name, version in PINNED.items()),
        _package("numpy", "numpy", "pip install numpy"),
        _package("xgboost", "xgboost-cpu", "pip install 'xgboost-cpu==3.2.*'", "xgboost"),
        _package("onnx", "onnx", "pip install 'tvm-vfuse[onnx]'  (to read .onnx files)"),
        _package("torch", "torch", "pip install 'tvm-vfuse[torch]'  (to read .pt2 files)"),
    ]
    findings += _tried("LLVM and CPU", _cpu)
    findings.append(_caches())
    findings += [
        _program("C++ compiler", ("g++", "clang++", "c++"), "apt-get install g++  (build links module.so with it)")
    ]
    findings += [*_cuda_compilers(), _gpu()]
    return findings


def _pinned(name: str, wanted: str) -> Finding:
    remedy = f"pip install {name}=={wanted}"
    have = _version(name)
    if have is None:
        return Finding(name, "missing", remedy)
    if have != wanted:
        return Finding(name, f"{have}; this version is made for {wanted}", remedy)
    return Finding(name, f"{have} (the pinned version)")


def _package(name: str, distribution: str, remedy: str, other: str | None = None) -> Finding:
    have = _version(distribution) or (_version(other) if other else None)
    return Finding(name, have) if have else Finding(name, "missing", remedy)


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _tried(name: str, look: Callable[[], list[Finding]]) -> list[Finding]:
    """Findings of ``look``; where TVM does not load, one that says so."""
    try:
        return look()
    except (ImportError, OSError, AttributeError, RuntimeError) as err:
        wanted = " ".join(f"{name}=={version}" for name, version in PINNED.items())
        return [Finding(name, f"TVM does not load: {err}", f"pip install {wanted}")]


def _cpu() -> list[Finding]:
    import tvm

    cpu = cpu_device(host_target())
    llvm = tvm.get_global_func("target.llvm_version_major", allow_missing=True)
    return [
        Finding("LLVM", str(llvm()) if llvm is not None else "missing in TVM"),
        Finding("CPU", f"{cpu_model()}, {cpu.mcpu}, {usable_cores()} cores"),
        Finding("vectors", f"{cpu.vector_bits} bits, {cpu.vector_registers} registers: {' '.join(cpu.features)}"),
    ]


def _caches() -> Finding:
    sizes = cache_bytes()
    text = ", ".join(f"{name} {sizes[name] // 1024} KiB" for name in ("l1d", "l2", "l3") if name in sizes)
    return Finding("caches", text or "not described by the system")


def _program(name: str, candidates: tuple[str, ...], remedy: str) -> Finding:
    for candidate in candidates:
        path = shutil.which(candidate)
        if path is not None:
            return Finding(name, f"{path}: {_first_line([path, '--version'])}")
    return Finding(name, "missing", remedy)


def _cuda_compilers() -> list[Finding]:
    remedy = "pip install 'tvm-vfuse[cuda]'  (compiler for NVIDIA GPUs; not needed for --target llvm)"
    nvcc = shutil.which("nvcc") or _in_wheels("bin/nvcc")
    found = [
        Finding("nvcc", f"{nvcc}: {_last_line([nvcc, '--version'])}") if nvcc else Finding("nvcc", "missing", remedy)
    ]
    nvrtc = ctypes.util.find_library("nvrtc") or _in_wheels("lib/libnvrtc.so*")
    return [*found, Finding("NVRTC", nvrtc) if nvrtc else Finding("NVRTC", "missing", remedy)]


def _in_wheels(pattern: str) -> str | None:
    """Path of a file in NVIDIA's wheels, or None."""
    spec = importlib.util.find_spec("nvidia")
    roots = list(spec.submodule_search_locations or ()) if spec is not None else []
    return next((str(path) for root in roots for path in sorted(Path(root).glob(f"*/{pattern}"))), None)


def _gpu() -> Finding:
    smi = shutil.which("nvidia-smi")
    query = [smi, "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"] if smi else []
    text = _output(query) if query else ""
    return Finding("GPU", "; ".join(text.splitlines()) if text else "none found")


def _first_line(command: list[str]) -> str:
    return next(iter(_output(command).splitlines()), "does not answer")


def _last_line(command: list[str]) -> str:
    return next(reversed(_output(command).splitlines()), "does not answer")


def _output(command: list[str]) -> str:
    """Standard output of a command; empty where it fails."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=20, check=False, env={**os.environ, "LC_ALL": "C"}
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
