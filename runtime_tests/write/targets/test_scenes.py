"""Models that see: a tower, words and a decoder in graphs of their own, held against the whole of transformers."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
import transformers
from onnx import numpy_helper
from safetensors.torch import save_file

import posenc_export
from helpers.model_folders import refused_without_torch
from helpers.own_generation import own_tokens, pictures_for
from helpers.scene_folders import IMAGE, SCENES, TASK, saved_scene
from helpers.shared import Cli, Once
from helpers.whole_models import proved
from posenc.ports import Array
from posenc_export.bundle.folder import Bundle
from posenc_export.proof.callees import Callee
from posenc_export.proof.generation import TokenWriter, differences, recorded, token_writer
from posenc_export.proof.scenes import SceneGraphs, pictures_of
from posenc_models import ModelFolder

QUICK = ("gemma3", "qwen2_5_vl")
"""Pictures of one size, whose tokens see each other, and pictures of any grid with positions in rows and columns."""
LEFT_OUT = ("gemma4", "llama4")
"""Pictures with positions of their own, and a tower that splits them into lists."""
SEEN = [kind for kind in SCENES if kind not in LEFT_OUT]
KINDS = [kind if kind in QUICK else pytest.param(kind, marks=pytest.mark.exhaustive) for kind in SEEN]


@pytest.fixture
def bundle(once: Once, kind: str) -> Path:
    """The bundle of a small model, which was proved."""
    return proved(once, saved_scene(once, kind), TASK, "quick" if kind in QUICK else "full")


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", QUICK)
def test_all_calls_are_tried_of_models_that_have_few_in_the_quick_run(once: Once, kind: str) -> None:
    assert proved(once, saved_scene(once, kind), TASK)


@pytest.mark.parametrize("kind", KINDS)
def test_tokens_behind_pictures_are_those_of_generate(once: Once, kind: str, bundle: Path) -> None:
    """One picture, a wide and a tall one, several steps and none: each alone, and all in a padded batch."""
    model, generations = posenc_export.load(bundle), Bundle.open(bundle).manifest.generations
    assert [len(one.prompts) for one in generations] == [1, 1, 1, 1, 4]
    for one in generations:
        count = len(one.tokens[0])
        images = pictures_for(model, one) or None
        written = model.generate([list(prompt) for prompt in one.prompts], count, images=images)
        assert written == [list(row) for row in one.tokens]
        assert written == own_tokens(saved_scene(once, kind), model, one, count)
    assert len(set(chain.from_iterable(generations[-1].tokens))) > 10, "they depend on what was read"


@pytest.mark.parametrize("kind", QUICK)
def test_a_text_goes_on_behind_pictures(bundle: Path) -> None:
    """A second turn, with a picture of its own: what was read piece by piece is what is read at once."""
    model, (_, two, *_) = posenc_export.load(bundle), Bundle.open(bundle).manifest.generations
    assert model.scene is not None
    (prompt,), (pictures,) = two.prompts, two.pictures
    tower = model.scene.tower.inputs
    cut = max(place for place, id_ in enumerate(prompt[: prompt.index(IMAGE) + 40]) if id_ != IMAGE and place < 9)
    first = sum(id_ == IMAGE for id_ in prompt[:cut])
    seen = next(n for n in range(len(pictures) + 1) if sum(map(model.scene.rows_of, pictures[:n])) == first)
    whole = model.begin().read(prompt, images=pictures_of(tower, pictures))
    text = model.begin()
    parts = [
        text.read(prompt[:cut], images=pictures_of(tower, pictures[:seen]) or None),
        text.read(prompt[cut:], images=pictures_of(tower, pictures[seen:]) or None),
    ]
    np.testing.assert_allclose(np.concatenate(parts), whole, atol=1e-4 * np.abs(whole).max())


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", ["qwen2_5_vl"])
def test_a_fused_decoder_lies_beside_graphs_that_have_no_cache(
    once: Once, kind: str, bundle: Path, tmp_path: Path
) -> None:
    """Neither its tower nor its positions attend to cached tokens: they are written as ever."""
    folder = ModelFolder.load(saved_scene(once, kind), TASK)
    result = posenc_export.export(
        folder, to=tmp_path / "b", formats=("onnx",), runtimes=("ort-cpu",), attention_op="microsoft", proof="quick"
    )
    assert result.passed, str(result)
    plain, fused = posenc_export.load(bundle), posenc_export.load(tmp_path / "b")
    for one in Bundle.open(bundle).manifest.generations[:-1]:
        images = pictures_for(plain, one) or None
        expected = [list(row[:24]) for row in one.tokens]
        assert fused.generate([list(prompt) for prompt in one.prompts], 24, images=images) == expected


@pytest.mark.parametrize("kind", ["qwen2_5_vl"])
def test_a_text_with_pictures_goes_back_to_its_beginning_alone(bundle: Path) -> None:
    """Positions behind a picture follow from its grid, of which the first tokens do not know."""
    model, (first, *_) = posenc_export.load(bundle), Bundle.open(bundle).manifest.generations
    text = model.begin()
    logits = text.read(first.prompts[0], images=pictures_for(model, first))
    with pytest.raises(ValueError, match="pictures were read, and positions of the first 3 tokens alone are not kept"):
        text.rewind(3)
    text.rewind(0)
    np.testing.assert_array_equal(text.read(first.prompts[0], images=pictures_for(model, first)), logits)
    plain = model.begin()
    read = plain.read([9, 10, 11])
    plain.rewind(2)
    np.testing.assert_allclose(plain.read([11])[-1], read[-1], atol=1e-4)


def test_what_is_not_written_for_models_that_see_is_refused_at_once(once: Once, tmp_path: Path) -> None:
    folder = saved_scene(once, "gemma3")
    option = ("--runtime-config", "genai")
    line = refused_without_torch("--model", str(folder), "--task", TASK, *option, "-o", str(tmp_path / "b"))
    assert "--runtime-config genai is for text-generation with a cache" in line


@pytest.mark.parametrize("kind", QUICK)
def test_a_token_that_was_written_is_a_word_whatever_its_id(bundle: Path) -> None:
    """`generate` goes on behind the id of a place that it wrote; `read` takes it alone, as a step, and in no prompt."""
    model, (one, *_) = posenc_export.load(bundle), Bundle.open(bundle).manifest.generations
    text = model.begin()
    logits = text.read(one.prompts[0], images=pictures_for(model, one))
    for token in one.tokens[0]:
        assert int(logits[-1].argmax()) == token
        logits = text.read([token])
    text.read([IMAGE])
    with pytest.raises(ValueError, match="the prompts have 1 places of pictures"):
        text.read([IMAGE, 9])
    with pytest.raises(ValueError, match="the prompts have 1 places of pictures"):
        model.begin().read([IMAGE])


@pytest.mark.parametrize("kind", ["gemma3"])
def test_pictures_of_unlike_sizes_are_one_line(bundle: Path) -> None:
    pictures = [np.zeros((3, side, side), np.float32) for side in (16, 8)]
    with pytest.raises(ValueError, match=r"^pixel_values must be \(images, 3, 16, 16\), got no array: [^\n]+$"):
        posenc_export.load(bundle).generate([9, *[IMAGE] * 8], 2, images=pictures)
    with pytest.raises(ValueError, match=r"^pixel_values must be \(images, 3, 16, 16\), got the shape \(1, 3, 8, 8\)$"):
        posenc_export.load(bundle).generate([9, *[IMAGE] * 4], 2, images=pictures[1:])


@pytest.mark.parametrize("kind", ["qwen2_5_vl"])
@pytest.mark.parametrize(
    ("grid", "words"),
    [
        ([1, 8, 2], "image_grid_thw has grids of 16 patches in all, and pixel_values has 24: expected as many"),
        ([1, 3, 8], "image_grid_thw has (1, 3, 8) for picture 0: expected steps, rows and columns, the last two "),
        ([1, -4, -6], "image_grid_thw has (1, -4, -6) for picture 0: expected steps, rows and columns, the last two"),
        ([1, 2**40, 2**40], "patches in all, and pixel_values has 24: expected as many"),
    ],
)
def test_grids_that_pixels_do_not_fill_are_one_line(bundle: Path, grid: list[int], words: str) -> None:
    model, (one, *_) = posenc_export.load(bundle), Bundle.open(bundle).manifest.generations
    images = {**pictures_for(model, one), "image_grid_thw": np.array([grid])}
    assert len(images["pixel_values"]) == 24
    with pytest.raises(ValueError, match=r"^[^\n]+$") as refused:
        model.generate(list(one.prompts[0]), 2, images=images)
    assert words in str(refused.value)


Change = Callable[[SceneGraphs], SceneGraphs]


def rewired(part: str, change: Callable[[dict[str, Array]], Mapping[str, Array]], *, before: bool = False) -> Change:
    """Return what changes what goes into a graph of a model, or what comes out of it."""

    def made(graphs: SceneGraphs) -> SceneGraphs:
        callee: Callee = getattr(graphs, part)

        def call(feeds: Mapping[str, Array]) -> Mapping[str, Array]:
            return callee.call(change(dict(feeds))) if before else change(dict(callee.call(feeds)))

        changed: Any = {part: replace(callee, call=call)}
        return replace(graphs, **changed)

    return made


def shifted(out: dict[str, Array]) -> dict[str, Array]:
    return out | {"image_features": np.roll(out["image_features"], 1, axis=0)}


def transposed(feeds: dict[str, Array]) -> dict[str, Array]:
    return feeds | {"image_grid_thw": feeds["image_grid_thw"][:, [0, 2, 1]]}


def counted_on(feeds: dict[str, Array]) -> dict[str, Array]:
    ids, mask = feeds["input_ids"], feeds["attention_mask"]
    positions = np.maximum(mask.cumsum(1) - 1, 0)[:, -ids.shape[1] :]
    return {"position_ids": np.stack([positions] * 3), "rope_deltas": np.zeros((len(ids), 1), np.int64)}


def no_positions(graphs: SceneGraphs) -> SceneGraphs:
    assert graphs.positions is not None
    return replace(graphs, positions=replace(graphs.positions, call=lambda feeds: counted_on(dict(feeds))))


WRONG: Mapping[str, tuple[str, Change]] = {
    "features shifted by one token": ("gemma3", rewired("tower", shifted)),
    "types of pictures left out": (
        "gemma3",
        rewired("decoder", lambda feeds: feeds | {"token_type_ids": 0 * feeds["token_type_ids"]}, before=True),
    ),
    "the grid transposed for the tower": ("qwen2_5_vl", rewired("tower", transposed, before=True)),
    "the grid transposed for positions": ("qwen2_5_vl", rewired("positions", transposed, before=True)),
    "rows and columns exchanged": (
        "qwen2_5_vl",
        rewired("positions", lambda out: out | {"position_ids": out["position_ids"][[0, 2, 1]]}),
    ),
    "positions counted on through pictures": ("qwen2_5_vl", no_positions),
    "what pictures add forgotten": (
        "qwen2_5_vl",
        rewired("positions", lambda out: out | {"rope_deltas": 0 * out["rope_deltas"]}),
    ),
}


def writes_others(bundle: Path, change: Change) -> bool:
    """Return whether the graphs of a bundle, changed, write other tokens behind pictures than were recorded."""
    model, generations = posenc_export.load(bundle), Bundle.open(bundle).manifest.generations
    assert model.scene is not None
    parts, graphs = {"inputs_embeds": model.scene.words}, change(model.scene)
    named = parts | {"image_features": graphs.tower, "position_ids": graphs.positions}
    writer = token_writer(graphs.decoder, named.get, graphs.places)
    return any(differences(writer, one)[0] for one in generations if any(one.pictures))


@pytest.mark.parametrize("kind", QUICK)
def test_graphs_that_are_put_together_here_write_the_same_tokens(bundle: Path) -> None:
    assert not writes_others(bundle, lambda graphs: graphs)


@pytest.mark.parametrize(("kind", "change"), WRONG.values(), ids=WRONG.keys())
def test_graphs_that_are_put_together_wrongly_write_other_tokens(bundle: Path, change: Change) -> None:
    assert writes_others(bundle, change)


@pytest.mark.parametrize("kind", QUICK)
def test_prompts_alone_are_recorded_by_two_calls_each(bundle: Path) -> None:
    """What is written may look like places of pictures: it goes in behind the prompt, and not with it."""
    model, generations = posenc_export.load(bundle), Bundle.open(bundle).manifest.generations
    assert model.scene is not None
    decoder, sizes = model.scene.decoder, list[int]()

    def call(feeds: Mapping[str, Array]) -> Mapping[str, Array]:
        sizes.append(feeds["inputs_embeds"].shape[1])
        return decoder.call(feeds)

    scene = replace(model.scene, decoder=replace(decoder, call=call))
    found = recorded(TokenWriter(scene.callee(), None, scene), replace(generations[-1], tokens=()), 5)
    assert [one.tokens for one in found] == [tuple(row[:5] for row in one.tokens) for one in generations]
    lengths = [len(prompt) for prompt in generations[-1].prompts]
    *seeing, text = lengths
    assert sizes == [max(lengths), 1, 1, 1, 1, *chain.from_iterable((length, 4) for length in seeing), text + 4]


REFUSED: Mapping[str, tuple[Callable[[dict[str, Array]], Any], str]] = {
    "no pictures": (lambda _: None, r"the prompts have \d+ places of pictures \(id 5\): give images"),
    "too few": (
        lambda images: images | {"pixel_values": images["pixel_values"][:1]},
        r"input_ids have \d+ places of pictures \(id 5\), and the pictures fill \d+: give each picture as many places",
    ),
    "another name": (lambda images: {"pixels": images["pixel_values"]}, "images must be pixel_values, got pixels"),
    "another shape": (
        lambda images: images["pixel_values"][..., :8],
        r"pixel_values must be \(images, 3, 16, 16\), got the shape \(2, 3, 16, 8\)",
    ),
}


@pytest.mark.parametrize("kind", ["gemma3"])
@pytest.mark.parametrize(("change", "words"), REFUSED.values(), ids=REFUSED.keys())
def test_pictures_that_do_not_fill_their_places_are_refused(
    bundle: Path, change: Callable[[dict[str, Array]], Any], words: str
) -> None:
    model, (_, two, *_) = posenc_export.load(bundle), Bundle.open(bundle).manifest.generations
    images = pictures_for(model, two)
    with pytest.raises(ValueError, match=words):
        model.generate([list(prompt) for prompt in two.prompts], 2, images=change(images))
    text = model.begin()
    with pytest.raises(ValueError, match=words):
        text.read(two.prompts[0], images=change(images))
    assert len(text) == 0
    assert model.generate([list(prompt) for prompt in two.prompts], 2, images=images) == [list(two.tokens[0][:2])]


@pytest.mark.parametrize("kind", ["qwen2_5_vl"])
@pytest.mark.parametrize("grid", [[1, 4, 4], [1, 2, 2], [1, 2, 2**40]])
def test_a_tower_refuses_a_grid_that_the_pixels_do_not_fill(bundle: Path, grid: list[int]) -> None:
    model = posenc_export.load(bundle)
    assert model.scene is not None
    pictures = pictures_of(model.scene.tower.inputs, [(1, 1, 2, 4)])
    with pytest.raises(Exception, match="indices element out of data bounds"):
        model.scene.tower.call(pictures | {"image_grid_thw": np.array([grid])})


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (
            "qwen3_vl_moe",
            "its get_rope_index gives a token several positions, and its config says no mrope_section or "
            "xdrope_section",
        ),
        (
            "ernie4_5_vl_moe",
            "its tower takes one time step of a picture, and graphs here take any number of them",
        ),
    ],
)
def test_what_a_model_lacks_is_said(once: Once, cli: Cli, tmp_path: Path, kind: str, words: str) -> None:
    result = cli("export", "--model", saved_scene(once, kind), "--task", TASK, "-o", tmp_path / "b")
    assert (result.exit_code, result.output.count("\n")) == (2, 1)
    assert f"is not exported with its images: {words}; --task text-generation writes its text alone" in result.output


@pytest.mark.parametrize("kind", LEFT_OUT)
def test_a_tower_that_is_not_called_is_refused(once: Once, cli: Cli, tmp_path: Path, kind: str) -> None:
    result = cli("export", "--model", saved_scene(once, kind), "--task", TASK, "-o", tmp_path / "b")
    assert (result.exit_code, result.output.count("\n")) == (2, 1)
    assert "is not exported with its images: a call with pixel_values fails in its code" in result.output


def test_a_tower_that_no_method_calls_is_refused(once: Once, cli: Cli, tmp_path: Path) -> None:
    """Kosmos-2.5 takes a mask of places, and its config says no token for one."""
    result = cli("export", "--model", saved_scene(once, "kosmos-2.5"), "--task", TASK, "-o", tmp_path / "b")
    assert (result.exit_code, result.output.count("\n")) == (2, 1)
    assert (
        "Kosmos2_5ForConditionalGeneration is not exported with its images: it has no get_image_features; "
        "--task text-generation writes its text alone"
    ) in result.output


def test_positions_begin_where_the_model_itself_begins(once: Once) -> None:
    """`generate` gives Kosmos-2.5 no positions: its first is the number behind that of its token for padding."""
    folder, prompt = saved_scene(once, "kosmos-2.5"), [9, 20, 12, 7, 3]
    model = posenc_export.load(proved(once, folder, "text-generation"))
    own: Any = transformers.Kosmos2_5ForConditionalGeneration.from_pretrained(folder).eval()
    with torch.no_grad():
        logits = own(input_ids=torch.tensor([prompt])).logits[0].numpy()
        written = own.generate(torch.tensor([prompt]), max_new_tokens=60, min_new_tokens=60, do_sample=False)
    expected = written[0, len(prompt) :].tolist()
    assert model.generate(prompt, 60) == expected
    assert len(set(expected)) > 3
    np.testing.assert_allclose(model.begin().read(prompt), logits, atol=1e-5 * np.abs(logits).max())


GEMMA = {
    "architectures": ["Gemma3nForConditionalGeneration"],
    "model_type": "gemma3n",
    "text_config": {"model_type": "gemma3n_text"},
    "vision_config": {"model_type": "gemma3n_vision"},
    "audio_config": {"model_type": "gemma3n_audio"},
}


def test_a_tower_of_a_library_that_is_not_there_is_named(cli: Cli, tmp_path: Path) -> None:
    """timm has the tower of Gemma 3n: transformers cannot build the model without it."""
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text(json.dumps(GEMMA), encoding="utf-8")
    save_file({"model.x": torch.zeros(1)}, tmp_path / "model" / "model.safetensors")
    result = cli("export", "--model", tmp_path / "model", "--task", TASK, "-o", tmp_path / "b")
    assert (result.exit_code, result.output.count("\n")) == (2, 1)
    assert "TimmWrapperModel requires the timm library" in result.output


def test_a_model_whose_decoder_reads_more_than_embeddings_is_refused(
    once: Once, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The vectors that its layers add are forgotten here: the whole model says other logits."""
    from posenc_models.whole import scenes

    monkeypatch.setattr(scenes, "LAYERS_OF", "none_of_it")
    result = cli("export", "--model", saved_scene(once, "qwen3_vl"), "--task", TASK, "-o", tmp_path / "b")
    assert result.exit_code == 2
    assert "its decoder reads more of a picture than embeddings (logits are off by" in result.output


