"""What the C++ class says of numbers beyond their range, and of starts whose queries are not among the keys."""

import re
from pathlib import Path

import pytest

from helpers.cpp_tools import STRICT, compiled, compiler
from helpers.embedded import CPP, run, write_bundle
from helpers.shared import need
from posenc_export.proof.runtimes.runner_build import SESSION, build

SAID = """
fine
't' is 2048.5 at [1], out of range: expected -2048 to 2048
't' is 2048.0002 at [1], out of range: expected -2048 to 2048
't' is nan, out of range: expected -2048 to 2048
't' is -inf at [2], out of range: expected -2048 to 2048
't' is 16777216.000000004 at [1], out of range: expected -16777216 to 16777216
't' is nan at [0], out of range: expected 0.1 to 1
fine
fine
't' is 2050 at [1], out of range: expected -2048 to 2048
fine
't' is -5.9604645e-08, out of range: expected 0 to 1
't' is inf, out of range: expected -100000 to 100000
't' is nan, out of range: expected -100000 to 100000
fine
't' is -2064 at [1], out of range: expected -2048 to 2048
't' is nan, out of range: expected -2048 to 2048
0 wrong
fine
'start' is 5, out of range: expected 0 to 4, since 3 positions count from it, among the 7 of axis 'seq_k'
'start' is -1, out of range: expected 0 to 4, since 3 positions count from it, among the 7 of axis 'seq_k'
'start' is -9223372036854775808, out of range: expected 0 to 6, among the 7 of axis 'seq_k'
'start' is 9223372036854775807, out of range: expected 0 to 4, since 3 positions count from it, among the 7 of axis \
'seq_k'
fine
'start' is 7, out of range: expected 0 to 6, among the 7 of axis 'seq_k'
'start' is 0, out of range: expected fewer positions, since 8 positions count from it, among the 7 of axis 'seq_k'
fine
fine
'start' is 512, out of range: expected 0 to 511
"""


@pytest.mark.parametrize("standard", ["c++17", pytest.param("c++20", marks=pytest.mark.exhaustive)])
def test_numbers_and_starts_of_every_type(tmp_path: Path, standard: str) -> None:
    flags = [flag for flag in STRICT if not flag.startswith("-std")]
    sources = [CPP / "limits.cpp", *(SESSION / name for name in ("limits.cpp", "tensor.cpp"))]
    include = ["-I", SESSION, "-I", SESSION / "include", f"-std={standard}", "-fno-exceptions", "-fno-rtti"]
    made = compiled([compiler("gcc"), *flags, *include, *sources, "-o", tmp_path / "limits"])
    assert (made.returncode, made.stderr) == (0, "")
    assert run(tmp_path / "limits").stdout.strip().splitlines() == SAID.strip().splitlines()


PROJECT = """
cmake_minimum_required(VERSION 3.18)
project(used CXX)
add_compile_options(-Wall -Wextra -Wconversion -Wshadow -Werror)
foreach(name timesteps bias)
  add_subdirectory(${BUNDLES}/${name}/cpp ${name})
endforeach()
add_executable(program ${PROGRAM})
target_link_libraries(program PRIVATE posenc::timesteps posenc::bias)
"""
OF_CLASSES = """
fine
fine
out_of_range: 'timesteps' is 70.125 at [1], out of range: expected -70 to 70
out_of_range: 'timesteps' is -71 at [1], out of range: expected -70 to 70
out_of_range: 'timesteps' is 2048.5 at [1], out of range: expected -70 to 70
out_of_range: 'timesteps' is nan at [1], out of range: expected -70 to 70
out_of_range: 'timesteps' is inf at [1], out of range: expected -70 to 70
fine
fine
out_of_range: 'start' is 5, out of range: expected 0 to 4, since 3 positions count from it, among the 7 of axis 'seq_k'
out_of_range: 'start' is -1, out of range: expected 0 to 4, since 3 positions count from it, among the 7 of axis 'seq_k'
out_of_range: 'start' is -9223372036854775808, out of range: expected 0 to 4, since 3 positions count from it, among \
the 7 of axis 'seq_k'
out_of_range: 'start' is 7, out of range: expected 0 to 6, among the 7 of axis 'seq_k'
"""


