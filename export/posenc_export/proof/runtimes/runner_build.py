"""C++ runners: programs that run a bundle's graph, built once, on demand, into a cache folder."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from posenc_export.common.errors import BadInput, first_line
from posenc_export.common.machine import cache_folder
from posenc_export.write.cpp import FOLDER

Progress = Callable[[str], None]
"""A build calls it with each line that it prints."""
SESSION, RUNNER = FOLDER / "session", FOLDER / "runner"
SETTINGS = FOLDER / "bundle" / "test" / "settings.cmake"
SOURCES = (".cpp", ".hpp", ".cmake", ".txt")
FAILED_BEFORE = "not built, since an earlier build failed: naming it with --runtime tries again, and says why"
"""Why a runner whose build failed earlier does not run: one text for all, so that a report has one line."""
BUILD_VARIABLES = (
    *("CXX", "CXXFLAGS", "LDFLAGS", "ONNXRUNTIME_ROOT", "LIBTORCH_ROOT"),
    *("CMAKE_PREFIX_PATH", "CMAKE_GENERATOR", "CMAKE_TOOLCHAIN_FILE"),
)
"""Variables of the environment that change what is built."""


class BuildFailed(Exception):
    """A program could not be built; the text says in one line what is missing or wrong."""


@dataclass(frozen=True)
class Program:
    """A runner: the name of its executable, CMake's POSENC_BACKEND, and the Python package that has the library."""

    name: str
    backend: str
    package: str

    @property
    def folder(self) -> Path:
        """The folder of its build, by a digest of sources, libraries and settings."""
        return cache_folder() / "runners" / f"{self.backend}-{self._key()}"

    @property
    def executable(self) -> Path:
        """Where the program lies once it is built."""
        return self.folder / self.name

    def _key(self) -> str:
        digest = hashlib.sha256()
        files = [f for folder in (SESSION, RUNNER) for f in folder.rglob("*") if f.suffix in SOURCES]
        for file in sorted([*files, SETTINGS]):
            digest.update(file.read_bytes())
        # another environment, or another version of the library, needs another build
        spec = importlib.util.find_spec(self.package)
        facts = [sys.prefix, str(spec and spec.origin), _version(self.package)]
        facts += [f"{name}={os.environ.get(name, '')}" for name in BUILD_VARIABLES]
        digest.update(os.fsencode("\n".join(facts)))
        return digest.hexdigest()[:16]

    def problem(self) -> str:
        """Return why it cannot be started, in one line, or an empty text; it is quick, and builds nothing."""
        if (self.folder / "built").is_file():
            return ""
        failed, builder = self.folder / "failed", self.folder / "builder"
        if failed.is_file():
            # a failure of this process, or of its parent, is explained; an older one is only named
            is_ours = builder.is_file() and builder.read_text(encoding="utf-8") in (str(os.getpid()), str(os.getppid()))
            return failed.read_text(encoding="utf-8") if is_ours else FAILED_BEFORE
        return "not built yet: naming it with --runtime does that"

    def build(self, progress: Progress = lambda _: None) -> None:
        """Build it unless it is built and starts; where that fails, `problem` then returns the reason.

        A file lock lets one process build while the others wait.
        """
        from filelock import FileLock

        try:
            self.folder.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(f"{self.folder}.lock"):
                if not (self.folder / "built").is_file() or self.version_output().returncode:
                    self._build(progress)
        except OSError as error:
            raise BadInput(f"cannot build {self.name} in {self.folder}: {error.strerror or error}") from error

    def _build(self, progress: Progress) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)  # left there by another checkout, or another CMake
        self.folder.mkdir()
        try:
            build(RUNNER, self.folder, {"POSENC_BACKEND": self.backend, "POSENC_SESSION": str(SESSION)}, progress)
            done = self.version_output()
            if done.returncode:
                raise BuildFailed(done.stderr.strip() or f"{self.name} does not start: status {done.returncode}")
        except BuildFailed as failed:
            (self.folder / "builder").write_text(str(os.getpid()), encoding="utf-8")
            (self.folder / "failed").write_text(f"cannot build {self.name}: {failed}", encoding="utf-8")
        else:
            (self.folder / "built").write_text(done.stdout, encoding="utf-8")

    def version_output(self, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Run it with --version, which prints its versions and "CUDA: yes", or why it cannot use CUDA."""
        words = [str(self.executable), "--version"]
        return subprocess.run(words, capture_output=True, encoding="utf-8", errors="replace", check=False, env=env)


def build(project: Path, folder: Path, settings: dict[str, str], progress: Progress = lambda _: None) -> None:
    """Configure and build a CMake project into a folder; raise BuildFailed, in one line, with the place of the log."""
    cmake = shutil.which("cmake")
    if cmake is None:
        raise BuildFailed("cmake is not found: install it, from your system or with pip install cmake")
    settings = {"POSENC_PYTHON": sys.executable, **settings}
    configure = [cmake, "-S", str(project), "-B", str(folder), *(f"-D{k}={v}" for k, v in settings.items())]
    log = folder / "build.log"
    log.write_text("", encoding="utf-8")
    for command in (configure, [cmake, "--build", str(folder), "--parallel"]):
        status, text = _run(command, lambda line: progress(f"building the C++ runner: {line}"))
        with log.open("a", encoding="utf-8") as file:
            file.write(text)
        if status:
            raise BuildFailed(f"{explain(text)} (all of it: {log})")


def _run(command: list[str], progress: Progress) -> tuple[int, str]:
    """Run a command, call `progress` with each line it prints, and return its status and all that it printed.

    What interrupts this process ends the command too.
    """
    lines = []
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                lines.append(line)
                progress(line.strip())
        except BaseException:
            os.killpg(process.pid, signal.SIGTERM)
            raise
    return process.returncode, "".join(lines)


def explain(log: str) -> str:
    """Return why a build failed: CMake's message on one line, or the compiler's first error."""
    error = re.search(r"^CMake Error[^\n]*:\n+((?:  +[^\n]*\n)+)", log, flags=re.MULTILINE)
    if error:
        return " ".join(error.group(1).split())
    line = re.search(r"^.*\berror\b.*$", log, flags=re.MULTILINE | re.IGNORECASE)
    return line.group().strip() if line else first_line(Exception(log[-200:]))


def _version(package: str) -> str:
    for name in (package, f"{package}-gpu"):
        try:
            return version(name)
        except ModuleNotFoundError:
            continue
    return ""