def test_what_goes_in_is_named_as_loaders_know_it(once: Once) -> None:
    """transformers.js has these names of files, of inputs and of outputs."""
    folder = ModelFolder.load(saved_scene(once, "gemma3"), TASK)
    assert [folder.file, *(one.file for one in folder.others)] == [
        "decoder_model_merged",
        "vision_encoder",
        "embed_tokens",
    ]
    tower, words = (one.build(trial=False) for one in folder.others)
    assert (tower.inputs, tower.outputs) == (("pixel_values: float32[images:batch, 3, 16, 16]",), ("image_features",))
    assert words.outputs == ("inputs_embeds",)


@pytest.mark.parametrize("kind", ["qwen2_5_vl"])
def test_rows_of_pictures_are_named(bundle: Path) -> None:
    """No input has as many: a square of patches makes one."""
    tower = Bundle.open(bundle).part_with("image_features")
    assert tower is not None
    assert [str(port) for port in tower.manifest.outputs] == ["image_features: float32[image_tokens, 32]"]


def test_a_tower_whose_patches_have_a_time_too_keeps_its_own_angles(once: Once) -> None:
    """Its module takes any number of axes: with rows and columns alone, ours gave the same numbers."""
    folder = saved_scene(once, "minimax_m3_vl")
    tower = ModelFolder.load(folder, TASK).others[0].build()
    assert any("three axes of 2 frequencies fit into its heads of 16" in note for note in tower.notes)
    own: Any = transformers.AutoModelForImageTextToText.from_pretrained(folder).eval()
    pixels, grids = torch.randn(24, 96), torch.tensor([[1, 2, 4], [1, 4, 4]])
    with torch.no_grad():
        expected = torch.cat(list(own.get_image_features(pixels, image_grid_thw=grids, return_dict=True).pooler_output))
        (rows,) = tower.module(pixels, grids)
    torch.testing.assert_close(rows, expected, atol=1e-4 * float(expected.abs().max()), rtol=0)


