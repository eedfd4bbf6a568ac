"""The CPU that an AOTInductor package is compiled for, and the CPU that it runs on.

A package says how wide its vectors are, but AOTInductor compiles with `-march=native` whatever the width: a package
without vectors (INVALID_VEC_ISA) contained AVX-512. So -march is set to the level of the width; then a package says
everything that it needs, and can be refused before it is loaded. A missing instruction would end the process.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from posenc_export.common.errors import BadInput
from posenc_export.write.formats import CpuIsa

CPU_ISAS: tuple[CpuIsa, ...] = get_args(CpuIsa)
ISA = "AOTI_CPU_ISA"
NEEDS: Mapping[str, tuple[str, ...]] = {
    "avx512": ("avx512_f", "avx512_bw", "avx512_cd", "avx512_dq", "avx512_vl"),
    "avx2": ("avx2", "fma3", "f16c", "bmi", "bmi2", "lzcnt"),
    "asimd": ("neon",),
    **dict.fromkeys(("invalid_vec_isa", "zvector", "vsx"), ()),
}
"""Instruction sets as packages name them, with torch's names for their parts; for any other set the names agree."""
LEVELS: Mapping[CpuIsa, tuple[int, str]] = {
    "avx512": (512, "x86-64-v4"),
    "avx2": (256, "x86-64-v3"),
    "default": (1, "x86-64"),
}
"""The width of AOTInductor's vectors in bits, and the -march of its compiler: no code needs more than it says."""


def metadata(path: Path) -> dict[str, str]:
    """Return what a package says of itself, without loading it; raise RuntimeError where it is not a package."""
    import torch

    loader: Any = torch._C._aoti.AOTIModelPackageLoader  # its stub knows less than it has
    entries: dict[str, str] = loader.load_metadata_from_package(str(path), "model")
    return entries


def cpu_problem(file: str, isa: str, has: Mapping[str, object]) -> str:
    """Return why a CPU cannot run a compiled file, and what to do; "" where it can.

    Args:
        file: Its name.
        isa: AOTI_CPU_ISA of the file.
        has: The CPU's instruction sets, as torch.cpu.get_capabilities() gives them.
    """
    needed = isa.lower().split()
    # the first that the CPU lacks is named
    lacking = next((name for name in needed if not _has(name, has)), None)
    if lacking is None:
        return ""
    best = best_of(has)
    available = f"no {lacking}" if best == "default" else f"{best} and no {lacking}"
    made_for = f"{file} is compiled for {' and '.join(needed)}"
    return f"{made_for}, this CPU has {available}: export it with --cpu-isa {best}, or on this machine"


def best_of(has: Mapping[str, object]) -> CpuIsa:
    """Return the best level that a CPU has."""
    return next((level for level in LEVELS if level == "default" or _has(level, has)), "default")


def compiler_settings(cpu_isa: CpuIsa) -> dict[str, object]:
    """Return AOTInductor's settings by which a package needs no more of a CPU than it says.

    Raises BadInput where this CPU, or the installed torch, cannot compile for it.
    """
    import torch
    from torch._inductor import config
    from torch._inductor.cpu_vec_isa import pick_vec_isa

    is_x86, has = platform.machine() in ("x86_64", "AMD64"), torch.cpu.get_capabilities()
    if not (is_x86 and hasattr(config.cpp, "march")):  # torch compiles for the CPU that it runs on
        if cpu_isa == "native":
            return {}
        reason = f"this torch is {torch.__version__}" if is_x86 else f"this CPU is {platform.machine()}"
        raise BadInput(f"--cpu-isa {cpu_isa} is for x86-64 and torch 2.13 or newer, {reason}: leave it out")
    if cpu_isa == "native":
        isa = str(pick_vec_isa())
        level: CpuIsa = next((name for name in LEVELS if name in isa), "default")
        return {"cpp.march": LEVELS[level][1]}
    if cpu_isa != "default" and not _has(cpu_isa, has):
        best = best_of(has)
        raise BadInput(f"--cpu-isa {cpu_isa} cannot be compiled here, this CPU has {best}: give --cpu-isa {best}")
    width, march = LEVELS[cpu_isa]
    return {"cpp.simdlen": width, "cpp.march": march}


def _has(name: str, has: Mapping[str, object]) -> bool:
    return all(bool(has.get(capability)) for capability in NEEDS.get(name, (name,)))
