"""AOTInductor packages and the CPU: refused in words where it lacks their instructions, compiled for a lower one."""

import json
import platform
import re
import subprocess
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from helpers.combinations import run
from helpers.cpp_tools import compiled, compiler
from helpers.hostile import add
from helpers.shared import need
from posenc.spec import Spec
from posenc_export.bundle.folder import Bundle
from posenc_export.common.errors import BadInput
from posenc_export.proof.exporter.options import ExportOptions, check_options
from posenc_export.proof.judging.verdict import worst
from posenc_export.proof.runtimes import RUNTIMES, Missing, RunFailed
from posenc_export.proof.runtimes.cpp import TORCH, started
from posenc_export.write.formats.aoti_package import NEEDS, compiler_settings, cpu_problem
from posenc_export.write.formats.exported_program import AOTI

AVX2 = dict.fromkeys(NEEDS["avx2"], True)
AVX512 = {**AVX2, **dict.fromkeys(NEEDS["avx512"], True)}
X86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="of x86-64")


@pytest.mark.parametrize(
    ("isa", "has", "text"),
    [
        ("INVALID_VEC_ISA", {}, ""),
        ("", {}, ""),
        ("AVX2", AVX2, ""),
        ("AVX512 AVX512_VNNI", {**AVX512, "avx512_vnni": True}, ""),
        ("ASIMD", {"neon": True}, ""),
        (
            "AVX2",
            {**AVX2, "fma3": False},
            "f is compiled for avx2, this CPU has no avx2: export it with --cpu-isa default",
        ),
        (
            "AVX512 AVX512_VNNI",
            AVX2,
            "f is compiled for avx512 and avx512_vnni, this CPU has avx2 and no avx512: export it with --cpu-isa avx2",
        ),
        ("AVX512 AVX512_VNNI", AVX512, "has avx512 and no avx512_vnni: export it with --cpu-isa avx512"),
        ("AVX512 AVX10_9", AVX512, "no avx10_9: export it with --cpu-isa avx512"),
        ("ASIMD", AVX2, "no asimd"),
    ],
)
def test_what_a_cpu_lacks_is_said_in_words(isa: str, has: Mapping[str, object], text: str) -> None:
    problem = cpu_problem("f", isa, has)
    assert text in problem
    assert bool(text) == bool(problem)
    assert not text or problem.endswith(", or on this machine")


@pytest.fixture
def leaving(bundle: Path, tmp_path: Path) -> Any:
    """Return a function that makes the bundle's package: of an instruction set, its code leaves a mark when loaded."""
    mark, source, library = tmp_path / "loaded", tmp_path / "mark.c", tmp_path / "mark.so"
    opened = f'FILE* file = fopen("{mark}", "w"); if (file) fclose(file);'
    source.write_text(f"#include <stdio.h>\n__attribute__((constructor)) static void loaded(void) {{ {opened} }}\n")
    assert compiled([compiler("gcc", "c"), "-shared", "-fPIC", source, "-o", library]).returncode == 0

    def make(isa: str) -> Path:
        model = "p/data/aotinductor/model/x.wrapper"
        with zipfile.ZipFile(bundle / AOTI, "w") as archive:
            archive.writestr(f"{model}_metadata.json", json.dumps({"AOTI_CPU_ISA": isa, "AOTI_DEVICE_KEY": "cpu"}))
            archive.writestr(f"{model}.cpp", "")
            archive.write(library, f"{model}.so")
            for name, text in (("archive_format", "pt2"), ("byteorder", "little"), (".data/version", "3\n")):
                archive.writestr(f"p/{name}", text)
        add(bundle, "aoti", AOTI)
        mark.unlink(missing_ok=True)
        return mark

    return make


def open_as(runtime: str, bundle: Path) -> None:
    need(runtime)
    RUNTIMES[runtime].open(bundle / AOTI, Bundle.open(bundle).manifest, trusted=True)


def start(_: str, bundle: Path) -> None:
    """Have the C++ session load the package, which Python has not looked at."""
    need("aoti-cpp")
    started(TORCH, bundle, format_="aoti", device="cpu")


LOADERS: list[tuple[Any, str, type[Exception]]] = [
    (open_as, "aoti-cpu", Missing),
    (open_as, "aoti-cpp", Missing),
    (start, "", RunFailed),
]


@pytest.mark.parametrize(("load", "runtime", "refusal"), LOADERS, ids=["python", "runtime of C++", "session of C++"])
def test_a_package_for_another_cpu_is_refused_before_its_code_is_loaded(
    bundle: Path, leaving: Any, load: Any, runtime: str, refusal: type[Exception]
) -> None:
    mark = leaving("AVX512 AVX10_9")
    with pytest.raises(refusal, match=r"model_aoti.pt2 is compiled for avx512 and avx10_9, this CPU has .*--cpu-isa "):
        load(runtime, bundle)
    assert not mark.exists()
    mark = leaving("INVALID_VEC_ISA")
    with pytest.raises(RunFailed):  # the code is no model's
        load(runtime, bundle)
    assert mark.exists()


def test_no_package_has_no_cpu_to_compile_for() -> None:
    with pytest.raises(BadInput, match="--cpu-isa avx2 is for AOTInductor packages: give -f aoti with it"):
        check_options(ExportOptions(cpu_isa="avx2"))


@X86
def test_what_this_cpu_lacks_cannot_be_compiled_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: AVX2)
    with pytest.raises(
        BadInput, match="--cpu-isa avx512 cannot be compiled here, this CPU has avx2: give --cpu-isa avx2"
    ):
        compiler_settings("avx512")
    assert compiler_settings("avx2") == {"cpp.simdlen": 256, "cpp.march": "x86-64-v3"}


WIDE = {"default": "%[xyz]mm(1[6-9]|[23][0-9])|%[yz]mm|\tv[a-z0-9]+ ", "avx2": "%xmm(1[6-9]|[23][0-9])|%zmm|%k[0-7]"}
"""What no code of a level has: wider registers, more of them, masks; the lowest has no encoding of AVX either."""


@pytest.mark.exhaustive
@X86
@pytest.mark.parametrize("level", WIDE)
def test_a_package_for_a_lower_cpu_has_the_same_verdict_and_none_of_its_instructions(
    tmp_path: Path, level: Any
) -> None:
    need("aoti-cpp")
    spec = Spec("dynamic", "exact", "offset", 70)
    result = run("sinusoidal", spec, {"d_model": 16}, tmp_path, formats=("aoti",), cpu_isa=level)
    rows = {v.subject: v for v in result.verdicts if v.check == "agrees"}
    assert [(v.subject, v.detail) for v in result.verdicts if v.status == "fail"] == []
    for name in ("aoti-cpu", "aoti-cpp"):
        eager = worst(rows[name].comparisons, "eager")
        assert eager is not None
        assert eager.max_abs == 0
    cpus = "every x86_64 CPU" if level == "default" else "CPUs with avx2"
    assert f"{AOTI} runs on {cpus}" in result.manifest.notes
    with zipfile.ZipFile(result.folder / AOTI) as archive:
        (library,) = (name for name in archive.namelist() if name.endswith(".so"))
        archive.extract(library, tmp_path)
    done = subprocess.run(
        ["objdump", "-d", "--no-show-raw-insn", tmp_path / library], capture_output=True, text=True, check=True
    )
    assert [line for line in done.stdout.splitlines() if re.search(WIDE[level], line)] == []
