"""Models that hear beside text, in graphs of their own, held against the whole model of transformers."""

from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

import posenc_export
from helpers.own_generation import own_tokens, pictures_for
from helpers.scene_folders import saved_scene
from helpers.shared import Cli, Once
from helpers.sound_folders import HEARING, HEARS, saved_hearing
from helpers.whole_models import proved
from posenc.ports import Array
from posenc_export.bundle.folder import Bundle
from posenc_export.proof.generation import differences, token_writer
from posenc_models import ModelFolder

QUICK = ("audioflamingo3", "qwen2_audio")
"""Sounds of any length, by a mask, and embeddings that `forward` makes within itself."""
KINDS = [kind if kind in QUICK else pytest.param(kind, marks=pytest.mark.exhaustive) for kind in HEARING]


@pytest.fixture
def heard(once: Once, kind: str) -> Path:
    """The bundle of a small model that hears, which was proved."""
    return proved(once, saved_hearing(once, kind), HEARS, "quick" if kind in QUICK else "full")


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", QUICK)
def test_all_calls_are_tried_of_models_that_have_few_in_the_quick_run(once: Once, kind: str) -> None:
    assert proved(once, saved_hearing(once, kind), HEARS)


@pytest.mark.parametrize("kind", KINDS)
def test_tokens_behind_sounds_are_those_of_generate(once: Once, kind: str, heard: Path) -> None:
    """A sound, two sounds, another one and none: each alone, and all in a padded batch."""
    model, generations = posenc_export.load(heard), Bundle.open(heard).manifest.generations
    assert [len(list(chain.from_iterable(one.pictures))) for one in generations] == [1, 2, 1, 0, 4]
    for one in generations:
        count, sounds = len(one.tokens[0]), pictures_for(model, one)
        written = model.generate([list(prompt) for prompt in one.prompts], count, sounds=sounds or None)
        assert written == [list(row) for row in one.tokens]
        assert written == own_tokens(saved_hearing(once, kind), model, one, count)
    assert len(set(chain.from_iterable(generations[-1].tokens))) > 10, "they depend on what was read"


@pytest.mark.parametrize("kind", KINDS)
def test_sounds_in_places_of_others_change_tokens(heard: Path) -> None:
    model, generations = posenc_export.load(heard), Bundle.open(heard).manifest.generations
    graphs = model.scene
    assert graphs is not None

    def call(feeds: Any) -> dict[str, Array]:
        return {"audio_features": np.roll(graphs.tower.call(feeds)["audio_features"], 1, axis=0)}

    for tower, is_right in ((graphs.tower, True), (replace(graphs.tower, call=call), False)):
        parts = {"inputs_embeds": graphs.words, "audio_features": tower}
        writer = token_writer(graphs.decoder, parts.get, graphs.places)
        is_other = any(differences(writer, one)[0] for one in generations if any(one.pictures))
        assert is_other is not is_right