@pytest.mark.exhaustive
@pytest.mark.parametrize("backend", ["onnx", "torch"])
def test_the_classes_of_bundles_name_the_number_of_the_caller(tmp_path: Path, backend: str) -> None:
    need({"onnx": "ort-cpp", "torch": "libtorch-cpp"}[backend])
    write_bundle(tmp_path / "timesteps", "timestep -p dim=8")
    write_bundle(tmp_path / "bias", "alibi --dynamic --positions offset -p heads=2")
    project = tmp_path / "project"
    project.mkdir()
    (project / "CMakeLists.txt").write_text(PROJECT)
    settings = {"BUNDLES": str(tmp_path), "PROGRAM": str(CPP / "bounds.cpp"), "POSENC_BACKEND": backend}
    build(project, tmp_path, settings)
    file = {"onnx": "model.onnx", "torch": "model.pt"}[backend]
    done = run(tmp_path / "program", tmp_path / "timesteps" / file, tmp_path / "bias" / file)
    assert done.stdout.strip().splitlines() == OF_CLASSES.strip().splitlines(), done.stderr


@pytest.mark.exhaustive
def test_a_tensor_without_memory_is_said_to_be_one_and_the_next_call_is_right(tmp_path: Path) -> None:
    need("libtorch-cpp")
    write_bundle(tmp_path / "bias", "alibi --dynamic --positions offset -p heads=2")
    project = tmp_path / "project"
    project.mkdir()
    text = PROJECT.replace("timesteps bias)", "bias)").replace("posenc::timesteps ", "")
    (project / "CMakeLists.txt").write_text(text)
    settings = {"BUNDLES": str(tmp_path), "PROGRAM": str(CPP / "torch_failures.cpp"), "POSENC_BACKEND": "torch"}
    build(project, tmp_path, settings)
    done = run(tmp_path / "program", tmp_path / "bias" / "model.pt")
    tried, wrong = re.fullmatch(r"running: (\d+), (\d+) wrong\n", done.stdout).groups()  # type: ignore[union-attr]
    assert (int(tried) > 10, int(wrong)) == (True, 0)


COUNTED = """
#include <iostream>
#include <vector>

#include "counted.hpp"

int main(int, char** words) {
  using posenc::counted::Model;
  const Model model{std::filesystem::path(words[1])};
  for (const auto& sizes : {std::array<std::int64_t, 2>{3, 7}, {7, 7}, {10, 3}, {2, 1}}) {
    const auto axes = Model::Axes().with_batch(1).with_seq(sizes[0]).with_seq_k(sizes[1]);
    std::vector<float> scores(Model::scores_size(axes), 1);
    std::vector<float> biased(Model::biased_size(axes), 1);
    const auto status = model.try_run(axes, scores, biased);
    std::cout << (status.ok() ? "fine" : status.message()) << '\\n';
  }
}
"""
OF_COUNTED = """
fine
fine
axis 'seq' is 10, out of range: expected at most the 3 of axis 'seq_k'
axis 'seq' is 2, out of range: expected at most the 1 of axis 'seq_k'
"""


@pytest.mark.exhaustive
def test_more_queries_than_keys_are_refused_where_both_are_counted(tmp_path: Path) -> None:
    """Queries are the last of the keys: more of them would be at positions below 0."""
    need("ort-cpp")
    write_bundle(tmp_path / "counted", "alibi --dynamic --positions implicit -p heads=2")
    project = tmp_path / "project"
    project.mkdir()
    text = PROJECT.replace("timesteps bias)", "counted)").replace("posenc::timesteps posenc::bias", "posenc::counted")
    (project / "CMakeLists.txt").write_text(text)
    (project / "program.cpp").write_text(COUNTED)
    settings = {"BUNDLES": str(tmp_path), "PROGRAM": str(project / "program.cpp"), "POSENC_BACKEND": "onnx"}
    build(project, tmp_path, settings)
    done = run(tmp_path / "program", tmp_path / "counted" / "model.onnx")
    assert done.stdout.strip().splitlines() == OF_COUNTED.strip().splitlines(), done.stderr
