"""Tasks of images, sounds, choices, pages and series: what goes in and comes out, and small models are proved."""

import json
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
import transformers

import posenc_export
from helpers.hf.task_models import save_task_model
from posenc_models import ModelFolder
from posenc_models.whole.contents import PROCESSOR

OF_PAGES = ("input_ids", "attention_mask", "token_type_ids", "bbox")
CLASSES = {
    "BertForMultipleChoice": ("multiple-choice", ("input_ids", "attention_mask", "token_type_ids"), ("logits",)),
    "BertForNextSentencePrediction": (
        *("next-sentence-prediction", ("input_ids", "attention_mask", "token_type_ids")),
        ("logits",),
    ),
    "LayoutLMForTokenClassification": ("token-classification", OF_PAGES, ("logits",)),
    "LiltForTokenClassification": ("token-classification", OF_PAGES, ("logits",)),
    "LayoutLMv3ForQuestionAnswering": ("question-answering", OF_PAGES, ("start_logits", "end_logits")),
    "Owlv2ForObjectDetection": (
        *("zero-shot-object-detection", ("input_ids", "pixel_values", "attention_mask")),
        ("logits", "pred_boxes"),
    ),
    "PatchTSTForPrediction": ("time-series-forecasting", ("past_values",), ("prediction_outputs",)),
    "PatchTSTForClassification": ("time-series-classification", ("past_values",), ("prediction_logits",)),
    "PatchTSMixerForTimeSeriesClassification": (
        *("time-series-classification", ("past_values",)),
        ("prediction_outputs",),
    ),
    "PatchTSTForRegression": ("time-series-regression", ("past_values",), ("regression_outputs",)),
    "HubertForSequenceClassification": ("audio-classification", ("input_values",), ("logits",)),
    "ASTForAudioClassification": ("audio-classification", ("input_values",), ("logits",)),
    "ASTModel": ("feature-extraction", ("input_values",), ("last_hidden_state",)),
    "WavLMForAudioFrameClassification": ("audio-frame-classification", ("input_values",), ("logits",)),
    "Wav2Vec2ForXVector": ("audio-xvector", ("input_values",), ("logits", "embeddings")),
    "YolosForObjectDetection": ("object-detection", ("pixel_values",), ("logits", "pred_boxes")),
    "DetrForObjectDetection": ("object-detection", ("pixel_values",), ("logits", "pred_boxes")),
    "DepthAnythingForDepthEstimation": ("depth-estimation", ("pixel_values",), ("predicted_depth",)),
    "SegformerForSemanticSegmentation": ("semantic-segmentation", ("pixel_values",), ("logits",)),
    "Swin2SRForImageSuperResolution": ("image-to-image", ("pixel_values",), ("reconstruction",)),
}
"""The task of each class, what goes in, and what comes out."""
QUICK = ("SegformerForSemanticSegmentation", "BertForMultipleChoice")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.exhaustive) for name in CLASSES]
)
def test_a_class_has_its_task_and_its_ports(tmp_path: Path, name: str) -> None:
    model = ModelFolder.load(save_task_model(name, tmp_path))
    whole = model.build()
    ports = tuple(port.partition(":")[0] for port in whole.inputs)
    assert (model.task.name, ports, whole.outputs) == CLASSES[name]


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", CLASSES)
def test_a_small_model_is_proved(tmp_path: Path, name: str) -> None:
    model = ModelFolder.load(save_task_model(name, tmp_path / "model"))
    result = posenc_export.export(model, to=tmp_path / "out", formats=("onnx",), proof="quick", runtimes=("ort-cpu",))
    assert result.passed


def test_what_the_graph_does_not_take_is_said(tmp_path: Path) -> None:
    whole = ModelFolder.load(save_task_model("MarkupLMForTokenClassification", tmp_path)).build()
    assert "the model answers without xpath_tags_seq, xpath_subs_seq, which the graph does not take" in whole.notes


