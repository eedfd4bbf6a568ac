"""Classes of transformers that are taken, and the line with which others are refused: small models at random."""

import json
import re
from pathlib import Path

import pytest
import transformers

from helpers.hf.small_classes import answer, save
from helpers.shared import one_of_each
from posenc_models import ModelFolder
from posenc_models.whole import heads
from posenc_models.whole.heads import has_headless

TAKEN = {
    "DPRQuestionEncoder": "feature-extraction",
    "DPRContextEncoder": "feature-extraction",
    "DPRReader": "question-answering",
    "T5EncoderModel": "feature-extraction",
    "BlipModel": "zero-shot-image-classification",
    "BeitForImageClassification": "image-classification",
    "BertForMaskedLM": "fill-mask",
    "GPT2ForSequenceClassification": "text-classification",
    "LEDForConditionalGeneration": "text2text-generation",
    "Wav2Vec2Model": "feature-extraction",
    "ViTModel": "image-feature-extraction",
    "LlamaForCausalLM": "text-generation",
    "SwitchTransformersForConditionalGeneration": "text2text-generation",
    "HunYuanVLForConditionalGeneration": "text-generation",
    "T5GemmaForConditionalGeneration": "text2text-generation",
    "Sam3ViTModel": "image-feature-extraction",
    "SEWForCTC": "automatic-speech-recognition",
    "DeepseekOcr2ForConditionalGeneration": "text-generation",
    "ResNetForImageClassification": "image-classification",
    "BartForSequenceClassification": "text-classification",
    "T5ForTokenClassification": "token-classification",
    "LEDForQuestionAnswering": "question-answering",
    "VitPoseForPoseEstimation": "keypoint-detection",
    "VideoMAEForVideoClassification": "video-classification",
    "ResNetModel": "image-feature-extraction",
}
BY_CONFIG = {
    "BartModel": r"of models with an encoder, a decoder and vocab_size in config.json --model writes text2text-",
    "Wav2Vec2ForPreTraining": r"of models with conv_stride in config.json --model writes automatic-speech-",
    "BertForPreTraining": r"of models with vocab_size .* text-generation \(\.\.\.ForC.*; --task feature-extr",
    "SuperPointForKeypointDetection": "of models that look at pixel_values --model writes object-detection",
    "Blip2ForImageTextRetrieval": r"zero-shot-image-cl.* \(\.\.\.Model\), text-generation \(\.\.\.ForConditional.*\)$",
    "SamModel": r"is several models in one \(vision_config, .*mask_decoder_config.*\): --model takes models of one",
    "Gemma3Model": "of texts and images --model writes the types that AutoModelForZeroShotImageClassification has",
    "Aimv2Model": "of texts and images --model writes the types that AutoModelForZeroShotImageClassification has",
}
BY_CLASS = {
    "BlipForConditionalGeneration": "it does not answer without pixel_values, and for text-generation --model gives",
    "VitsModel": "it answers waveform, .*, and not last_hidden_state$",
    "ProphetNetForConditionalGeneration": "a cache fails in its code .*only supported for `decoder_input_ids` of",
    "MoonshineForConditionalGeneration": "its encoder takes input_values, .* for text2text-.* gives input_ids$",
    "Siglip2Model": "its config says no image_size, and no preprocessor_config.json beside it a height and a width",
    "CanineModel": "its config says no vocab_size, which input_ids has$",
    "RTDetrModel": r"a call with pixel_values fails in its code \(modeling_rt_detr.py, line \d+\); it takes pixel_mask",
    "FuyuModel": r"a call with pixel_values fails .* \(ValueError: You must specify exactly one of input_ids",
    "BrosForTokenClassification": "You have to specify bbox.*; it takes bbox, bbox_first_token_mask, too$",
    "BarkModel": "it takes input.*, and for feature-extraction --model gives input_ids$",
    "DiaForConditionalGeneration": r"a token of it is 9 codes of a sound \(num_channels in config.json\), and --mo",
    "MusicgenForCausalLM": r"a token of it is 4 codes of a sound \(num_codebooks in config.json\), and --model g",
    "KyutaiSpeechToTextModel": r"a token of it is 32 codes of a sound \(num_codebooks in config.json\), and --model g",
    "TapasForMaskedLM": r"a token of it has 7 types \(type_vocab_sizes in config.json\), and --model gives one$",
    "VivitModel": r"it takes videos of 32 frames \(num_frames in config.json\), and --model gives one image$",
    "TimesformerModel": r"it takes videos of 8 frames \(num_frames in config.json\), and --model gives one image$",
    "BltForCausalLM": "its code reads num_hidden_layers, which its config does not say$",
    "XmodForMaskedLM": "Input language unknown.*; give default_language in config.json$",
    "FunnelBaseModel": "it takes texts of 5 tokens and more, and --model writes models that take any$",
    "MiniCPMV4_7VisionModel": "it does not answer without target_sizes, and --model gives pixel_values$",
    "TvpModel": "it does not answer without pixel_values, and --model gives input_ids, attention_mask$",
}
WITH_ADVICE = (
    *("BertForPreTraining", "ErnieForPreTraining", "ElectraForPreTraining"),
    # what their classes without a head take beside the text is asked for None there
    *(
        "ChameleonForConditionalGeneration",
        "VisualBertForPreTraining",
    ),
)
WITHOUT = {
    "LxmertForPreTraining": "visual_feats",
    "UniSpeechSatForPreTraining": "nothing in UniSpeechSatModel reads label_embeddings_concat",
    "ParakeetForCTC": "takes input_features, attention_mask, not input_ids",  # AutoModel has this very class
    "Wav2Vec2BertForXVector": "takes input_features, .*, not input_ids",
}
OURS = re.compile(r"AttributeError|KeyError|object has no attribute|mat1 and mat2|must be specified")
"""What speaks of a call that nobody made."""


