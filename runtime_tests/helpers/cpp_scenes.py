"""Programs in C++ of small models that write text, built with sanitizers, and what they are told line by line."""

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from click.testing import CliRunner

from helpers.embedded import CPP
from helpers.scene_folders import TASK, saved_scene
from helpers.shared import Once, need
from helpers.sound_folders import HEARING, HEARS, saved_hearing
from helpers.state_models import STATES, saved_states
from posenc.ports import Array
from posenc_export.cli import main
from posenc_export.proof.runtimes.runner_build import build

PROJECT = """
cmake_minimum_required(VERSION 3.18)
project(scenes CXX)
add_compile_options(-g -O1 -fsanitize=address,undefined -fno-sanitize-recover=all)
add_compile_options(-Wall -Wextra -Wconversion -Wshadow -Werror)
add_link_options(-fsanitize=address,undefined)
list(APPEND CMAKE_MODULE_PATH ${BUNDLE}/cpp/session)
find_package(ONNXRuntime REQUIRED)
add_subdirectory(${BUNDLE}/cpp ${KIND})
add_executable(generation ${BUNDLE}/cpp/test/generation.cpp)
add_executable(example ${BUNDLE}/cpp/example.cpp)
if(ALONE)
  add_compile_definitions(ALONE)
endif()
add_executable(scenes ${SOURCES}/scenes.cpp)
set(programs generation example scenes)
if(FAILURES)
  set(fails ${SOURCES}/failing_memory.cpp ${SOURCES}/failing_runtime.cpp)
  add_executable(scene_failures ${SOURCES}/scene_failures.cpp ${fails})
  target_link_libraries(scene_failures PRIVATE ONNXRuntime::ONNXRuntime ${CMAKE_DL_LIBS})
  list(APPEND programs scene_failures)
endif()
foreach(program ${programs})
  target_link_libraries(${program} PRIVATE posenc::${KIND})
  target_compile_definitions(${program} PRIVATE SCENE=${KIND} HEADER="${KIND}.hpp")
  target_include_directories(${program} PRIVATE ${BUNDLE}/cpp)
endforeach()
"""
FAILING = ("qwen2_5_vl", "llava", "lfm2", "mamba2")
"""Models of which each allocation is made to fail."""


def task_of(kind: str) -> str:
    """What a small model does: it sees, it hears, or it writes text alone."""
    return "text-generation" if kind in STATES else HEARS if kind in HEARING else TASK


def folder_of(once: Once, kind: str) -> Path:
    """The folder of a small model."""
    if kind in STATES:
        return saved_states(once, kind)
    return saved_hearing(once, kind) if kind in HEARING else saved_scene(once, kind)


def bundle_in_cpp(once: Once, kind: str) -> Path:
    """A bundle with C++ classes that the command line wrote and proved."""

    def export(folder: Path) -> None:
        words = ["--model", str(folder_of(once, kind)), "--task", task_of(kind), "--max-len", "48", "--proof", "quick"]
        common = ["--runtime", "ort-cpu", "--cpp", "--namespace", kind, "-q", "-o", str(folder / "b")]
        result = CliRunner().invoke(main, ["export", *words, *common], catch_exceptions=False)
        assert result.exit_code == 0, result.output

    return once(f"{kind} in C++", export) / "b"


def programs(once: Once, kind: str) -> Path:
    """The folder of the programs of a bundle, built with AddressSanitizer and UndefinedBehaviorSanitizer."""
    need("ort-cpp")
    bundle = bundle_in_cpp(once, kind)

    def fill(folder: Path) -> None:
        project = folder / "project"
        project.mkdir(exist_ok=True)
        (project / "CMakeLists.txt").write_text(PROJECT)
        failures, alone = (str(kind in kinds).upper() for kinds in (FAILING, STATES))
        build(
            project,
            folder,
            {"BUNDLE": str(bundle), "SOURCES": str(CPP), "KIND": kind, "FAILURES": failures, "ALONE": alone},
        )

    return once(f"programs of {kind}", fill)


@dataclass
class Conversation:
    """Lines for a program, and what it answered them.

    Args:
        program: The program.
        bundle: Its bundle.
        place: Where arrays are written.
    """

    program: Path
    bundle: Path
    place: Path
    lines: list[str] = field(default_factory=list)

    def say(self, *words: object) -> int:
        """Add a line; return its number."""
        self.lines.append(" ".join(map(str, words)))
        return len(self.lines) - 1

    def sense(self, arrays: Mapping[str, Array]) -> int:
        """Add a line that takes pictures."""
        folder = self.place / f"pictures{len(self.lines)}"
        folder.mkdir(parents=True)
        for name, array in arrays.items():
            np.save(folder / f"{name}.npy", array)
        return self.say("sense", folder)

    def answers(self) -> list[str]:
        """Run the program on all lines; return what it said to each."""
        done = subprocess.run(
            [self.program, self.bundle], input="\n".join(self.lines), capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
        answers = [line.strip() for line in done.stdout.splitlines()]
        assert len(answers) == len(self.lines), done.stdout
        return answers


def rows_of(answer: str, texts: int) -> list[list[int]]:
    """Return the tokens of each text of a batch out of those of each step."""
    tokens = [int(word) for word in answer.split()]
    return [tokens[number::texts] for number in range(texts)]
