"""The C++ classes of models that see or hear: they write what `generate` of transformers does, whatever is refused."""

import os
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import posenc_export
from helpers.cpp_scenes import Conversation, bundle_in_cpp, folder_of, programs, rows_of
from helpers.embedded import run
from helpers.own_generation import own_tokens, pictures_for
from helpers.shared import Once, need
from posenc.ports import Array
from posenc_export.bundle.folder import Bundle
from posenc_export.bundle.manifest import Generation
from posenc_export.proof.loaded_model import LoadedModel
from posenc_export.proof.scenes import Picture, pictures_of

KINDS = ("llava", "qwen2_5_vl", "idefics3", "qwen2_audio")
"""Pictures of one size; of any grid, with positions in rows and columns; with masks of pixels; sounds with masks."""
MORE = ("qwen3_vl", "gemma3", "paligemma", "mistral3", "voxtral")
"""Vectors for layers, types of tokens, sizes in pixels, sounds of one length."""
WITHOUT_EXCEPTIONS = """
#include "llava.hpp"

int main() {
  posenc::llava::Graphs graphs;
  if (!graphs.load("b").ok()) return 1;
  auto text = graphs.text();
  const std::vector<float> pixels(768);
  const bool seen = text.try_see(posenc::llava::Text::Axes().with_images(1), pixels).ok();
  return seen && text.try_prefill({5, 5, 5, 5}).ok() ? 0 : 1;
}
"""
COUNT = 24
"""Tokens that are written."""


def loaded(once: Once, kind: str) -> LoadedModel:
    return posenc_export.load(bundle_in_cpp(once, kind))


def generations(once: Once, kind: str) -> tuple[Generation, ...]:
    return Bundle.open(bundle_in_cpp(once, kind)).manifest.generations


def arrays_of(model: LoadedModel, pictures: Sequence[Picture]) -> dict[str, Array]:
    assert model.scene is not None
    return pictures_of(model.scene.tower.inputs, pictures)


def begun(once: Once, kind: str, place: Path) -> Conversation:
    return Conversation(programs(once, kind) / "scenes", bundle_in_cpp(once, kind), place)


def test_classes_of_a_model_that_sees(once: Once, tmp_path: Path) -> None:
    """Each graph has its own; those of all stand in the header of the decoder, and compile without exceptions."""
    bundle = bundle_in_cpp(once, "llava")
    text = (bundle / "cpp" / "include" / "llava.hpp").read_text()
    for words in (
        '#include "llava_embed_tokens.hpp"\n#include "llava_vision_encoder.hpp"\n',
        "  Status try_see(\n      const Axes& axes,\n      Span<const float> pixel_values) noexcept {",
        'if (status.ok()) status = loaded_.tower.load(folder / "vision_encoder.onnx", options);',
        'SceneGraphs{&words.session(), &tower.session(), nullptr, 5, false, "picture"}',
    ):
        assert words in text
    assert "Decoder decoder() const" not in text, "what goes on with ids alone"
    of_tower = (bundle / "vision_encoder" / "cpp" / "include" / "llava_vision_encoder.hpp").read_text()
    assert "std::vector<Array> run(" in of_tower
    listed = {file.file for file in Bundle.open(bundle).manifest.files}
    assert {"cpp/pictures.hpp", "cpp/golden/generation0.pixel_values.bin", "vision_encoder/cpp/example.cpp"} <= listed
    need("header-cpp")
    (tmp_path / "used.cpp").write_text(WITHOUT_EXCEPTIONS)
    flags = ["-std=gnu++17", "-fsyntax-only", "-fno-exceptions", "-fno-rtti", "-Wall", "-Wextra", "-Wshadow", "-Werror"]
    folders = [bundle / part / "cpp" / "include" for part in ("", "vision_encoder", "embed_tokens")]
    flags += [f"-I{folder}" for folder in (*folders, bundle / "cpp" / "session" / "include")]
    done = run(os.environ.get("CXX", "c++"), *flags, tmp_path / "used.cpp")
    assert done.returncode == 0, done.stderr