@pytest.mark.parametrize("name", one_of_each(TAKEN, TAKEN.get))
def test_a_class_is_taken(tmp_path: Path, name: str) -> None:
    found = answer(name, save(name, 8, tmp_path), tmp_path)
    assert (found.task, found.line) == (TAKEN[name], "")


@pytest.mark.parametrize("name", [*BY_CONFIG, *BY_CLASS])
def test_a_class_that_is_not_exported_is_refused_in_a_true_line(tmp_path: Path, name: str) -> None:
    found = answer(name, save(name, 8, tmp_path), tmp_path)
    assert found.stage == ("load" if name in BY_CONFIG else "build")
    assert found.line.startswith(f"{name} is ")
    assert re.search({**BY_CONFIG, **BY_CLASS}[name], found.line), found.line
    assert not OURS.search(found.line)
    assert len(found.line.splitlines()) == 1


@pytest.mark.parametrize("name", WITH_ADVICE)
def test_the_advice_to_leave_out_the_head_is_followed_by_hidden_states(tmp_path: Path, name: str) -> None:
    found = answer(name, save(name, 8, tmp_path), tmp_path)
    assert found.line.endswith("; --task feature-extraction tries it without its head, for its hidden states")
    assert ModelFolder.load(tmp_path, "feature-extraction").build().outputs == ("last_hidden_state",)


def test_a_class_that_has_no_head_is_advised_in_other_words(tmp_path: Path) -> None:
    found = answer("BertGenerationEncoder", save("BertGenerationEncoder", 8, tmp_path), tmp_path)
    assert found.line.endswith("; --task feature-extraction tries it, for its hidden states")
    assert ModelFolder.load(tmp_path, "feature-extraction").build().outputs == ("last_hidden_state",)


@pytest.mark.parametrize("name", WITHOUT)
def test_no_advice_is_given_where_the_class_without_a_head_does_not_take_the_folder(tmp_path: Path, name: str) -> None:
    found = answer(name, save(name, 8, tmp_path), tmp_path)
    assert found.stage == "load"
    assert "--task" not in found.line
    with pytest.raises(ValueError, match=WITHOUT[name]):
        ModelFolder.load(tmp_path, "feature-extraction").build()


def test_no_advice_is_given_where_transformers_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    config = {"model_type": "bert", "vocab_size": 32}
    assert has_headless("BertForMultipleChoice", config, "input_ids")
    monkeypatch.setattr(heads, "class_of", lambda auto, kind: "")
    assert not has_headless("BertForMultipleChoice", config, "input_ids")


def test_an_encoder_with_a_head_for_texts_says_what_makes_it_a_decoder(tmp_path: Path) -> None:
    save("BertLMHeadModel", 8, tmp_path)
    found = answer("BertLMHeadModel", "bert", tmp_path)
    assert found.line.startswith("BertLMHeadModel caches no keys and values, as is_decoder is false in its config: ")
    config = tmp_path / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text(encoding="utf-8")), "is_decoder": True}))
    assert answer("BertLMHeadModel", "bert", tmp_path).task == "text-generation"


def test_a_decoder_that_pools_by_padding_needs_its_token(tmp_path: Path) -> None:
    config = transformers.GPT2Config(vocab_size=32, n_embd=16, n_layer=1, n_head=2, pad_token_id=None)
    transformers.GPT2ForSequenceClassification(config).save_pretrained(tmp_path)
    found = answer("GPT2ForSequenceClassification", "gpt2", tmp_path)
    assert found.line.endswith("; give pad_token_id in config.json")
