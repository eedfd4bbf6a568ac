"""What an AOTInductor package says of the CPU that it is compiled for, what this CPU has, and how it is set.

A package says how wide its vectors are. AOTInductor's compiler takes `-march=native` beside that: a package without
vectors (INVALID_VEC_ISA) held AVX-512 all the same. So -march is set to the level that the width belongs to; then a
package says all that it needs, and may be refused before it is loaded. A missing instruction ends the process.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from posenc_export.errors import BadInput
from posenc_export.formats import CpuIsa

CPU_ISAS: tuple[CpuIsa, ...] = get_args(CpuIsa)
ISA = "AOTI_CPU_ISA"
NEEDS: Mapping[str, tuple[str, ...]] = {
    "avx512": ("avx512_f", "avx512_bw", "avx512_cd", "avx512_dq", "avx512_vl"),
    "avx2": ("avx2", "fma3", "f16c", "bmi", "bmi2", "lzcnt"),
    "asimd": ("neon",),
    **dict.fromkeys(("invalid_vec_isa", "zvector", "vsx"), ()),
}
"""Sets of instructions as packages name them, and what a CPU has of them as torch names that; others have one name."""
LEVELS: Mapping[CpuIsa, tuple[int, str]] = {
    "avx512": (512, "x86-64-v4"),
    "avx2": (256, "x86-64-v3"),
    "default": (1, "x86-64"),
}
"""The width of AOTInductor's vectors in bits, and the -march of its compiler: no code needs more than it says."""


def metadata(path: Path) -> dict[str, str]:
    """Return what a package says of itself; nothing of it is loaded. Raises RuntimeError for what is no package."""
    import torch

    loader: Any = torch._C._aoti.AOTIModelPackageLoader  # its stub knows less than it has
    said: dict[str, str] = loader.load_metadata_from_package(str(path), "model")
    return said


def cpu_problem(file: str, isa: str, has: Mapping[str, object]) -> str:
    """Return why a CPU cannot run a file that is compiled for instruction sets, and what to do; or nothing.

    isa: AOTI_CPU_ISA of the file. has: what the CPU has, as torch.cpu.get_capabilities() says it.
    """
    needed = isa.lower().split()
    lacking = next((name for name in needed if not _has(name, has)), None)
    if lacking is None:
        return ""
    best = best_of(has)
    here = f"no {lacking}" if best == "default" else f"{best} and no {lacking}"
    made_for = f"{file} is compiled for {' and '.join(needed)}"
    return f"{made_for}, this CPU has {here}: export it with --cpu-isa {best}, or on this machine"


def best_of(has: Mapping[str, object]) -> CpuIsa:
    """Return the best level that a CPU has."""
    return next((level for level in LEVELS if level == "default" or _has(level, has)), "default")


def compiler_settings(wanted: CpuIsa) -> dict[str, object]:
    """Return AOTInductor's settings by which a package needs no more of a CPU than it says.

    Raises BadInput where this CPU, or the torch that is installed, cannot compile for what is wanted.
    """
    import torch
    from torch._inductor import config
    from torch._inductor.cpu_vec_isa import pick_vec_isa

    is_x86, has = platform.machine() in ("x86_64", "AMD64"), torch.cpu.get_capabilities()
    if not (is_x86 and hasattr(config.cpp, "march")):  # torch compiles for the CPU that it runs on
        if wanted == "native":
            return {}
        here = f"this torch is {torch.__version__}" if is_x86 else f"this CPU is {platform.machine()}"
        raise BadInput(f"--cpu-isa {wanted} is for x86-64 and torch 2.13 or newer, {here}: leave it out")
    if wanted == "native":
        isa = str(pick_vec_isa())
        level: CpuIsa = next((name for name in LEVELS if name in isa), "default")
        return {"cpp.march": LEVELS[level][1]}
    if wanted != "default" and not _has(wanted, has):
        best = best_of(has)
        raise BadInput(f"--cpu-isa {wanted} cannot be compiled here, this CPU has {best}: give --cpu-isa {best}")
    width, march = LEVELS[wanted]
    return {"cpp.simdlen": width, "cpp.march": march}


def _has(name: str, has: Mapping[str, object]) -> bool:
    return all(bool(has.get(capability)) for capability in NEEDS.get(name, (name,)))
