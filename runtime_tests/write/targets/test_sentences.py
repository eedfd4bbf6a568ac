"""Folders of sentence-transformers: each becomes one graph, which gives that package's own vectors."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import posenc_export
from helpers.model_folders import refused_without_torch
from helpers.sentence_folders import ENCODERS, QUICK, VECTORS, WIDTH, saved_encoder, session_of, texts_of
from helpers.shared import ROOT, Once, one_of_each
from posenc_export.common.errors import BadInput
from posenc_models import ModelFolder
from posenc_models.whole import sentences

STORED = np.load(VECTORS)
CLOSE = 5e-5
"""How far a vector may be from that of the package, as a share of the largest number.

The stored vectors are of a CPU with AVX2. T5 does not scale its scores: without AVX2 it is off by 1.03e-5 there.
"""
NAMES = [pytest.param(name, marks=() if name in QUICK else pytest.mark.exhaustive) for name in ENCODERS]


def exported(once: Once, name: str) -> Path:
    """The bundle of a folder, proved once for all tests: of those in the quick run with few calls.

    `test_a_right_file_of_the_same_names_is_found_right` tries all of them.
    """
    proof = "quick" if name in QUICK else "full"

    def write(place: Path) -> None:
        folder = ModelFolder.load(saved_encoder(once, name))
        result = posenc_export.export(folder, to=place / "bundle", formats=["onnx"], runtimes=["ort-cpu"], proof=proof)
        assert result.passed, result

    return once(f"sentences-{name}", write) / "bundle"


@pytest.mark.parametrize("name", ENCODERS)
def test_a_module_gives_the_vectors_of_the_package(once: Once, name: str) -> None:
    """Texts of unlike lengths, padding on either side, one token, one text, and a text without a token."""
    whole = ModelFolder.load(saved_encoder(once, name)).build()
    for number, texts in enumerate(texts_of(name)):
        tensors = [torch.from_numpy(array) for array in (texts.ids, texts.mask, np.zeros_like(texts.ids))]
        with torch.no_grad():
            outputs = whole.module(*tensors[: len(whole.inputs)])
        for output, tensor in zip(whole.outputs, outputs, strict=True):
            assert texts.error(output, tensor.numpy(), STORED[f"{name}/{number}/{output}"]) <= CLOSE, (number, output)


@pytest.mark.parametrize("name", NAMES)
def test_a_file_is_proved_and_gives_the_vectors_of_the_package(once: Once, name: str) -> None:
    run = session_of(exported(once, name) / "model.onnx")
    for number, texts in enumerate(texts_of(name)):
        outputs, stored = run(texts.ids, texts.mask), f"{name}/{number}/"
        assert [stored + output for output in outputs] == [key for key in STORED.files if key.startswith(stored)]
        for output, array in outputs.items():
            assert texts.error(output, array, STORED[stored + output]) <= CLOSE, (number, output)


def test_padding_moves_no_vector_and_an_empty_text_has_one_of_zeros(once: Once) -> None:
    run = session_of(exported(once, "bert-mean") / "model.onnx")
    ids, mask = np.array([[5, 9, 2, 7]]), np.ones((1, 4), np.int64)
    padded = run(*(np.concatenate([array, np.zeros((1, 60), np.int64)], 1) for array in (ids, mask)))
    np.testing.assert_allclose(padded["sentence_embedding"], run(ids, mask)["sentence_embedding"], rtol=0, atol=1e-6)
    np.testing.assert_array_equal(run(ids, 0 * mask)["sentence_embedding"], np.zeros((1, WIDTH), np.float32))


LOADED = """
import sys
import posenc_export
print(posenc_export.load(sys.argv[1]).encode([[5, 9, 2], [7]]).shape)
print(sorted({"torch", "transformers"} & set(sys.modules)))
"""


@pytest.mark.parametrize("name", QUICK)
def test_a_bundle_that_is_loaded_encodes_ids(once: Once, name: str) -> None:
    model = posenc_export.load(exported(once, name))
    texts = [[5, 9, 2, 7], [3], [11, 4]]
    vectors = model.encode(texts)
    for text, vector in zip(texts, vectors, strict=True):
        np.testing.assert_allclose(model.encode(text), vector, rtol=0, atol=1e-6)
    given = texts_of(name)[1]
    np.testing.assert_allclose(
        model.encode(given.ids, given.mask), STORED[f"{name}/1/sentence_embedding"], rtol=0, atol=CLOSE
    )


def test_what_is_no_text_is_said_in_a_line(once: Once) -> None:
    bundle = exported(once, "bert-mean")
    model = posenc_export.load(bundle)
    for ids, mask, text in (
        ([[1], []], None, "a text has no token: give each at least one"),
        ([1, 32], None, "ids must be whole numbers in 0..31, got 32"),
        (
            [1, 2],
            [1],
            "attention_mask must be 1 for tokens and 0 for padding, of the shape (2,) of ids, got the shape (1,)",
        ),
        (
            [[1, 2]],
            [[1, 2]],
            "attention_mask must be 1 for tokens and 0 for padding, of the shape (1, 2) of ids, got the",
        ),
    ):
        with pytest.raises(ValueError, match=re.escape(text)):
            model.encode(ids, mask)
    for call in (lambda: model.generate([1, 2]), model.begin):
        with pytest.raises(ValueError, match="bert:sentence-similarity writes no text: encode gives its vectors"):
            call()
    done = subprocess.run([sys.executable, "-c", LOADED, str(bundle)], capture_output=True, text=True, check=False)
    assert done.stdout == f"(2, {WIDTH})\n[]\n", done.stderr


def test_what_the_library_does_with_texts_is_said_and_its_files_are_copied(once: Once) -> None:
    bundle = exported(once, "bert-mean")
    notes = json.loads((bundle / "manifest.json").read_text())["notes"]
    assert notes[:4] == [
        "sentence_embedding is Transformer, Pooling (mean), Normalize of modules.json",
        "a tokenizer cuts texts to 24 tokens (max_seq_length), and no graph",
        "prompts go before a text, and no graph adds them: query 'query: '",
        "vectors are compared by cosine (similarity_fn_name)",
    ]
    folder = saved_encoder(once, "bert-mean")
    copied = ("modules.json", "config_sentence_transformers.json", "sentence_bert_config.json", "1_Pooling/config.json")
    assert all((bundle / name).read_bytes() == (folder / name).read_bytes() for name in copied)
    assert not list(bundle.rglob("*.safetensors"))


def test_a_config_says_more_than_a_graph_has(tmp_path: Path, once: Once) -> None:
    """A prompt that is left out of a mean, numbers that are left out of sparse vectors, and scores of a pair."""
    folder = copied(once, "bert-mean", tmp_path / "a")
    change(folder / "1_Pooling" / "config.json", include_prompt=False)
    change(folder / "sentence_bert_config.json", do_lower_case=True)
    notes = " ".join(ModelFolder.load(folder).build().notes)
    assert "include_prompt is false: the library leaves the tokens of a prompt out of its pooling" in notes
    assert "a tokenizer makes texts lower case (do_lower_case), and no graph" in notes
    assert "keeps the 20 largest numbers" in " ".join(ModelFolder.load(saved_encoder(once, "splade-sum")).build().notes)
    for name, function in (("cross", "Identity"), ("cross-modules", "Sigmoid")):
        notes = " ".join(ModelFolder.load(saved_encoder(once, name)).build().notes)
        assert f"gives logits, to which a cross encoder of sentence-transformers applies {function}" in notes


def copied(once: Once, name: str, place: Path) -> Path:
    """Return a copy of a folder, to be changed."""
    return Path(shutil.copytree(saved_encoder(once, name), place))


def change(path: Path, **values: object) -> None:
    """Change what a config says."""
    path.write_text(json.dumps({**(json.loads(path.read_text()) if path.exists() else {}), **values}))


def lines(folder: Path) -> list[dict[str, Any]]:
    """Return the lines of modules.json."""
    made: list[dict[str, Any]] = json.loads((folder / "modules.json").read_text())
    return made


def test_the_page_has_every_folder_and_all_are_certified() -> None:
    page = (ROOT / "docs" / "reference" / "measured" / "models.md").read_text(encoding="utf-8")
    table = page.partition("<!-- sentences -->")[2].partition("<!-- /sentences -->")[0]
    rows = re.findall(r"^\| (.+?) \| \S+ \| (.*?) ?\| (\w+) \| \S+ \| (\S+) \|", table, re.MULTILINE)
    assert [(title, words) for title, words, _, _ in rows] == [(one.title, one.words) for one in ENCODERS.values()]
    assert {verdict for _, _, verdict, _ in rows} == {"certified"}
    assert max(float(off) for *_, off in rows) <= CLOSE
    assert f"made on {STORED['made']}" in table


def test_no_export_goes_into_a_folder_that_it_reads(once: Once, tmp_path: Path) -> None:
    """The weights of a dense layer lie there, and the folder of the model is another one."""
    folder = copied(once, "distilbert-dense", tmp_path / "model")
    for place in ("2_Dense", "0_Transformer", "."):
        with pytest.raises(BadInput, match="this command reads"):
            posenc_export.export(ModelFolder.load(folder), to=folder / place, formats=["onnx"], force=True)
    assert (folder / "2_Dense" / "pytorch_model.bin").is_file()


# ---- what is refused -------------------------------------------------------------------------------------------------


def named(folder: Path, number: int, **values: object) -> None:
    """Change a line of modules.json."""
    made = lines(folder)
    made[number] |= values
    (folder / "modules.json").write_text(json.dumps(made))


def link_out(folder: Path) -> None:
    (folder / "1_Pooling" / "config.json").unlink()
    (folder / "1_Pooling" / "config.json").symlink_to(folder.parent / "secret")


def moved_out(folder: Path) -> None:
    """The transformer's folder is a link to another one, outside."""
    (folder.parent / "outside").mkdir()
    for name in ("config.json", "model.safetensors"):
        (folder / name).rename(folder.parent / "outside" / name)
    (folder / "inner").symlink_to(folder.parent / "outside")
    named(folder, 0, path="inner")


