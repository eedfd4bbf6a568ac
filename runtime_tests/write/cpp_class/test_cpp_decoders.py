"""The class of a causal language model: it keeps a cache, and writes the tokens that the mathematics say."""

import re
from pathlib import Path

import pytest

from helpers import toy_decoder
from helpers.embedded import CPP, run
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


def with_class_in_place(folder: Path) -> None:
    toy_decoder.save(folder / "toy", in_place=True)
    embedded(Bundle.open(folder / "toy", trusted=True), "toy")


@pytest.fixture
def in_place(once: Once) -> Path:
    return once("toy decoder in place in C++", with_class_in_place) / "toy"


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
  say(decoder.try_prefill({1, 11}));
  say(decoder.try_prefill({1, 2, 3, 11}, {1, 3}));
  say(decoder.try_prefill(Ids(34, 1), {33, 1}));
  say(decoder.try_reserve(-7));
  say(decoder.try_reserve(33));
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
  say(decoder.try_prefill(Ids(4000, 1)));
  std::cout << decoder.length() << " tokens\\n";
  decoder.clear();
  say(decoder.try_prefill(Ids{3, 4, 9, 8, 8, 2}));
  go_on(decoder, 3);
  auto moved = std::move(decoder);
  say(decoder.try_step(1));  // NOLINT: that is what is tried
  std::cout << decoder.length() << ' ' << decoder.logits().size() << '\\n';
  decoder.clear();
  moved.clear();
  moved.prefill({3, 4, 9, 8, 8, 2});
  go_on(moved, 3);
  moved.clear();
  moved.prefill({0, 2});  // two ids, and no null pointer
  std::cout << moved.length() << " tokens\\n";
  moved.clear();
  moved.prefill({3, 4, 9, 8, 8, 2});
  auto kept = model.decoder();
  kept.copy(moved);
  go_on(moved, 3);
  moved.rewind(5);  // the last token of the prompt is read again
  std::cout << moved.length() << ' ' << moved.logits().size() << '\\n';
  moved.step(2);
  go_on(moved, 3);
  go_on(kept, 3);
  say(moved.try_rewind(10));
  moved.clear();
  moved.prefill({0, 2, 5}, {2, 1});
  std::cout << moved.batch() << " texts\\n";
  moved.clear();
  const Ids read{3, 4, 9, 8, 8, 2};
  std::vector<float> scores(read.size() * 11);
  moved.part = 1;
  say(moved.try_read(read, scores));
  int alike = 0;
  for (std::size_t i = 0; i < read.size() && moved.length() > 0; ++i) {
    kept.clear();
    kept.part = 1;
    kept.prefill(Ids(read.begin(), read.begin() + static_cast<std::ptrdiff_t>(i) + 1));
    const auto logits = kept.logits();
    alike += std::equal(logits.begin(), logits.end(), scores.begin() + static_cast<std::ptrdiff_t>(i) * 11);
  }
  std::cout << alike << " rows, " << moved.vocabulary() << " columns\\n";
  say(moved.try_read(Ids{1, 2}, scores));
  scores.resize(22);
  say(moved.try_read(Ids{1, 11}, scores));
  if (moved.length() > 0) go_on(moved, 3);
  return 0;
}
"""
SAID = """
the model held no graph when its decoder was made: load one first
a text begins with a prompt: prefill before the first step
a prompt has no token: expected at least one
lengths[1] is 0: expected at least one token
prompts have 3 tokens in all, and there are 2 ids
ids[1] is 11, out of range: expected 0 to 10
ids[3] is 11, out of range: expected 0 to 10
lengths[0] is 33, out of range: expected 1 to 32
reserve is -7: expected 0 to 32 tokens
reserve is 33, out of range: expected 0 to 32 tokens
0 tokens
fine
{first}
fine
10 tokens, 1 text
a step takes a token for each text: expected 1, got 2
a batch begins with its prompts: clear the texts that were read
fine
a batch of texts goes on by step: clear it before another prompt
id is -1, out of range: expected 0 to 10
a text of 33 tokens is out of range: expected at most 32, and 32 are read already
a text of 4032 tokens is out of range: expected at most 32, and 32 are read already
32 tokens
fine
{first}
this decoder was moved from: make another
0 0
{first}
2 tokens
{first}
5 0
{first}
{first}
rewind is 10, out of range: expected 0 to 9
2 texts
fine
6 rows, 11 columns
logits have room for 66 numbers: expected 22, for each id 11
ids[1] is 11, out of range: expected 0 to 10
{first}
"""


@pytest.mark.exhaustive
def test_a_decoder_writes_what_the_mathematics_say(bundle: Path, tmp_path: Path) -> None:
    """Prompts alone and in a padded batch, in several parts; and what is refused leaves the text as it was."""
    need("ort-cpp")
    writes_its_texts(bundle, tmp_path)
    done = run(tmp_path / "misuse", bundle / "model.onnx")
    first = " ".join(map(str, toy_decoder.written(toy_decoder.PROMPTS[0], 3)))
    assert done.stdout.strip().splitlines() == SAID.format(first=first).strip().splitlines(), done.stderr


def test_a_decoder_works_in_place_where_the_graph_does(in_place: Path, bundle: Path) -> None:
    assert "DecoderPorts{0, 1, 2, 0, {{3, 1}, {4, 2}}, true}" in header(in_place)
    assert ", true}" not in header(bundle)


@pytest.mark.exhaustive
def test_a_decoder_in_place_writes_the_same(in_place: Path, tmp_path: Path) -> None:
    """One buffer for past and present, which grows: a batch is read whole, then a token a text."""
    need("ort-cpp")
    writes_its_texts(in_place, tmp_path)
    done = run(tmp_path / "misuse", in_place / "model.onnx")
    first = " ".join(map(str, toy_decoder.written(toy_decoder.PROMPTS[0], 3)))
    assert done.stdout.strip().splitlines() == SAID.format(first=first).strip().splitlines(), done.stderr


@pytest.mark.exhaustive
def test_a_decoder_of_three_positions_a_token_writes_the_same(tmp_path: Path) -> None:
    need("ort-cpp")
    toy_decoder.save(tmp_path / "toy", rows=3)
    embedded(Bundle.open(tmp_path / "toy", trusted=True), "toy")
    writes_its_texts(tmp_path / "toy", tmp_path)


@pytest.mark.exhaustive
def test_a_decoder_that_gives_the_logits_of_the_last_token_alone_writes_the_same(tmp_path: Path) -> None:
    need("ort-cpp")
    toy_decoder.save(tmp_path / "toy", last=True)
    embedded(Bundle.open(tmp_path / "toy", trusted=True), "toy")
    writes_its_texts(tmp_path / "toy", tmp_path)
    said = run(tmp_path / "misuse", tmp_path / "toy" / "model.onnx").stdout
    assert said.count("this graph gives the logits of the last token alone: read with prefill or step") == 3


def writes_its_texts(bundle: Path, tmp_path: Path) -> None:
    """Build the programs of a bundle, and run the one that writes its texts."""
    project = tmp_path / "project"
    project.mkdir()
    (project / "CMakeLists.txt").write_text(PROJECT)
    (project / "misuse.cpp").write_text(MISUSE)
    build(project, tmp_path, {"BUNDLE": str(bundle)})
    done = run(tmp_path / "generation", bundle / "model.onnx")
    assert done.stdout == "100 tokens, 0 differ\n", done.stderr


FAILURES = """
cmake_minimum_required(VERSION 3.18)
project(failures CXX)
add_compile_options(-g -O1 -fsanitize=address,undefined -fno-sanitize-recover=all)
add_compile_options(-Wall -Wextra -Wconversion -Wshadow -Werror)
add_link_options(-fsanitize=address,undefined)
list(APPEND CMAKE_MODULE_PATH ${BUNDLE}/cpp/session)
find_package(ONNXRuntime REQUIRED)
add_subdirectory(${BUNDLE}/cpp toy)
foreach(program decoder_failures class_failures)
  add_executable(${program} ${SOURCES}/${program}.cpp ${SOURCES}/failing_memory.cpp ${SOURCES}/failing_runtime.cpp)
  target_link_libraries(${program} PRIVATE posenc::toy ONNXRuntime::ONNXRuntime ${CMAKE_DL_LIBS})