def test_a_replacement_with_other_angles_is_refused(
    once: Once, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the whole model says before anything is put into it decides, not what it says afterwards."""
    from posenc_models.replacing.modules import PatchCosSin

    real = PatchCosSin.forward
    monkeypatch.setattr(PatchCosSin, "forward", lambda self, x, places: real(self, x, places.flip(-1)))
    first = lambda original, candidates, at: candidates[0].module  # noqa: E731
    monkeypatch.setattr("posenc_models.replacing.patches.fitting", first)
    result = cli("export", "--model", saved_scene(once, "qwen2_5_vl"), "--task", TASK, "-o", tmp_path / "b")
    assert result.exit_code == 2
    assert "logits are off by" in result.output


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", ["gemma3"])
@pytest.mark.parametrize("file", ["vision_encoder", "embed_tokens", "decoder_model_merged"])
def test_each_file_is_proved_as_one_of_another_program(
    once: Once, file: str, bundle: Path, cli: Cli, tmp_path: Path
) -> None:
    """A right file passes; with its largest matrix a hundredth larger it does not."""
    folder, path = saved_scene(once, "gemma3"), tmp_path / f"{file}.onnx"
    words = ("prove", str(path), "--model", str(folder), "--task", TASK, "--runtime", "ort-cpu", "--proof", "quick")
    model = onnx.load(bundle / path.name)
    onnx.save(model, path)
    result = cli(*words)
    assert result.exit_code == 0, result.output
    stored = model.graph.initializer
    matrices = [one for one in stored if len(one.dims) == 2 and one.data_type == onnx.TensorProto.FLOAT]
    largest = max(matrices, key=lambda one: one.dims[0] * one.dims[1])
    wider = (1.01 * numpy_helper.to_array(largest)).astype(np.float32)
    largest.CopyFrom(numpy_helper.from_array(wider, largest.name))
    onnx.save(model, path)
    result = cli(*words)
    assert result.exit_code == 1, result.output
    assert "PE104" in result.output
