"""The class of a causal language model: it keeps a cache, and writes the tokens that the mathematics say."""

import re
from pathlib import Path

import pytest

from helpers import toy_decoder
from helpers.embedded import run
from helpers.shared import Once, need
from posenc_export.bundle.folder import Bundle
from posenc_export.bundle.manifest import Manifest
from posenc_export.proof.exporter.embedding import embedded
from posenc_export.proof.runtimes.runner_build import build
from posenc_export.write.cpp.decoders import decoder_ports
from posenc_export.write.inputs.ports import parse_ports


def with_class(folder: Path) -> None:
    toy_decoder.save(folder / "toy")
    embedded(Bundle.open(folder / "toy", trusted=True), "toy")


@pytest.fixture
def bundle(once: Once) -> Path:
    return once("toy decoder in C++", with_class) / "toy"


def header(bundle: Path) -> str:
    return (bundle / "cpp" / "include" / "toy.hpp").read_text()


def test_names_with_dots_are_names_of_cpp(bundle: Path) -> None:
    text = header(bundle)
    assert "static std::size_t past_key_values_0_key_size(const Axes& axes) noexcept" in text
    assert "Span<float> present_0_value" in text
    assert 'add_port(ports_, "past_key_values.0.key"' in text
    assert not re.search(r"Span<[\w: ]+> \w+\.", text)


def test_a_decoder_knows_which_port_is_what(bundle: Path) -> None:
    """Numbers count among the inputs and among the outputs, in whatever order and under whatever part of the names."""
    assert "return Decoder(session_, DecoderPorts{0, 1, 2, 0, {{3, 1}, {4, 2}}});" in header(bundle)
    inputs = parse_ports(("past_key_values.0.key: float32[batch, 1, past, 4]", "input_ids: int64[batch, seq]"))
    outputs = parse_ports(("present.0.key: float32[batch, 1, past, 4]", "logits: float32[batch, seq, 4]"))
    assert decoder_ports(inputs, outputs) == "DecoderPorts{1, -1, -1, 1, {{0, 0}}}"


def test_other_graphs_have_no_decoder(bundle: Path, once: Once) -> None:
    manifest: Manifest = Bundle.open(bundle).manifest
    assert manifest.generations

    def without(folder: Path) -> None:
        toy_decoder.save(folder / "toy", generations=False)
        embedded(Bundle.open(folder / "toy", trusted=True), "toy")

    plain = once("toy without text in C++", without) / "toy"
    assert "ecoder" not in header(plain)
    assert not (plain / "cpp" / "test" / "generation.cpp").exists()


PROJECT = """
cmake_minimum_required(VERSION 3.18)
project(used CXX)
add_compile_options(-Wall -Wextra -Wconversion -Wshadow -Werror)
add_subdirectory(${BUNDLE}/cpp toy)
add_executable(generation ${BUNDLE}/cpp/test/generation.cpp)
add_executable(misuse misuse.cpp)
foreach(program generation misuse)
  target_link_libraries(${program} PRIVATE posenc::toy)
endforeach()
"""
MISUSE = """
#include <algorithm>
#include <iostream>

#include "toy.hpp"

namespace {

void say(const posenc::Status& status) { std::cout << (status.ok() ? "fine" : status.message()) << '\\n'; }

/// Go on with the likeliest token of the only text, and print it.
void go_on(posenc::Decoder& decoder, int count) {
  for (int i = 0; i < count; ++i) {
    const auto logits = decoder.logits();
    const auto token = std::max_element(logits.begin(), logits.end()) - logits.begin();
    std::cout << token << (i + 1 < count ? " " : "\\n");
    decoder.step(token);
  }
}

}  // namespace

int main(int, char** words) {
  using Ids = std::vector<std::int64_t>;
  posenc::toy::Model model;
  say(model.decoder().try_prefill(Ids{1}));
  posenc::expect(model.load(words[1]));
  auto decoder = model.decoder();
  say(decoder.try_step(1));
  say(decoder.try_prefill(Ids{}));
  say(decoder.try_prefill(Ids{1, 2}, Ids{2, 0}));
  say(decoder.try_prefill(Ids{1, 2}, Ids{1, 2}));
  say(decoder.try_prefill(Ids{1, 11}));
  std::cout << decoder.length() << " tokens\\n";
  decoder.reserve(30);
  say(decoder.try_prefill(Ids{3, 4, 9, 8, 8, 2}));
  go_on(decoder, 3);
  say(decoder.try_prefill(Ids{7}));  // what somebody says next
  std::cout << decoder.length() << " tokens, " << decoder.batch() << " text\\n";
  say(decoder.try_step(Ids{1, 2}));
  say(decoder.try_prefill(Ids{1, 2}, Ids{1, 1}));
  auto other = model.decoder();  // of the same model, at the same time
  say(other.try_prefill(Ids{1, 3, 4}, Ids{1, 2}));
  say(other.try_prefill(Ids{1}));
  say(decoder.try_step(Ids{-1}));
  while (decoder.try_step(1).ok()) {
  }
  say(decoder.try_step(1));
  std::cout << decoder.length() << " tokens\\n";
  decoder.clear();
  say(decoder.try_prefill(Ids{3, 4, 9, 8, 8, 2}));
  go_on(decoder, 3);
  return 0;
}
"""
SAID = """
the model held no graph when its decoder was made: load one first
a text begins with a prompt: prefill before the first step
a prompt has no token: expected at least one
a prompt has 0 tokens: expected at least one
prompts have 3 tokens in all, and there are 2 ids
'input_ids' is 11 at [0, 1], out of range: expected 0 to 10
0 tokens
fine
{first}
fine
10 tokens, 1 text
a step takes a token for each of 1 texts, got 2
a batch begins with its prompts: clear the texts that were read
fine
a batch of texts goes on by step: clear it before another prompt
'input_ids' is -1, out of range: expected 0 to 10
'position_ids' is 32, out of range: expected 0 to 31
32 tokens
fine
{first}
"""


@pytest.mark.exhaustive
def test_a_decoder_writes_what_the_mathematics_say(bundle: Path, tmp_path: Path) -> None:
    """Prompts alone and in a padded batch, in several parts; and what is refused leaves the text as it was."""
    need("ort-cpp")
    project = tmp_path / "project"
    project.mkdir()
    (project / "CMakeLists.txt").write_text(PROJECT)
    (project / "misuse.cpp").write_text(MISUSE)
    build(project, tmp_path, {"BUNDLE": str(bundle)})
    done = run(tmp_path / "generation", bundle / "model.onnx")
    assert done.stdout == "100 tokens, 0 differ\n", done.stderr
    first = " ".join(map(str, toy_decoder.written(toy_decoder.PROMPTS[0], 3)))
    done = run(tmp_path / "misuse", bundle / "model.onnx")
    assert done.stdout.strip().splitlines() == SAID.format(first=first).strip().splitlines(), done.stderr