@pytest.mark.exhaustive  # programs are built with sanitizers
@pytest.mark.parametrize("kind", [*KINDS, *MORE])
def test_tokens_behind_pictures_are_those_of_generate(once: Once, kind: str, tmp_path: Path) -> None:
    """One picture, a wide and a tall one, another one and none: each alone, all in a padded batch, in several parts."""
    model, recorded = loaded(once, kind), generations(once, kind)
    own = [own_tokens(folder_of(once, kind), model, one, COUNT) for one in recorded]
    talk = begun(once, kind, tmp_path)
    written = []
    for one in recorded:
        talk.say("text")
        talk.say("part 4")
        pictures = pictures_for(model, one)
        if pictures:
            talk.sense(pictures)
        lengths = " ".join(str(len(prompt)) for prompt in one.prompts)
        talk.say("batch", lengths, ":", *chain.from_iterable(one.prompts))
        written.append((talk.say("write", COUNT), len(one.prompts)))
    answers = talk.answers()
    assert [rows_of(answers[line], texts) for line, texts in written] == own
    assert [[list(row[:COUNT]) for row in one.tokens] for one in recorded] == own
    assert len(set(chain.from_iterable(recorded[-1].tokens))) > 10, "they depend on what was read"
    done = run(programs(once, kind) / "generation", talk.bundle / "model.onnx", "cpu", talk.bundle / "cpp" / "golden")
    assert (done.stderr, done.stdout.endswith(" tokens, 0 differ\n")) == ("", True), done.stdout + done.stderr


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", KINDS)
def test_pictures_are_seen_one_by_one_as_at_once(once: Once, kind: str, tmp_path: Path) -> None:
    model, (_, two, *_) = loaded(once, kind), generations(once, kind)
    assert len(two.pictures[0]) == 2
    talk = begun(once, kind, tmp_path)
    said = []
    for calls in ([[one] for one in two.pictures[0]], [list(two.pictures[0])]):
        talk.say("text")
        for pictures in calls:
            talk.sense(arrays_of(model, pictures))
        talk.say("prefill", *two.prompts[0])
        said.append((talk.say("say"), talk.say("write", COUNT)))
    answers = talk.answers()
    (one_by_one, at_once) = ([answers[line] for line in lines] for lines in said)
    assert one_by_one[1] == at_once[1]
    assert one_by_one[0].startswith(f"0 places, {len(two.prompts[0])} tokens, 1 texts")


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", [*KINDS, "qwen3_vl", "gemma3"])
def test_a_second_turn_with_a_picture_goes_on_behind_the_cache(once: Once, kind: str, tmp_path: Path) -> None:
    """What transformers writes behind the whole conversation: its model reads it at once."""
    model, (first, _, third, *_) = loaded(once, kind), generations(once, kind)
    talk = begun(once, kind, tmp_path)
    talk.say("text")
    talk.sense(arrays_of(model, list(first.pictures[0])))
    talk.say("prefill", *first.prompts[0])
    (answer,) = own_tokens(folder_of(once, kind), model, first, 6)
    written = talk.say("write", 6)
    talk.sense(arrays_of(model, list(third.pictures[0])))
    talk.say("prefill", *third.prompts[0])
    behind = talk.say("write", COUNT)
    whole = Generation(
        ((*first.prompts[0], *answer, *third.prompts[0]),), (), (), ((*first.pictures[0], *third.pictures[0]),)
    )
    answers = talk.answers()
    assert [int(token) for token in answers[written].split()] == answer
    if kind == "gemma3":  # pictures of a whole text see each other there, so that one call is another model than two
        text = model.begin()
        text.read(first.prompts[0], images=arrays_of(model, list(first.pictures[0])))
        for token in answer:
            text.read([token])
        logits = text.read(third.prompts[0], images=arrays_of(model, list(third.pictures[0])))
        tokens = []
        for _ in range(COUNT):
            tokens.append(int(logits[-1].argmax()))
            logits = text.read(tokens[-1:])
    else:
        (tokens,) = own_tokens(folder_of(once, kind), model, whole, COUNT)
    assert [int(token) for token in answers[behind].split()] == tokens


