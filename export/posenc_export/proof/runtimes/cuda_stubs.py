"""Stubs of CUDA's libraries: with them ONNX Runtime's own CUDA provider loads where there is no GPU, and runs nothing.

They are compiled once into this user's cache, from the names that the installed provider asks for.
"""

from __future__ import annotations

import hashlib
import platform
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory

from posenc_export.common.machine import cache_folder
from posenc_export.proof.runtimes import Missing
from posenc_export.proof.runtimes.header import C
from posenc_export.proof.runtimes.sessions import CPU_BUILD, cuda_provider

SOURCE = Path(__file__).with_suffix(".c")
CUDA_MAJORS = (12, 13)
"""Versions of CUDA whose structs the stubs know."""
DRIVER = "libcuda.so.1"
"""The library that has the names without a version that begin with cu."""
OURS = re.compile(r"lib(cu|nv)\w*\.so\.\d+")
"""Names of libraries of CUDA, among those that a provider needs."""
FLAGS = ("-shared", "-fPIC", "-O1", "-w", "-fno-builtin")
"""With built-in functions, a compiler knows better than we do what memset and free are given."""


@dataclass(frozen=True)
class StubLibrary:
    """A library of CUDA that a provider needs: its name, and the functions that it must have, each with its version."""

    name: str
    functions: tuple[tuple[str, str], ...]

    @property
    def source(self) -> str:
        """C source of a weak function for each name: a stub that does more stands before it."""
        lines = (f"__attribute__((weak)) long {name}(void) {{ return 0; }}" for name, _ in self.functions)
        return "\n".join([*lines, "int posenc_export_stub;", ""])

    @property
    def versions(self) -> str:
        """A script for the linker: names without a version are of all."""
        named = sorted({version for _, version in self.functions if version})
        return "".join(f"{name} {{ global: *; }};\n" for name in named[:1]) or "{ global: *; };\n"


def provider() -> Path:
    """Return ONNX Runtime's CUDA provider; raise Missing where this build has none."""
    if platform.system() != "Linux":
        raise Missing(f"libraries of CUDA have stubs on Linux alone, this is {platform.system()}")
    library = cuda_provider()
    if not library.is_file():
        raise Missing(CPU_BUILD)
    return library


def check() -> None:
    """Raise Missing where stubs are neither there nor can be compiled; it is quick, and compiles nothing."""
    if not _folder(provider()).is_dir():
        C.check()
        _objdump()


def stubs() -> Path:
    """Return the folder of the stubs, compiled unless they are there; raise Missing where they cannot be compiled."""
    from filelock import FileLock

    library = provider()
    folder = _folder(library)
    if not folder.is_dir():
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(f"{folder}.lock"):
                if not folder.is_dir():
                    _compile(library, folder)
        except OSError as error:
            raise Missing(f"stubs of CUDA cannot be put in {folder}: {error.strerror or error}") from error
    return folder


def _folder(library: Path) -> Path:
    """Return the place of the stubs of a provider: by its size and date, as it is 300 MB, and by our sources."""
    found = library.stat()
    facts = [str(library), str(found.st_size), str(found.st_mtime_ns), release(), *FLAGS]
    digest = hashlib.sha256("\n".join(facts).encode() + SOURCE.read_bytes() + Path(__file__).read_bytes())
    return cache_folder() / "cuda-stubs" / digest.hexdigest()[:16]


def release() -> str:
    """Return the name and the version of the ONNX Runtime that is installed."""
    for name in ("onnxruntime-gpu", "onnxruntime"):
        try:
            return f"{name} {version(name)}"
        except PackageNotFoundError:
            continue
    return "onnxruntime"


def _compile(library: Path, folder: Path) -> None:
    compiler, needed = C.compiler(), list(libraries(_listing(library)))
    major = _cuda_major(needed)
    with TemporaryDirectory(dir=folder.parent, prefix="making-") as scratch:
        made = Path(scratch, "lib")
        made.mkdir()
        for stub in needed:
            names, script = Path(scratch, "names.c"), Path(scratch, "versions")
            names.write_text(stub.source, "ascii")
            script.write_text(stub.versions, "ascii")
            command = [*compiler, *FLAGS, f"-DCUDA_MAJOR={major}", str(SOURCE), str(names), "-o", str(made / stub.name)]
            command += [f"-Wl,-soname,{stub.name}", f"-Wl,--version-script={script}"]
            done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", check=False)
            if done.returncode:
                said = [line for line in done.stderr.splitlines() if line]
                first = next((line for line in said if "error" in line), (said or ["the compiler says nothing"])[0])
                raise Missing(f"the stub of {stub.name} does not compile: {first}")
        made.rename(folder)


def _cuda_major(needed: list[StubLibrary]) -> int:
    majors = [int(stub.name.rpartition(".")[2]) for stub in needed if stub.name.startswith("libcudart.so.")]
    if not majors or majors[0] not in CUDA_MAJORS:
        wanted = f"CUDA {majors[0]}" if majors else "no libcudart"
        known = " and ".join(map(str, CUDA_MAJORS))
        raise Missing(f"{release()} needs {wanted}: there are stubs of CUDA {known}")
    return majors[0]


def _objdump() -> str:
    """Return the program that lists the names in a library; it comes with a compiler's linker."""
    for name in ("objdump", "llvm-objdump"):
        path = shutil.which(name)
        if path is not None:
            return path
    raise Missing("objdump is not found, which lists what the CUDA provider needs: install binutils")


def _listing(library: Path) -> str:
    command = [_objdump(), "-p", "-T", str(library)]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", check=False)
    if done.returncode:
        raise Missing(f"objdump cannot read {library.name}: {done.stderr.strip()}")
    return done.stdout


def libraries(listing: str) -> Iterator[StubLibrary]:
    """Yield the libraries of CUDA that objdump -p -T lists for a provider, each with its functions."""
    needed = re.findall(r"^\s+NEEDED\s+(\S+)$", listing, re.MULTILINE)
    # a version of a name belongs to one library, mostly of the same name
    of_version: dict[str, str] = {}
    library = ""
    for line in listing.splitlines():
        start = re.match(r"\s+required from (\S+):", line)
        reference = re.match(r"\s+0x\w+ 0x\w+ \d+ (\S+)$", line)
        if start:
            library = start.group(1)
        elif reference:
            of_version[reference.group(1)] = library
    functions: dict[str, list[tuple[str, str]]] = {name: [] for name in needed if OURS.fullmatch(name)}
    for words in (line.split() for line in listing.splitlines() if "*UND*" in line):
        name, of = words[-1], words[-2].strip("()")
        if of in of_version and of_version[of] in functions:
            functions[of_version[of]].append((name, of))
        elif of not in of_version and name.startswith("cu"):
            functions.setdefault(DRIVER, []).append((name, ""))
    for library, names in functions.items():
        yield StubLibrary(library, tuple(sorted(names)))