def pipe(folder: Path) -> None:
    (folder / "config_sentence_transformers.json").unlink()
    os.mkfifo(folder / "config_sentence_transformers.json")


OF_LIBRARY = "sentence_transformers.models."
OTHERS = ("CNN", "LSTM", "WordWeights", "MultiVectorMask")
"""Modules behind a transformer that have no graph here."""
REFUSED: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "path out": (
        "bert-mean",
        lambda f: named(f, 1, path="../.."),
        r'says "path": \'\.\./\.\.\': expected a folder ins',
    ),
    "absolute path": (
        "bert-mean",
        lambda f: named(f, 1, path="/etc"),
        r'says "path": \'/etc\': expected a folder inside',
    ),
    "path of Windows": ("bert-mean", lambda f: named(f, 1, path="..\\x"), r"expected a folder inside"),
    "link out": ("bert-mean", link_out, r"1_Pooling/config\.json is a link out of the model's folder"),
    "folder out": ("bert-mean", moved_out, r"inner is a link out of the model's folder, to .*outside"),
    "pipe": ("bert-mean", pipe, r"config_sentence_transformers\.json is no plain file"),
    "no list": (
        "bert-mean",
        lambda f: (f / "modules.json").write_text("{}"),
        r"modules\.json holds no list of modules",
    ),
    "many": (
        "bert-mean",
        lambda f: (f / "modules.json").write_text(json.dumps(lines(f) * 1000)),
        r"names 3,000 modules: at most 64 are read",
    ),
    "no type": ("bert-mean", lambda f: named(f, 1, type=3), r"names a module without a type and a path"),
    **{
        kind: ("bert-mean", partial(named, number=1, type=OF_LIBRARY + kind), rf"{kind} has no graph he")
        for kind in OTHERS
    },
    "BoW first": (
        "bert-mean",
        lambda f: named(f, 0, type=OF_LIBRARY + "BoW"),
        r"BoW has no graph here: expected Transf",
    ),
    "CLIP": ("bert-mean", lambda f: named(f, 0, type=OF_LIBRARY + "CLIPModel"), r"CLIPModel has no graph here"),
    "LogitScore": (
        "cross-modules",
        lambda f: (f / "modules.json").write_text(
            json.dumps([*lines(f), {"path": "1_LogitScore", "type": "sentence_transformers.models.LogitScore"}])
        ),
        r"LogitScore takes the logits of a text's last token: --task text-generation --last-logits gives them$",
    ),
    "Router": (
        "bert-mean",
        lambda f: named(f, 0, type=OF_LIBRARY + "Router"),
        r"Router takes one of several models by w",
    ),
    "code": ("bert-mean", lambda f: named(f, 1, type="own.Mean"), r"own\.Mean is code of its own, which is never run"),
    "no pooling": (
        "bert-mean",
        lambda f: named(f, 1, type=OF_LIBRARY + "Dropout"),
        r"Normalize/config\.json: nothing bef",
    ),
    "no config": (
        "bert-mean",
        lambda f: shutil.rmtree(f / "1_Pooling"),
        r"names Pooling, and there is no 1_Pooling/config",
    ),
    "mode": (
        "bert-mean",
        lambda f: change(f / "1_Pooling" / "config.json", pooling_mode_own=True),
        r"says pooling_mode_own",
    ),
    "width": (
        "bert-mean",
        lambda f: change(f / "1_Pooling" / "config.json", word_embedding_dimension=384),
        r"says 384 numbers for a vector, and 16 come in",
    ),
    "dense": (
        "t5-dense",
        lambda f: change(f / "2_Dense" / "config.json", in_features=8),
        r"of linear\.weight they have",
    ),
    "huge dense": (
        "t5-dense",
        lambda f: change(f / "2_Dense" / "config.json", out_features=10**12),
        r"of linear\.weight they have \[12, 16\], expected \[1000000000000, 16\]",
    ),
    "bias": (
        "t5-dense",
        lambda f: change(f / "2_Dense" / "config.json", bias=True),
        r"of linear\.bias they have nothing",
    ),
    "activation": (
        "t5-dense",
        lambda f: change(f / "2_Dense" / "config.json", activation_function="os.system"),
        r"the activation 'os\.system' is none that is known: expected Identity, Tanh",
    ),
    "no weights": ("t5-dense", lambda f: (f / "2_Dense" / "model.safetensors").unlink(), r"2_Dense has no weights"),
    "settings": (
        "bert-mean",
        lambda f: change(f / "sentence_bert_config.json", config_args={"is_decoder": True}),
        r"config_args of the library's config says is_decoder, which is not applied here",
    ),
    "output": (
        "bert-mean",
        lambda f: change(
            f / "sentence_bert_config.json",
            modality_config={"text": {"method": "forward", "method_output_name": "pooler_output"}},
        ),
        r"expected forward, and its last_hidden_state",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_pipeline_without_a_graph_is_refused_in_a_line_before_weights_are_read(
    once: Once, tmp_path: Path, case: str
) -> None:
    name, spoil, text = REFUSED[case]
    (tmp_path / "secret").write_text("secret words")
    folder = copied(once, name, tmp_path / "model")
    spoil(folder)
    with pytest.raises(ValueError, match=text) as caught:
        ModelFolder.load(folder)
    said = str(caught.value)
    assert "\n" not in said
    assert "secret words" not in said


def test_it_is_refused_before_torch_loads(once: Once, tmp_path: Path) -> None:
    folder = copied(once, "bert-mean", tmp_path / "model")
    named(folder, 1, type=OF_LIBRARY + "LSTM")
    said = refused_without_torch("--model", str(folder))
    assert "LSTM has no graph here: expected Transformer, StaticEmbedding, Pooling" in said
    assert said.endswith("--task feature-extraction writes the model alone")


def test_weights_that_run_code_are_refused(once: Once, tmp_path: Path) -> None:
    class Code:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.system, (f"touch {tmp_path / 'ran'}",)

    folder = copied(once, "distilbert-dense", tmp_path / "model")
    torch.save({"linear.weight": Code()}, folder / "2_Dense" / "pytorch_model.bin")
    with pytest.raises(ValueError, match=r"pytorch_model\.bin cannot be read: expected tensors alone"):
        ModelFolder.load(folder).build()
    assert not (tmp_path / "ran").exists()
    torch.save({"linear.weight": torch.zeros(8, 5)}, folder / "2_Dense" / "pytorch_model.bin")
    with pytest.raises(
        ValueError, match=r"is not that of its weights: of linear\.bias they have nothing, expected \[8\]"
    ):
        ModelFolder.load(folder).build()


def test_a_task_that_is_asked_for_leaves_the_pipeline_out(once: Once, tmp_path: Path) -> None:
    folder = copied(once, "bert-mean", tmp_path / "model")
    named(folder, 1, type=OF_LIBRARY + "LSTM")
    whole = ModelFolder.load(folder, "feature-extraction").build()
    assert whole.outputs == ("last_hidden_state",)
    assert "LSTM, Normalize of modules.json are not in the file: it gives a vector for each token" in whole.notes
    sparse = ModelFolder.load(saved_encoder(once, "splade"), "fill-mask").build()
    assert "SpladePooling of modules.json are not in the file: it gives logits" in sparse.notes
    (folder / "modules.json").unlink()
    with pytest.raises(ValueError, match=r"has no modules\.json: --task sentence-similarity is for folders of sen"):
        ModelFolder.load(folder, "sentence-similarity")
    with pytest.raises(
        ValueError, match="holds StaticEmbedding, which gives vectors of sentences: it is no model for fill"
    ):
        ModelFolder.load(saved_encoder(once, "static"), "fill-mask")


# ---- files that are wrong --------------------------------------------------------------------------------------------


def of_config(**values: object) -> Callable[[Path, pytest.MonkeyPatch], None]:
    """Return what changes the config of a pooling."""
    return lambda folder, _: change(folder / "1_Pooling" / "config.json", **values)


def without_the_last(folder: Path, _: pytest.MonkeyPatch) -> None:
    (folder / "modules.json").write_text(json.dumps(lines(folder)[:-1]))


def over_padding(_: Path, patch: pytest.MonkeyPatch) -> None:
    """Pool all tokens, also those that the mask leaves out."""
    pooled = sentences.Pooling._pooled
    patch.setattr(
        sentences.Pooling,
        "_pooled",
        staticmethod(lambda mode, tokens, mask: pooled(mode, tokens, torch.ones_like(mask))),
    )


WRONG: dict[str, tuple[str, Callable[[Path, pytest.MonkeyPatch], None]]] = {
    "cls for mean": ("bert-mean", of_config(pooling_mode="cls")),
    "over padding": ("bert-mean", over_padding),
    "mean without clamp": ("bert-mean", lambda _, patch: patch.setattr(sentences, "SMALLEST_SUM", 0.0)),
    "no Normalize": ("bert-mean", without_the_last),
    "no activation": (
        "distilbert-dense",
        lambda folder, _: change(folder / "2_Dense" / "config.json", activation_function="torch.nn.Identity"),
    ),
    "first for last": ("qwen3-last", of_config(pooling_mode="cls")),
    "mean for root": ("bert-sqrt", of_config(pooling_mode="mean")),
    "mean for weighted": ("gpt2-weighted", of_config(pooling_mode="mean")),
    "one log for two": (
        "splade-sum",
        lambda folder, _: change(folder / "1_SpladePooling" / "config.json", activation_function="relu"),
    ),
}


@pytest.mark.parametrize("case", one_of_each(WRONG, lambda _: ""))
def test_a_wrong_file_is_found_wrong(once: Once, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    name, spoil = WRONG[case]
    folder = copied(once, name, tmp_path / "wrong")
    with monkeypatch.context() as patch:
        spoil(folder, patch)
        posenc_export.export(ModelFolder.load(folder), to=tmp_path / "bundle", formats=["onnx"], validate=False)
    right = ModelFolder.load(saved_encoder(once, name))
    result = posenc_export.prove(tmp_path / "bundle" / "model.onnx", right, runtimes=["ort-cpu"])
    # the graph is sound, and its numbers are others
    assert {row.check for row in result.verdicts if row.status == "fail"} == {"agrees"}, result


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", [name for name in ENCODERS if ENCODERS[name].task == "sentence-similarity"])
def test_a_right_file_of_the_same_names_is_found_right(once: Once, name: str) -> None:
    bundle = exported(once, name)
    assert posenc_export.prove(
        bundle / "model.onnx", ModelFolder.load(saved_encoder(once, name)), runtimes=["ort-cpu"]
    ).passed