def wrong_calls(talk: Conversation, model: LoadedModel, one: Generation, *, is_begun: bool) -> list[tuple[int, str]]:
    """Add lines of what no text takes, whatever it has read; return the number of each with what it must say."""
    assert model.scene is not None
    token, picture = model.scene.places.token, model.scene.places.sense.picture
    words = [id_ for id_ in one.prompts[0] if id_ != token]
    places = len(one.prompts[0]) - len(words)
    arrays = arrays_of(model, list(one.pictures[0]))
    pixels = next(iter(arrays))
    have, of_batch = (
        f"ids have {{}} of {picture}s (id {token}), and ",
        "a batch begins with its prompts: clear the texts",
    )
    none = f"{have}no {picture} waits for a prompt: give the {picture}s first"
    fill = f"{have}the {picture}s fill {places}: give each {picture} as many places as its tower makes rows"
    said = [
        (talk.say("prefill", *one.prompts[0]), none.format(f"{places} places")),
        (talk.say("batch 1 1 :", words[0], token), of_batch if is_begun else none.format("1 place")),
        (talk.sense({**arrays, pixels: arrays[pixels][..., :-1]}), f"input '{pixels}'"),
        (talk.say("prefill 999999"), "out of range"),
    ]
    talk.sense(arrays)
    return [
        *said,
        (talk.say("prefill", *words), fill.format("0 places")),
        (talk.say("prefill", *one.prompts[0], token), fill.format(f"{places + 1} places")),
        (talk.say("batch", len(words), "1 :", *words, token), of_batch if is_begun else fill.format("1 place")),
    ]


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_refused_is_one_line_and_changes_nothing(once: Once, kind: str, tmp_path: Path) -> None:
    model, (one, *_) = loaded(once, kind), generations(once, kind)
    talk = begun(once, kind, tmp_path)
    pictures = arrays_of(model, list(one.pictures[0]))
    places = sum(id_ == model.scene.places.token for id_ in one.prompts[0])  # type: ignore[union-attr]
    kept, written, refused = [], [], []
    for with_wrong_calls in (False, True):
        talk.say("text")
        before = talk.say("say")
        if with_wrong_calls:
            refused += wrong_calls(talk, model, one, is_begun=False)
        else:
            talk.sense(pictures)
        kept.append((before, talk.say("say")))
        talk.say("prefill", *one.prompts[0])
        talk.say("write 3")
        again = talk.say("say")
        if with_wrong_calls:
            talk.say("step 999999")
            talk.say("rewind 999999")
            refused += wrong_calls(talk, model, one, is_begun=True)
            # the pictures wait: a step leaves them where they are, and clear forgets them
            kept.append((again, talk.say("say")))
        talk.say("write", COUNT)
        written.append(talk.say("say"))
        written.append(talk.say("clear"))
        talk.say("say")
        talk.sense(pictures)
        talk.say("prefill", *one.prompts[0])
        written.append(talk.say("write", COUNT))
    answers = talk.answers()
    for line, words in refused:
        assert words in answers[line], talk.lines[line]
    for before, after in kept:
        assert answers[after] == answers[before].replace("0 places", f"{places} places")
    half = len(written) // 2
    assert [answers[line].replace(f"{places} places", "0 places") for line in written[half:]] == [
        answers[line] for line in written[:half]
    ]