def test_the_language_of_a_text_is_said_where_a_model_has_several(tmp_path: Path) -> None:
    for count, line in ((3, "the model answers without langs, which the graph does not take"), (1, None)):
        sizes = {"vocab_size": 64, "emb_dim": 16, "n_layers": 1, "n_heads": 2, "max_position_embeddings": 40}
        config = transformers.AutoConfig.for_model("xlm", **sizes, n_langs=count, pad_index=2)
        transformers.AutoModelForSequenceClassification.from_config(config).save_pretrained(tmp_path / str(count))
        notes = ModelFolder.load(tmp_path / str(count)).build().notes
        assert [note for note in notes if "langs" in note] == [line] * (line is not None)


def test_a_task_of_other_models_is_refused_by_those_of_the_class(tmp_path: Path) -> None:
    folder = save_task_model("Owlv2ForObjectDetection", tmp_path)
    line = "Owlv2ForObjectDetection is for zero-shot-object-detection, and not for object-detection: give --task"
    with pytest.raises(ValueError, match=line):
        ModelFolder.load(folder, "object-detection")


def test_a_forecast_of_a_distribution_is_refused_by_its_name(tmp_path: Path) -> None:
    config = transformers.PatchTSTConfig(d_model=16, num_hidden_layers=1, num_attention_heads=2, loss="nll")
    transformers.PatchTSTForPrediction(config).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="it answers the parameters of a distribution"):
        ModelFolder.load(tmp_path).build()
    # classes are classes, whatever its loss is called
    transformers.PatchTSTForClassification(config).save_pretrained(tmp_path)
    assert ModelFolder.load(tmp_path).build().outputs == ("prediction_logits",)


def test_boxes_of_tokens_change_what_a_file_says(tmp_path: Path) -> None:
    folder = save_task_model("LayoutLMForTokenClassification", tmp_path / "model")
    model = ModelFolder.load(folder)
    assert posenc_export.export(
        model, to=tmp_path / "out", formats=("onnx",), proof="quick", runtimes=("ort-cpu",)
    ).passed
    eager = transformers.LayoutLMForTokenClassification.from_pretrained(folder).eval()
    ids, boxes = torch.tensor([[5, 9, 3]]), torch.tensor([[[0, 0, 4, 2], [5, 0, 9, 2], [0, 3, 7, 6]]])
    given = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "token_type_ids": torch.zeros_like(ids)}
    session = onnxruntime.InferenceSession(tmp_path / "out" / "model.onnx")
    found = session.run(None, {name: each.numpy() for name, each in {**given, "bbox": boxes}.items()})[0]
    with torch.no_grad():
        expected, without = eager(**given, bbox=boxes).logits.numpy(), eager(**given).logits.numpy()
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert np.abs(expected - without).max() > 1e-3


SEGFORMER = transformers.SegformerConfig(
    hidden_sizes=[8, 8, 8, 8], depths=[1] * 4, num_attention_heads=[1] * 4, decoder_hidden_size=8
)


@pytest.mark.parametrize(
    ("processor", "size"),
    [
        ({"size": {"height": 64, "width": 96}}, "64, 96"),
        (
            {"size": {"height": 9, "width": 9}, "crop_size": {"height": 32, "width": 32}, "do_center_crop": True},
            "32, 32",
        ),
        ({"size": 32}, "32, 32"),
        ({"size": {"shortest_edge": 800}}, ""),
        (None, ""),
    ],
)
def test_images_have_the_size_to_which_the_processor_brings_them(
    tmp_path: Path, processor: dict[str, object] | None, size: str
) -> None:
    transformers.SegformerForSemanticSegmentation(SEGFORMER).save_pretrained(tmp_path)
    if processor is not None:
        (tmp_path / PROCESSOR).write_text(json.dumps(processor))
    model = ModelFolder.load(tmp_path)
    if size:
        assert model.build().inputs == (f"pixel_values: float32[batch_size, 3, {size}]",)
        return
    text = "its config says no image_size, and no preprocessor_config.json beside it a height and a width"
    with pytest.raises(ValueError, match=text):
        model.build()
