"""Devices: what a target names, and what is known of the CPU it means (every number with its source)."""

from __future__ import annotations

import difflib
import json
import os
import platform
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tvm_vfuse.errors import InputError

SYSFS_CACHE = Path("/sys/devices/system/cpu/cpu0/cache")
CPUINFO = Path("/proc/cpuinfo")

# Instruction sets that generated code may use; the others (paging, crypto, tuning hints) never decide whether it runs.
_COMPUTE_FEATURE = re.compile(r"(sse|ssse|avx|fma|f16c|bmi|popcnt|lzcnt|amx|neon|sve|sme|fullfp16|dotprod|i8mm|bf16)")
# Widest first: (feature, bits of a vector register, number of registers). Source: the instruction sets' manuals.
_VECTOR_SETS = (("avx512f", 512, 32), ("avx", 256, 16), ("sse2", 128, 16), ("neon", 128, 32))


@dataclass(frozen=True)
class CpuDevice:
    """A CPU as a target for kernels.

    Parameters
    ----------
    model : str
        What the system calls it.
    mcpu : str
        LLVM's name of the processor.
    cores : int
        Cores that this process may run on.
    vector_bits : int
        Bits of the widest vector register; 64 where there is none.
    vector_registers : int
        Number of architectural vector registers.
    features : tuple of str
        Instruction sets that code for it may use, sorted.
    l1d_bytes, l2_bytes, l3_bytes, line_bytes : int or None
        Cache sizes in bytes (L3 is the whole shared cache); None where the system does not tell.
    sources : tuple of (str, str)
        Where each of these facts was read.
    """

    model: str
    mcpu: str
    cores: int
    vector_bits: int
    vector_registers: int
    features: tuple[str, ...]
    l1d_bytes: int | None
    l2_bytes: int | None
    l3_bytes: int | None
    line_bytes: int | None
    sources: tuple[tuple[str, str], ...]

    def lanes(self, element_bits: int) -> int:
        """Elements of ``element_bits`` bits that one vector register holds, at least 1."""
        return max(1, self.vector_bits // element_bits)


def usable_cores() -> int:
    """Cores that this process may run on (its CPU affinity)."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def vector_set(features: Iterable[str]) -> tuple[int, int]:
    """Register bits and register count of the widest vector set among ``features``; (64, 16) where there is none."""
    have = set(features)
    return next(((bits, count) for name, bits, count in _VECTOR_SETS if name in have), (64, 16))


def cache_bytes(root: Path = SYSFS_CACHE) -> dict[str, int]:
    """Sizes in bytes of the data caches that Linux describes under ``root``.

    Returns
    -------
    dict
        Keys ``l1d``, ``l2``, ``l3`` and ``line``; a cache that is not described is absent.
    """
    found: dict[str, int] = {}
    for index in sorted(root.glob("index*")):
        try:
            level, kind = int(_text(index / "level")), _text(index / "type")
            size = _size(_text(index / "size"))
            if kind in ("Data", "Unified"):
                found["l1d" if level == 1 else f"l{level}"] = size
                found.setdefault("line", int(_text(index / "coherency_line_size")))
        except (OSError, ValueError):
            continue
    return found


def cpu_model(path: Path = CPUINFO) -> str:
    """The processor's name as the system gives it."""
    try:
        match = re.search(r"^model name\s*:\s*(.+)$", path.read_text(errors="replace"), re.MULTILINE)
    except OSError:
        match = None
    return match.group(1).strip() if match else platform.processor() or platform.machine()


def cpu_device(target: Any) -> CpuDevice:
    """Describe the CPU that an LLVM target means.

    Parameters
    ----------
    target : tvm.target.Target
        A target of kind ``llvm``.

    Returns
    -------
    CpuDevice
        Vector facts come from LLVM's features of the target; caches from this machine if the target runs here.
    """
    features = target_features(target)
    bits, registers = vector_set(features)
    here = runs_here(target)
    caches = cache_bytes() if here else {}
    mcpu = str(target.attrs.get("mcpu", "generic"))
    sources = [("features, vector_bits, vector_registers", f"LLVM's feature table for {mcpu}")]
    if here:
        sources += [("cores", "the process's CPU affinity"), ("model", str(CPUINFO)), ("caches", str(SYSFS_CACHE))]
    return CpuDevice(
        model=cpu_model() if here else mcpu,
        mcpu=mcpu,
        cores=int(target.attrs.get("num-cores", 0)) or (usable_cores() if here else 1),
        vector_bits=bits,
        vector_registers=registers,
        features=tuple(sorted(f for f in features if _COMPUTE_FEATURE.match(f))),
        l1d_bytes=caches.get("l1d"),
        l2_bytes=caches.get("l2"),
        l3_bytes=caches.get("l3"),
        line_bytes=caches.get("line"),
        sources=tuple(sources),
    )


# ------------------------------------------------------------------------------------------------------------ targets
def parse_target(text: str = "llvm") -> Any:
    """Turn the text of ``--target`` into a TVM target.

    Parameters
    ----------
    text : str
        ``llvm`` (this CPU), or a TVM target as JSON such as ``{"kind": "llvm", "mcpu": "skylake-avx512"}``.

    Returns
    -------
    tvm.target.Target

    Raises
    ------
    InputError
        If the text names no target, names a processor that LLVM does not know, or a kind that is not built.
    """
    text = text.strip()
    if text == "llvm":
        return host_target()
    if text.startswith("{"):
        return _target_of_config(_json_config(text))
    if text.startswith(("cuda", "nvidia/")):
        raise InputError(_NO_CUDA)
    raise InputError(
        f'target {text!r} is unknown; use llvm, or a TVM target as JSON such as {{"kind": "llvm", "mcpu": "znver3"}}'
    )


_NO_CUDA = "CUDA kernels are not built by this version; use --target llvm"


def host_target() -> Any:
    """Return the LLVM target of this CPU: its own name, its cores, and no instruction set that it lacks."""
    import tvm

    config: dict[str, Any] = {"kind": "llvm", "num-cores": usable_cores()}
    mcpu = tvm.get_global_func("target.llvm_get_system_cpu", allow_missing=True)
    if mcpu is not None:
        config["mcpu"] = str(mcpu())
    target = tvm.target.Target(config)
    missing = _missing_here(target)
    if missing:
        target = tvm.target.Target({**config, "mattr": [f"-{name}" for name in missing]})
    return target


def runs_here(target: Any) -> bool:
    """Whether code for ``target`` runs on this machine: an LLVM CPU target of its architecture and instruction sets."""
    if target.kind.name != "llvm":
        return False
    triple = str(target.attrs.get("mtriple", ""))
    if triple and _architecture(triple) != _architecture(platform.machine()):
        return False
    return not _missing_here(target)


def target_features(target: Any) -> frozenset[str]:
    """Return the features that LLVM gives the target's processor."""
    import tvm

    return frozenset(str(name) for name in tvm.target.codegen.llvm_get_cpu_features(target))


def _missing_here(target: Any) -> list[str]:
    """Instruction sets of the target that this CPU does not have; empty where LLVM can't tell."""
    import tvm

    host = tvm.get_global_func("tvm.codegen.llvm.GetHostCPUFeatures", allow_missing=True)
    have = {str(name): bool(on) for name, on in host().items()} if host is not None else {}
    if not have:
        return []
    return sorted(f for f in target_features(target) if _COMPUTE_FEATURE.match(f) and not have.get(f, False))


def _json_config(text: str) -> dict[str, Any]:
    try:
        config = json.loads(text)
    except json.JSONDecodeError as err:
        raise InputError(f"target is not valid JSON: {err}") from None
    if not isinstance(config.get("kind"), str):
        raise InputError('target as JSON needs "kind", for example {"kind": "llvm"}')
    return dict(config)


def _target_of_config(config: dict[str, Any]) -> Any:
    """Build and check the target of a JSON object; LLVM itself crashes on a triple that it does not know."""
    import tvm

    kind = config["kind"]
    if kind == "cuda":
        raise InputError(_NO_CUDA)
    if kind != "llvm":
        raise InputError(f"target kind {kind!r} is not built by this version; use llvm")
    known = [str(name) for name in tvm.target.codegen.llvm_get_targets()]
    triple = config.get("mtriple")
    if triple is not None and (not isinstance(triple, str) or _architecture(triple) not in map(_architecture, known)):
        raise InputError(f"target: mtriple {triple!r} names no architecture of this LLVM; one of {', '.join(known)}")
    try:
        target = tvm.target.Target(config)
    except (ValueError, TypeError, RuntimeError) as err:
        raise InputError(f"target: {_first_sentence(err)}") from None
    mcpu = config.get("mcpu")
    if mcpu is not None:
        family = tvm.target.Target({k: v for k, v in config.items() if k not in ("mcpu", "mattr")})
        names = sorted(str(name) for name in tvm.target.codegen.llvm_get_cpu_archlist(family))
        if mcpu not in names:
            near = difflib.get_close_matches(mcpu, names, n=5, cutoff=0.0)
            raise InputError(f"target: LLVM does not know the processor {mcpu!r}; did you mean {', '.join(near)}?")
    return target


def _architecture(triple: str) -> str:
    """Architecture part of a triple, with its other names made one."""
    name = triple.split("-")[0].lower()
    return {"amd64": "x86_64", "arm64": "aarch64", "i686": "i386", "i586": "i386"}.get(name, name)


def _first_sentence(err: Exception) -> str:
    lines = [line.strip() for line in str(err).splitlines() if line.strip()]
    return lines[0] if lines else type(err).__name__


def _text(path: Path) -> str:
    return path.read_text().strip()


def _size(text: str) -> int:
    """Bytes of a sysfs size such as ``32K``."""
    unit = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1:], 1)
    return int(text.rstrip("KMG")) * unit