@pytest.mark.parametrize("kind", ["audioflamingo3"])
@pytest.mark.parametrize(
    "frames", [(32, 7, 31), (6, 8, 5), (4, 0, 0), (0, 0, 0)], ids=["many rows", "few", "one", "none"]
)
def test_rows_of_sounds_of_any_length(once: Once, kind: str, heard: Path, frames: tuple[int, ...]) -> None:
    """What pads sounds to one length gives no row, whatever it is."""
    model = posenc_export.load(heard)
    assert model.scene is not None
    spectra = np.random.default_rng(0).standard_normal((len(frames), 8, 32)).astype(np.float32)
    given = {"input_features": spectra, "input_features_mask": (np.arange(32) < np.array(frames)[:, None]).astype(int)}
    rows = model.scene.tower.call(given)["audio_features"]
    own: Any = transformers.AudioFlamingo3ForConditionalGeneration.from_pretrained(saved_hearing(once, kind)).eval()
    with torch.no_grad():
        expected = own.get_audio_features(**{name: torch.from_numpy(one) for name, one in given.items()}).pooler_output
    assert rows.shape == expected.shape
    np.testing.assert_allclose(rows, expected, atol=1e-5)


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", ["granite_speech"])
@pytest.mark.parametrize(
    "frames",
    [(1,), (6,), (7,), (10, 2), (11, 13, 30), (20, 20), (29, 6, 1)],
    ids=["one frame", "a block of rows", "one more", "a block", "parts of blocks", "full blocks", "few"],
)
def test_rows_of_sounds_in_blocks(once: Once, kind: str, heard: Path, frames: tuple[int, ...]) -> None:
    """10 frames attend to each other, 6 make 2 rows, and the last block of a batch may be any part of one."""
    model = posenc_export.load(heard)
    assert model.scene is not None
    spectra = np.random.default_rng(0).standard_normal((len(frames), max(frames), 8)).astype(np.float32)
    places = 2 * -(-np.array(frames)[:, None] // 6)
    present = np.arange(places.max()) < places
    rows = model.scene.tower.call({"input_features": spectra, "input_features_mask": present})["audio_features"]
    own: Any = transformers.GraniteSpeechForConditionalGeneration.from_pretrained(saved_hearing(once, kind)).eval()
    with torch.no_grad():
        expected = own.get_audio_features(torch.from_numpy(spectra)).pooler_output[torch.from_numpy(present)]
    assert rows.shape == expected.shape
    np.testing.assert_allclose(rows, expected, atol=1e-5 * float(expected.abs().max()))


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", ["qwen3_asr"])
@pytest.mark.parametrize(
    "frames",
    [(1,), (9, 100), (100, 200), (199, 401), (150, 333, 40, 600)],
    ids=["one frame", "part of a chunk", "full chunks", "more than a window", "several windows"],
)
def test_rows_of_sounds_in_windows(once: Once, kind: str, heard: Path, frames: tuple[int, ...]) -> None:
    """100 frames are a chunk, and the rows of two chunks attend to each other."""
    model = posenc_export.load(heard)
    assert model.scene is not None
    size = -(-max(frames) // 100) * 100
    spectra = np.random.default_rng(0).standard_normal((len(frames), 8, size)).astype(np.float32)
    given: dict[str, Array] = {
        "input_features": spectra,
        "input_features_mask": (np.arange(size) < np.array(frames)[:, None]).astype(np.int64),
    }
    rows = model.scene.tower.call(given)["audio_features"]
    own: Any = transformers.Qwen3ASRForConditionalGeneration.from_pretrained(saved_hearing(once, kind)).eval()
    with torch.no_grad():
        expected = own.get_audio_features(**{name: torch.from_numpy(one) for name, one in given.items()}).pooler_output
    assert rows.shape == expected.shape
    np.testing.assert_allclose(rows, expected, atol=1e-5 * float(expected.abs().max()))


UNFILLED: dict[str, tuple[Callable[[dict[str, Array]], dict[str, Any]], str]] = {
    "no sounds": (
        lambda _: {},
        r"the prompts have \d+ places of sounds \(id 5\): give sounds, as the model's processor",
    ),
    "images": (lambda sounds: {"images": sounds}, "sees no pictures: leave images out"),
    "the spectra alone": (
        lambda sounds: {"sounds": sounds["input_features"]},
        "sounds must be input_features, input_features_mask, got input_features",
    ),
    "more frames than the prompt has places for": (
        lambda sounds: {"sounds": sounds | {"input_features_mask": np.ones_like(sounds["input_features_mask"])}},
        r"input_ids have \d+ places of sounds \(id 5\), and the sounds fill \d+: give each sound as many places",
    ),
    "fewer masks than sounds": (
        lambda sounds: {"sounds": sounds | {"input_features_mask": sounds["input_features_mask"][:1]}},
        "input_features_mask has sounds 1, and input_features 2: give as many of each",
    ),
    "fewer frames than the tower takes": (
        lambda sounds: {"sounds": sounds | {"input_features": sounds["input_features"][..., :8]}},
        r"input_features must be \(sounds, 8, 32\), got the shape \(2, 8, 8\)",
    ),
}


@pytest.mark.parametrize("kind", ["audioflamingo3"])
@pytest.mark.parametrize(("given", "words"), UNFILLED.values(), ids=UNFILLED.keys())
def test_sounds_that_do_not_fill_their_places_are_refused(
    heard: Path, given: Callable[[dict[str, Array]], dict[str, Any]], words: str
) -> None:
    model, (_, two, *_) = posenc_export.load(heard), Bundle.open(heard).manifest.generations
    (prompt,), sounds = two.prompts, pictures_for(model, two)
    with pytest.raises(ValueError, match=words):
        model.generate(list(prompt), 2, **given(sounds))
    text = model.begin()
    with pytest.raises(ValueError, match=words):
        text.read(list(prompt), **given(sounds))
    assert len(text) == 0
    assert int(text.read(list(prompt), sounds=sounds)[-1].argmax()) == two.tokens[0][0]


def test_a_model_that_sees_hears_nothing(once: Once, cli: Cli, tmp_path: Path) -> None:
    result = cli("export", "--model", saved_scene(once, "gemma3"), "--task", HEARS, "-o", tmp_path / "b")
    assert result.exit_code == 2
    assert (
        "Gemma3ForConditionalGeneration is not exported with its sounds: it has no get_audio_features; "
        "--task text-generation writes its text alone"
    ) in result.output


def test_a_tower_of_sounds_that_reads_the_prompt_is_refused(once: Once, cli: Cli, tmp_path: Path) -> None:
    kind = "musicflamingo"
    words = "its get_audio_features takes input_features, input_features_mask, input_ids, kwargs"
    result = cli("export", "--model", saved_hearing(once, kind), "--task", HEARS, "-o", tmp_path / "b")
    assert result.exit_code == 2
    assert f"is not exported with its sounds: {words}; --task text-generation writes its text alone" in result.output
    ModelFolder.load(saved_hearing(once, kind), "text-generation").build()


def test_a_tower_that_reads_lengths_into_a_list_is_refused(
    once: Once, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here nothing takes the place of the function that asks for the ends of windows."""
    from posenc_models.vision.towers import sound_windows

    monkeypatch.setattr(sound_windows, "WINDOWS", "none_of_it")
    result = cli("export", "--model", saved_hearing(once, "qwen3_asr"), "--task", HEARS, "-o", tmp_path / "b")
    assert (result.exit_code, result.output.count("\n")) == (2, 1)
    assert "its tower reads lengths of sounds into a list, and a graph has no lists" in result.output


def test_padding_of_a_sound_that_is_not_left_out_is_found(
    once: Once, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here the tower takes padding for a sound: the whole model says other logits."""
    own: Any = transformers.AudioFlamingo3Encoder.forward

    def unmasked(self: Any, input_features: Any, input_features_mask: Any, **kwargs: Any) -> Any:
        return own(self, input_features, torch.ones_like(input_features_mask), **kwargs)

    from posenc_models.whole.scenes import Tower

    forward = Tower.forward

    def wrong(self: Any, *tensors: Any) -> Any:
        with monkeypatch.context() as patch:
            patch.setattr(transformers.AudioFlamingo3Encoder, "forward", unmasked)
            return forward(self, *tensors)

    monkeypatch.setattr(Tower, "forward", wrong)
    folder = saved_hearing(once, "audioflamingo3")
    result = cli("export", "--model", folder, "--task", HEARS, "-o", tmp_path / "b")
    assert result.exit_code == 2
    assert "its decoder reads more of a sound than embeddings (logits are off by" in result.output


def test_files_of_sounds_are_named_as_loaders_know_them(once: Once) -> None:
    """transformers.js has these names of files, of inputs and of outputs."""
    folder = ModelFolder.load(saved_hearing(once, "audioflamingo3"), HEARS)
    assert [folder.file, *(one.file for one in folder.others)] == [
        "decoder_model_merged",
        "audio_encoder",
        "embed_tokens",
    ]
    tower, words = (one.build(trial=False) for one in folder.others)
    assert tower.inputs == (
        "input_features: float32[sounds:batch, 8, 32]",
        "input_features_mask: int64[sounds:batch, 32] mask",
    )
    assert (tower.outputs, words.outputs) == (("audio_features",), ("inputs_embeds",))