@pytest.mark.exhaustive
def test_grids_fill_their_pixels_and_their_places(once: Once, tmp_path: Path) -> None:
    model, (one, two, *_) = loaded(once, "qwen2_5_vl"), generations(once, "qwen2_5_vl")
    talk = begun(once, "qwen2_5_vl", tmp_path)
    pictures = arrays_of(model, list(one.pictures[0]))
    patches = len(pictures["pixel_values"])
    talk.say("text")

    def given(grids: list[list[int]]) -> int:
        return talk.sense({**pictures, "image_grid_thw": np.array(grids, np.int64)})

    said = {
        given(
            [[1, patches, 2]]
        ): f"'image_grid_thw' has grids of {2 * patches} patches in all, and 'pixel_values' has {patches}",
        given([[1, 1, patches]]): "for picture 0: expected steps, rows and columns, the last two multiples of 2",
        given([[1, -2, -patches // 2]]): "for picture 0: expected steps, rows and columns",
        given([[1, 2**40, 2**40]]): "'image_grid_thw' has grids of too many patches in all",
    }
    # two pictures whose rows are as many as the places, each of which has other places than its grid
    flipped = [tuple(two.pictures[0])[::-1]]
    talk.sense(arrays_of(model, list(flipped[0])))
    before = talk.say("say")
    line = talk.say("prefill", *two.prompts[0])
    after = talk.say("say")
    talk.say("clear")
    talk.sense(arrays_of(model, list(two.pictures[0])))
    talk.say("prefill", *two.prompts[0])
    tokens = talk.say("write", COUNT)
    answers = talk.answers()
    for number, words in said.items():
        assert words in answers[number]
    assert answers[line] == (
        "a row of places in the ids is not as long as its grid says: expected a grid for each picture, in the order of "
        "their places"
    )
    assert answers[after] == answers[before]
    (own,) = own_tokens(folder_of(once, "qwen2_5_vl"), model, two, COUNT)
    assert [int(token) for token in answers[tokens].split()] == own


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", ["qwen2_5_vl", "llava"])
def test_a_text_with_pictures_goes_back_and_is_copied(once: Once, kind: str, tmp_path: Path) -> None:
    """Positions behind a picture follow from its grid, which is not kept; an answer is written again."""
    model, (one, *_) = loaded(once, kind), generations(once, kind)
    talk = begun(once, kind, tmp_path)
    size = len(one.prompts[0])
    talk.say("text")
    talk.sense(arrays_of(model, list(one.pictures[0])))
    first = talk.say("read", *one.prompts[0])
    talk.say("keep")
    tokens = [talk.say("write", COUNT)]
    into = talk.say("rewind 3")
    talk.say("rewind", size)
    last = talk.say("step 9")
    tokens_behind = [talk.say("write", COUNT)]
    talk.say("back")
    tokens.append(talk.say("write", COUNT))
    talk.say("back")
    talk.say("step 9")
    tokens_behind.append(talk.say("write", COUNT))
    talk.say("rewind 0")
    talk.sense(arrays_of(model, list(one.pictures[0])))
    talk.say("prefill", *one.prompts[0])
    tokens.append(talk.say("write", COUNT))
    answers = talk.answers()
    if kind == "qwen2_5_vl":
        assert answers[into] == (
            "positions of the first 3 tokens alone are not kept, since pictures were read: rewind to 0, or to "
            f"{size} or more, or go on with a copy that was made there"
        )
        assert answers[last] == "fine"
        assert len({answers[line] for line in tokens_behind}) == 1
    else:
        assert answers[into] == "fine"
    (own,) = own_tokens(folder_of(once, kind), model, one, COUNT)
    assert {tuple(map(int, answers[line].split())) for line in tokens} == {tuple(own)}
    scored: Any = model.begin().read(one.prompts[0], images=arrays_of(model, list(one.pictures[0])))
    assert [int(token) for token in answers[first].split()] == scored.argmax(-1).tolist()


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", ["qwen2_5_vl", "llava"])
def test_memory_of_what_the_tower_gives_is_given_back(once: Once, kind: str, tmp_path: Path) -> None:
    """Behind the prompt that read it, and where clear forgets it."""
    model, (one, *_) = loaded(once, kind), generations(once, kind)
    assert model.scene is not None
    features = model.scene.tower.call(arrays_of(model, list(one.pictures[0])))["image_features"]
    prompt, count = one.prompts[0], 10
    talk = begun(once, kind, tmp_path)
    folder = talk.lines[talk.sense(arrays_of(model, list(one.pictures[0])))]
    talk.lines.clear()
    talk.say("text")
    marks = []
    for _ in range(3):  # in the first round, what is kept between calls grows
        marks.append([talk.say("memory")])
        for _ in range(count):
            talk.say(folder)
        marks[-1].append(talk.say("memory"))
        talk.say("clear")
        marks[-1].append(talk.say("memory"))
        for _ in range(count):
            talk.say(folder)
        talk.say("prefill", *chain.from_iterable([prompt] * count))
        marks[-1].append(talk.say("memory"))
    answers = talk.answers()
    assert "fine" in answers[marks[-1][-1] - 1]
    before, waiting, cleared, read = (int(answers[line]) for line in marks[-1])
    assert waiting - before >= count * features.nbytes
    assert cleared - before < features.nbytes
    assert read - before < features.nbytes


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", ["qwen2_5_vl", "llava"])
def test_whatever_fails_the_next_answer_is_right(once: Once, kind: str) -> None:
    """Every allocation that can fail: a twin that never met it gives the same bits afterwards."""
    bundle, (one, *_) = bundle_in_cpp(once, kind), generations(once, kind)
    golden = bundle / "cpp" / "golden"
    done = run(programs(once, kind) / "scene_failures", bundle, golden, *one.prompts[0])
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    counts = dict(line.split(": ", 1) for line in done.stdout.splitlines())
    assert list(counts) == ["an allocation fails", "all allocations fail from one on", "loading"], done.stdout
    assert all(count.endswith(", 0 wrong") for count in counts.values()), done.stdout
    assert all(int(counts[name].split(",")[0]) > 100 for name in list(counts)[:2]), done.stdout