endforeach()
"""
TRIED = {
    "decoder_failures": ["refusals", "an allocation fails", "all allocations fail from one on", "copies"],
    "class_failures": ["loading", "running", "giving arrays", "positions"],
}
"""What each program tries."""


@pytest.fixture
def failures(bundle: Path, once: Once) -> Path:
    """A folder of programs that let calls fail, built with AddressSanitizer and UndefinedBehaviorSanitizer."""
    return built_failures(once, bundle, "failures of the toy decoder")


@pytest.fixture
def failures_in_place(in_place: Path, once: Once) -> Path:
    return built_failures(once, in_place, "failures of the toy decoder in place")


def built_failures(once: Once, bundle: Path, name: str) -> Path:
    need("ort-cpp")

    def fill(folder: Path) -> None:
        project = folder / "project"
        project.mkdir()
        (project / "CMakeLists.txt").write_text(FAILURES)
        build(project, folder, {"BUNDLE": str(bundle), "SOURCES": str(CPP)})

    return once(name, fill)


@pytest.mark.exhaustive
def test_whatever_fails_in_place_the_next_answer_is_right(failures_in_place: Path, in_place: Path) -> None:
    check_failures(failures_in_place, in_place, "decoder_failures")


def test_a_decoder_behind_an_encoder_knows_what_its_states_are(tmp_path: Path) -> None:
    toy_decoder.save(tmp_path / "toy", states=True)
    embedded(Bundle.open(tmp_path / "toy", trusted=True), "toy")
    expected = "DecoderPorts{0, 1, 2, 0, {{3, 1}, {4, 2}}, false, 6, 5, {{7, 3}, {8, 4}}}"
    assert f"return Decoder(session_, {expected});" in header(tmp_path / "toy")


@pytest.mark.exhaustive  # a program is built with sanitizers
def test_a_decoder_behind_an_encoder_writes_what_the_mathematics_say_whatever_fails(tmp_path: Path) -> None:
    need("ort-cpp")
    bundle, project = tmp_path / "toy", tmp_path / "project"
    toy_decoder.save(bundle, states=True)
    embedded(Bundle.open(bundle, trusted=True), "toy")
    project.mkdir()
    (project / "CMakeLists.txt").write_text(FAILURES.replace("decoder_failures class_failures", "attending"))
    build(project, tmp_path, {"BUNDLE": str(bundle), "SOURCES": str(CPP)})
    done = run(tmp_path / "attending", bundle / "model.onnx")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    lines = done.stdout.splitlines()
    masks = [1, 1, 1, 1, 1], [1, 1, 0, 1, 0]
    for text, (prompt, mask) in enumerate(zip(((3, 4, 9), (1, 2, 5)), masks, strict=True)):
        tokens = toy_decoder.written_behind(toy_decoder.states_of(2, 5)[text], mask, prompt, 12)
        assert lines[text].split() == [str(token) for token in tokens]
    counts = dict(line.split(": ", 1) for line in lines[2:])
    assert list(counts) == ["writing", "refusals", "failing allocations"], done.stdout
    assert all(count.endswith(", 0 wrong") for count in counts.values()), done.stdout


@pytest.mark.exhaustive  # programs are built with sanitizers
@pytest.mark.parametrize("program", TRIED)
def test_whatever_fails_the_next_answer_is_right(failures: Path, bundle: Path, program: str) -> None:
    """Refusals, and every allocation that can fail: a twin that never met them gives the same bits afterwards."""
    check_failures(failures, bundle, program)


def check_failures(failures: Path, bundle: Path, program: str) -> None:
    done = run(failures / program, bundle / "model.onnx")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    counts = dict(line.split(": ", 1) for line in done.stdout.splitlines())
    assert list(counts) == TRIED[program], done.stdout
    for what, count in counts.items():
        tried, wrong = re.fullmatch(r"(\d+), (\d+) wrong", count).groups()  # type: ignore[union-attr]
        assert int(tried) > (10 if what == "positions" else 50)
        assert int(wrong) == 0
