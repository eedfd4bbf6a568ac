"""Steps of decoding, ours beside others: run by hand, not by pytest.

python bench_decode.py --python PYTHON --genai PYTHON           prints how long a step takes, and the ratios
python bench_decode.py --python PYTHON --genai PYTHON --write   puts the tables into docs/reference/measured/models.md

`loading/peer_files.py` says what these environments have. Everything runs on one thread, by turns, and the ratio is
that of the medians of one run. The first table has our C++ class beside onnxruntime-genai, on the file of its own
builder and on ours: a prompt of 64 tokens, then 128 steps. The second has one call of the graph in ONNX Runtime, our
file beside optimum's, with a cache of 128 tokens and of 512.
"""

import argparse
import datetime
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np
import onnxruntime

sys.path.insert(0, str(Path(__file__).parents[1]))

from helpers.made_parts import put_part
from posenc.ports import Array
from posenc_export.common.markdown import table
from scripts.loading.peer_files import Others, add_pythons, file_in, genai, optimum, ours
from scripts.loading.small_llama import save

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "measured" / "models.md"
STEPS_OF_GENAI = Path(__file__).parent / "loading" / "genai_steps.py"
PROMPT, STEPS, ROUNDS, PASTS = 64, 128, 7, (128, 512)
SOURCE = """
#include <algorithm>
#include <chrono>
#include <iostream>
#include <string>

#include "written.hpp"

int main(int, char** words) {
  posenc::Options options;
  options.threads = 1;
  const posenc::written::Model model(words[1], options);
  auto decoder = model.decoder();
  const auto prompt = std::stoll(words[2]);
  const auto steps = std::stoll(words[3]);
  std::vector<std::int64_t> ids;
  for (std::int64_t i = 0; i < prompt; ++i) ids.push_back(i % 200);
  decoder.prefill(ids);
  const auto likeliest = [&] {
    const auto logits = decoder.logits();
    return std::max_element(logits.begin(), logits.end()) - logits.begin();
  };
  decoder.step(likeliest());
  const auto began = std::chrono::steady_clock::now();
  for (std::int64_t i = 0; i < steps; ++i) decoder.step(likeliest());
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  std::cout << took.count() / static_cast<double>(steps) << '\\n';
}
"""
PROJECT = """
cmake_minimum_required(VERSION 3.18)
project(steps CXX)
set(CMAKE_BUILD_TYPE Release)
add_subdirectory(${BUNDLE}/cpp written)
add_executable(steps steps.cpp)
target_link_libraries(steps PRIVATE posenc::written)
"""


@dataclass(frozen=True)
class Size:
    """How large a Llama is."""

    layers: int
    size: int
    heads: int

    def __str__(self) -> str:
        return f"{self.layers} layers of {self.size}"


SIZES = (Size(2, 64, 4), Size(8, 512, 8))


def built(bundle: Path, folder: Path) -> Path:
    """Build the program that times our class; return it."""
    (folder / "steps.cpp").write_text(SOURCE)
    (folder / "CMakeLists.txt").write_text(PROJECT)
    for command in (
        ["cmake", "-S", folder, "-B", folder / "built", f"-DBUNDLE={bundle}"],
        ["cmake", "--build", folder / "built"],
    ):
        subprocess.run([*map(str, command)], capture_output=True, check=True)
    return folder / "built" / "steps"


def by_turns(contenders: Mapping[str, Callable[[], float]]) -> dict[str, float]:
    """Return the median of the seconds of each, which take turns."""
    took: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(ROUNDS):
        for name, call in contenders.items():
            took[name].append(call())
    return {name: float(np.median(seconds)) for name, seconds in took.items()}


def program(*command: object, prompt: int = PROMPT, steps: int = STEPS) -> Callable[[], float]:
    """Return a call of a program that prints seconds a step."""
    words = [*map(str, command), str(prompt), str(steps)]

    def call() -> float:
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        return float(done.stdout.split()[-1])

    return call


def step(file: Path, past: int) -> Callable[[], float]:
    """Return a call of a file, with a token behind a cache of some length, which says how long a step takes."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    sizes = (1, 0, past, 0)
    feeds: dict[str, Array] = {
        item.name: np.zeros([s if isinstance(s, int) else sizes[i] for i, s in enumerate(item.shape)], np.float32)
        for item in session.get_inputs()
        if item.name.startswith("past")
    }
    given = {"input_ids": [[5]], "attention_mask": [[1] * (past + 1)], "position_ids": [[past]]}
    names = {item.name for item in session.get_inputs()}
    feeds |= {name: np.array(value) for name, value in given.items() if name in names}
    session.run(None, feeds)

    def call() -> float:
        began = time.perf_counter()
        for _ in range(20):
            session.run(None, feeds)
        return (time.perf_counter() - began) / 20

    return call


def measured(size: Size, others: Others, folder: Path) -> tuple[list[str], list[list[str]]]:
    """Return the row of a size in the first table, and its rows in the second."""
    save(
        folder / "model",
        layers=size.layers,
        size=size.size,
        heads=size.heads,
        kv_heads=size.heads // 2,
        positions=2048,
    )
    for name, write in (("ours", ours), ("optimum", optimum), ("genai", genai)):
        why = write(others, folder / "model", folder / name)
        if why:
            raise RuntimeError(f"{name}: {why}")
    (folder / "steps").mkdir()
    runner = built(folder / "ours", folder / "steps")
    took = by_turns(
        {
            "class": program(runner, folder / "ours" / "model.onnx"),
            "genai": program(others.genai, STEPS_OF_GENAI, folder / "genai"),
            "genai on ours": program(others.genai, STEPS_OF_GENAI, folder / "ours"),
        }
    )
    first = [str(size), *(f"{1 / seconds:,.0f}" for seconds in took.values()), f"{took['genai'] / took['class']:.2f}"]
    second = []
    for past in PASTS:
        files = {name: file_in(folder / name) for name in ("ours", "optimum")}
        took = by_turns({name: step(file, past) for name, file in files.items()})
        ratio = f"{took['optimum'] / took['ours']:.2f}"
        second.append([str(size), str(past), *(f"{1e3 * seconds:.2f}" for seconds in took.values()), ratio])
    return first, second


def main() -> None:
    """Measure, print, and put the tables into the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_pythons(parser)
    parser.add_argument("--write", action="store_true", help="put the tables into docs/reference/measured/models.md")
    options = parser.parse_args()
    others = Others(options.python, options.genai)
    first: list[list[str]] = []
    second: list[list[str]] = []
    for size in SIZES:
        with tempfile.TemporaryDirectory() as folder:
            row, rows = measured(size, others, Path(folder))
        first.append(row)
        second += rows
    tokens = ("C++ class", "onnxruntime-genai, its own file", "onnxruntime-genai, our file", "class / genai")
    steps = ("cache", "ours, ms", "optimum's, ms", "optimum's time / ours")
    text = (
        f"Measured on {datetime.date.today().isoformat()} with {others.versions('optimum-onnx')}, onnxruntime "
        f"{version('onnxruntime-gpu')}, float32, one thread, on cores that did other work, too. Tokens a second, "
        f"{STEPS} steps behind a prompt of {PROMPT}:\n\n"
        f"{table(('model', *tokens), first)}\n\nOne step in ONNX Runtime, our file beside optimum's:\n\n"
        f"{table(('model', *steps), second)}\n"
    )
    print(text)
    if options.write:
        put_part(PAGE, "decode", text)


if __name__ == "__main__":
    main()
