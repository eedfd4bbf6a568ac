"""What whole models are exported for: tasks, with the names that runtimes have for what goes in and comes out.

The names are those of optimum and transformers.js, whose files ONNX Runtime's users load: `input_ids`,
`attention_mask`, `position_ids` and `past_key_values.N.key` become `logits` and `present.N.key`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from posenc.picture_places import HEARING, SIGHT, Sense
from posenc_models.whole.heads import arguments_of, main_input

TEXT = {
    "input_ids": "int64[batch_size, seq] < {vocab_size}",
    "attention_mask": "int64[batch_size, seq] mask",
    "token_type_ids": "int64[batch_size, seq] < {type_vocab_size}",
    "bbox": "int64[batch_size, seq, 4] boxes < {max_2d_position_embeddings}",
}
"""What goes into a model of text, with the places of its tokens on a page where it reads documents."""
DECODER = {
    "input_ids": "int64[batch_size, seq] < {vocab_size}",
    "attention_mask": "int64[batch_size, past+seq] mask",
    "position_ids": "int64[batch_size, seq] positions",
}
ENCODED = {
    "input_ids": "int64[batch_size, seq] < {vocab_size}",
    "encoder_attention_mask": "int64[batch_size, cached+fresh] mask",
    "encoder_hidden_states": "float32[batch_size, cached+fresh, {encoder_width}]",
}
"""What goes into a decoder that an encoder belongs to: of `cached` states it has the keys and values already."""
STATES = {name: ENCODED[name] for name in ("input_ids", "encoder_hidden_states")}
"""The same without a mask: images and spectra have no padding."""
IMAGES = {"pixel_values": "float32[batch_size, {num_channels}, {height}, {width}]"}
VIDEOS = {"pixel_values": "float32[batch_size, {num_frames}, {num_channels}, {height}, {width}]"}
FEATURES = {"input_features": "float32[batch_size, {num_mel_bins}, {frames}]"}
SPECTRA = {"input_values": "float32[batch_size, {max_length}, {num_mel_bins}]", **FEATURES}
"""What goes into a model that looks at features of a sound as at an image: the one or the other."""
SOUNDS = {"input_values": "float32[batch_size, samples >= {receptive_field}]"}
EMBEDDINGS = "inputs_embeds"
"""What a decoder takes in the place of ids."""
EMBEDDED = {
    EMBEDDINGS: "float32[batch_size, seq, {hidden_size}]",
    "attention_mask": DECODER["attention_mask"],
    "position_ids": "int64[{sections}batch_size, seq] positions",
    "token_type_ids": "int64[batch_size, seq] < 2",
}
"""What goes into the decoder of a model that sees or hears: embeddings of words and of pictures."""
OF_GRIDS = {"image_grid_thw": "int64[images:batch, 3] grids of patches % {merge}"}
PICTURES: tuple[Mapping[str, str], ...] = (
    {"pixel_values": "float32[patches % {square}, {patch}]", **OF_GRIDS},
    {"pixel_values": "float32[patches % {square}, {num_channels}, {patch_size}, {patch_size}]", **OF_GRIDS},
    {
        "pixel_values": "float32[images:batch, {num_channels}, height:grid % {unit}, width:grid % {unit}]",
        "image_sizes": "int64[images:batch, 2] frames of height*width % {unit}",
    },
    {
        "pixel_values": "float32[images:batch, tiles:batch >= {tiles}, {num_channels}, {height}, {width}]",
        "image_sizes": "int64[images:batch, 2] in 8..400",
    },
    {
        "pixel_values": "float32[batch_size:batch, images:batch, {num_channels}, {height}, {width}]",
        "pixel_attention_mask": "int64[batch_size:batch, images:batch, {height}, {width}] in 1..1",
    },
    {"pixel_values": "float32[images:batch, {num_channels}, {height}, {width}]"},
)
"""What goes into the tower of a model that sees: the first that it takes, and answers to."""
SPECTRUM = {"input_features": "float32[sounds:batch, {num_mel_bins}, {frames}]"}
SPECTRA_OF_SCENES: tuple[Mapping[str, str], ...] = (
    {**SPECTRUM, "input_features_mask": "int64[sounds:batch, {frames}] mask"},
    {**SPECTRUM, "feature_attention_mask": "int64[sounds:batch, {frames}] mask"},
    SPECTRUM,
    {
        "input_features": "float32[sounds:batch, {num_mel_bins}, frames:batch % {chunk}]",
        "input_features_mask": "int64[sounds:batch, frames:batch % {chunk}] mask",
    },
    {
        "input_features": "float32[sounds:batch, frames, {num_mel_bins}]",
        "input_features_mask": "bool[sounds:batch, rows % {queries}] blocks of frames % {window}",
    },
)
"""What goes into the tower of a model that hears, likewise."""
OF_SENSES = {SIGHT: PICTURES, HEARING: SPECTRA_OF_SCENES}
ALTERNATIVES = {name: port.replace("seq", "num_choices, seq", 1) for name, port in TEXT.items()}
"""What goes into a model that chooses: a text has so many alternatives, each with its tokens."""
PAIRS = {
    "input_ids": "int64[text_batch_size:batch, seq] < {vocab_size}",
    "pixel_values": "float32[image_batch_size:batch, {num_channels}, {height}, {width}]",
    "attention_mask": "int64[text_batch_size:batch, seq] mask",
}
"""What goes into two models whose outputs are compared: any number of texts, and of images."""
QUERIES = {
    "input_ids": "int64[num_queries:batch, seq] < {vocab_size}",
    "pixel_values": "float32[1, {num_channels}, {height}, {width}]",
    "attention_mask": "int64[num_queries:batch, seq] mask",
}
"""What goes into a model that looks for what texts say: any number of texts, and one image."""
SERIES = {"past_values": "float32[batch_size, {context_length}, {num_input_channels}]"}
LOGITS = {"logits": "logits"}
HIDDEN = {"last_hidden_state": "last_hidden_state"}
SENTENCE_SIMILARITY = "sentence-similarity"
"""The task of folders of sentence-transformers: no architecture, but their modules.json, says it."""
SCORES = {name: name for name in ("logits_per_image", "logits_per_text", "text_embeds", "image_embeds")}
ENCODER_FILE, DECODER_FILE = "encoder_model", "decoder_model_merged"
"""The files of a model with an encoder and a decoder, without their endings."""
WORDS_FILE = "embed_tokens"
"""The file of a model that sees or hears, beside its tower and its decoder, that has ids of tokens to embeddings."""
TYPES = "token_type_ids"
"""The input that tells the tokens of pictures from those of text, or a text from another."""
LAYER_FEATURES = "deepstack_features.{layer}"
"""What else comes out of a tower whose vectors are added to hidden states, too, and goes into the decoder."""
POSITIONS_FILE = "positions"
"""The file that counts the positions of images and videos in a prompt."""
SECTIONS = ("mrope_section", "xdrope_section")
"""Keys of how many pairs each of a token's positions rotates."""
Kind = Literal["text", "images", "features", "sounds", "series", "pairs", "scenes"]
PARTS = ("text_config", "vision_config", "audio_config")
"""Keys of configs of several models in one: of texts, images and sounds."""
OF_TOWERS = (*SIGHT.parts, *HEARING.parts)
"""Keys of configs of what looks or listens, where there is a text beside."""
IMAGE_CLASSIFICATION, SEGMENTATION = "ForImageClassification", "ForSemanticSegmentation"
SEEN = (IMAGE_CLASSIFICATION, SEGMENTATION)
"""How the names of classes end that look at images, whatever else their configs say."""
X_VECTOR = "ForXVector"
WRITES = "decoder_input_ids"
"""What a class takes that writes text behind its encoder, whatever this one reads."""
CONDITIONAL_GENERATION = "ForConditionalGeneration"
"""How the names of models end that write text about images or sounds."""


@dataclass(frozen=True)
class Task:
    """What a whole model is exported for.

    Args:
        name: as Hugging Face's hub has it.
        auto: the class of transformers that loads such a model.
        ends: how the names of such architectures end; nothing where no name says it.
        inputs: what goes in, by its name: the rest of a port's text, with what the config says in braces. What a
            model's `forward` does not take is left out.
        outputs: what comes out: its name in the file, and the attribute of the model's output.
        cache: whether keys and values of earlier tokens go in, and those of all tokens come out.
        encoder: what goes into the encoder, where it is a graph of its own: `inputs` and `outputs` are the decoder's.
        kind: what such a model looks at first.
        half: whether its models are the encoders of others, whose configs are those of both.
        sense: what pictures go in, if any do: a tower makes embeddings, which the decoder reads among those of words.
        either: whether its models may also have an encoder and a decoder, which answer in one call.
    """

    name: str
    auto: str
    ends: tuple[str, ...]
    inputs: Mapping[str, str]
    outputs: Mapping[str, str] = field(default_factory=lambda: LOGITS)
    cache: bool = False
    encoder: Mapping[str, str] = field(default_factory=dict)
    kind: Kind = "text"
    half: bool = False
    sense: Sense | None = None
    either: bool = False

    def ends_of(self, architecture: str) -> tuple[str, ...]:
        """Return which of its endings the name of an architecture has."""
        return tuple(end for end in self.ends if architecture.endswith(end))

    def fits(self, config: Mapping[str, Any]) -> bool:
        """Return whether a model with this config can be one for the task."""
        if self.half:
            return bool(self.ends_of(architecture_of(config)))
        kind = _kind_of(config)
        two = config.get("is_encoder_decoder") is True
        if kind == "images":
            # DETR says that it has both, and answers to an image in one call
            two = two and WRITES in arguments_of(config, architecture_of(config))
        return self.kind == kind and (bool(self.encoder) == two or self.either)


def _kind_of(config: Mapping[str, Any]) -> Kind:
    """Return what a model with this config looks at first."""
    parts = {key for key in PARTS if isinstance(config.get(key), dict)}
    towers = {key for key in OF_TOWERS if isinstance(config.get(key), dict)}
    if "text_config" in parts and towers and architecture_of(config).endswith(CONDITIONAL_GENERATION):
        return "scenes"
    if "vision_config" in parts and positions_of_token(config) > 1:
        return "scenes"
    if parts == {"text_config", "vision_config"}:
        return "pairs"
    if READS["series"] in config and main_input(config, architecture_of(config)) == next(iter(SERIES)):
        return "series"
    if "num_mel_bins" in config or "conv_stride" in config:
        return "features" if "num_mel_bins" in config else "sounds"
    # BEiT's has words, too: the codes of patches that it was trained with
    if "vocab_size" in config and not architecture_of(config).endswith(SEEN):
        return "text"
    looks = "image_size" in config or main_input(config, architecture_of(config)) == next(iter(IMAGES))
    return "images" if looks else "text"


READS: Mapping[Kind, str] = {
    "text": "vocab_size",
    "images": "image_size",
    "features": "num_mel_bins",
    "sounds": "conv_stride",
    "series": "context_length",
    "pairs": "text_config and vision_config",
    "scenes": "text_config and vision_config",
}
"""The keys of configs that say what a model is of."""


def what_reads(config: Mapping[str, Any]) -> str:
    """Return, in words, what kind of model a config is of: by how many stacks, and by which key; "" where none says."""
    kind = _kind_of(config)
    if kind == "text" and "vocab_size" not in config:
        return ""
    if kind == "images" and READS[kind] not in config:
        return "models that look at pixel_values"
    stacks = "an encoder, a decoder and " if config.get("is_encoder_decoder") is True else ""
    return f"models with {stacks}{READS[kind]} in config.json"


def written_of(config: Mapping[str, Any]) -> dict[str, str]:
    """Return the tasks of a model with this config, and how the names of their classes end."""
    fitting = [task for task in reversed(_ALL) if task.ends and not task.half and task.fits(config)]
    return dict(reversed({task.name: f"...{task.ends[0]}" for task in fitting}.items()))


def architecture_of(config: Mapping[str, Any]) -> str:
    """Return what a config calls its model."""
    architectures = config.get("architectures")
    return str(architectures[0] if isinstance(architectures, list) and architectures else config["model_type"])


def positions_of_token(config: Mapping[str, Any]) -> int:
    """Return how many positions a token of a model with this config has: three are in time, and in a picture."""
    said = [part for part in (config, config.get("text_config")) if isinstance(part, Mapping)]
    ropes = [part.get(key) for part in said for key in ("rope_parameters", "rope_scaling")]
    sections = (rope.get(key) for rope in ropes if isinstance(rope, Mapping) for key in SECTIONS)
    return next((len(pairs) for pairs in sections if isinstance(pairs, Sequence)), 1)


_ALL = (
    Task("text-generation", "AutoModelForCausalLM", ("ForCausalLM", "LMHeadModel"), DECODER, LOGITS, cache=True),
    Task(
        "text-generation",
        "AutoModelForMultimodalLM",
        (CONDITIONAL_GENERATION,),
        {**DECODER, "position_ids": "int64[{sections}batch_size, seq] positions"},
        LOGITS,
        cache=True,
        kind="scenes",
    ),
    *(
        Task(
            name,
            "AutoModelForMultimodalLM",
            (CONDITIONAL_GENERATION,),
            EMBEDDED,
            LOGITS,
            cache=True,
            kind="scenes",
            sense=sense,
        )
        for name, sense in (("image-text-to-text", SIGHT), ("audio-text-to-text", HEARING))
    ),
    Task(
        "image-text-to-text",
        "AutoModelForMultimodalLM",
        (CONDITIONAL_GENERATION,),
        ENCODED,
        LOGITS,
        cache=True,
        encoder={EMBEDDINGS: EMBEDDED[EMBEDDINGS], "attention_mask": TEXT["attention_mask"]},
        kind="scenes",
        sense=SIGHT,
    ),
    Task(
        "text2text-generation",
        "AutoModelForSeq2SeqLM",
        ("ForConditionalGeneration", "MTModel"),
        ENCODED,
        LOGITS,
        cache=True,
        encoder={name: TEXT[name] for name in ("input_ids", "attention_mask")},
    ),
    Task(
        "automatic-speech-recognition",
        "AutoModelForSpeechSeq2Seq",
        ("ForConditionalGeneration",),
        STATES,
        LOGITS,
        cache=True,
        encoder=FEATURES,
        kind="features",
    ),
    Task(
        "image-to-text",
        "AutoModelForImageTextToText",
        ("VisionEncoderDecoderModel",),
        STATES,
        LOGITS,
        cache=True,
        encoder=IMAGES,
        kind="images",
    ),
    Task("automatic-speech-recognition", "AutoModelForCTC", ("ForCTC",), SOUNDS, kind="sounds"),
    Task("fill-mask", "AutoModelForMaskedLM", ("ForMaskedLM",), TEXT),
    Task(
        "text-classification",
        "AutoModelForSequenceClassification",
        ("ForSequenceClassification",),
        TEXT,
        either=True,
    ),
    Task("token-classification", "AutoModelForTokenClassification", ("ForTokenClassification",), TEXT, either=True),
    Task(
        "question-answering",
        "AutoModelForQuestionAnswering",
        ("ForQuestionAnswering", "ForQuestionAnsweringSimple"),
        TEXT,
        {"start_logits": "start_logits", "end_logits": "end_logits"},
        either=True,
    ),
    Task("multiple-choice", "AutoModelForMultipleChoice", ("ForMultipleChoice",), ALTERNATIVES),
    Task("next-sentence-prediction", "AutoModelForNextSentencePrediction", ("ForNextSentencePrediction",), TEXT),
    Task(
        "audio-classification",
        "AutoModelForAudioClassification",
        ("ForSequenceClassification",),
        SOUNDS,
        kind="sounds",
    ),
    Task(
        "audio-classification",
        "AutoModelForAudioClassification",
        ("ForAudioClassification",),
        SPECTRA,
        kind="features",
    ),
    Task(
        "audio-frame-classification",
        "AutoModelForAudioFrameClassification",
        ("ForAudioFrameClassification",),
        SOUNDS,
        kind="sounds",
    ),
    Task(
        "audio-xvector",
        "AutoModelForAudioXVector",
        (X_VECTOR,),
        SOUNDS,
        {"logits": "logits", "embeddings": "embeddings"},
        kind="sounds",
    ),
    Task(
        "object-detection",
        "AutoModelForObjectDetection",
        ("ForObjectDetection",),
        IMAGES,
        {"logits": "logits", "pred_boxes": "pred_boxes"},
        kind="images",
    ),
    Task(
        "zero-shot-object-detection",
        "AutoModelForZeroShotObjectDetection",
        ("ForObjectDetection",),
        QUERIES,
        {"logits": "logits", "pred_boxes": "pred_boxes"},
        kind="pairs",
    ),
    Task(
        "semantic-segmentation",
        "AutoModelForSemanticSegmentation",
        (SEGMENTATION,),
        IMAGES,
        kind="images",
    ),
    Task(
        "depth-estimation",
        "AutoModelForDepthEstimation",
        ("ForDepthEstimation",),
        IMAGES,
        {"predicted_depth": "predicted_depth"},
        kind="images",
    ),
    Task(
        "image-to-image",
        "AutoModelForImageToImage",
        ("ForImageSuperResolution",),
        IMAGES,
        {"reconstruction": "reconstruction"},
        kind="images",
    ),
    Task(
        "video-classification",
        "AutoModelForVideoClassification",
        ("ForVideoClassification",),
        VIDEOS,
        kind="images",
    ),
    Task(
        "keypoint-detection",
        "AutoModelForPoseEstimation",
        ("ForPoseEstimation",),
        IMAGES,
        {"heatmaps": "heatmaps"},
        kind="images",
    ),
    Task(
        "image-segmentation",
        "AutoModelForUniversalSegmentation",
        ("ForUniversalSegmentation", "ForInstanceSegmentation"),
        IMAGES,
        {name: name for name in ("class_queries_logits", "masks_queries_logits")},
        kind="images",
    ),
    *(
        Task(name, "AutoModel", ends, SERIES, {output: output}, kind="series")
        for name, ends, output in (
            ("time-series-forecasting", ("ForPrediction",), "prediction_outputs"),
            ("time-series-classification", ("ForClassification",), "prediction_logits"),
            ("time-series-classification", ("ForTimeSeriesClassification",), "prediction_outputs"),
            ("time-series-regression", ("ForRegression",), "regression_outputs"),
        )
    ),
    Task("image-classification", "AutoModelForImageClassification", (IMAGE_CLASSIFICATION,), IMAGES, kind="images"),
    Task("image-feature-extraction", "AutoModel", ("Model",), IMAGES, HIDDEN, kind="images"),
    Task(
        "zero-shot-image-classification",
        "AutoModelForZeroShotImageClassification",
        ("Model",),
        PAIRS,
        SCORES,
        kind="pairs",
    ),
    Task("feature-extraction", "AutoModel", ("Model",), SOUNDS, HIDDEN, kind="sounds"),
    Task("feature-extraction", "AutoModel", ("Model",), SPECTRA, HIDDEN, kind="features"),
    Task("feature-extraction", "AutoModel", ("Model",), TEXT, HIDDEN),
    Task(
        "feature-extraction",
        "AutoModelForTextEncoding",
        ("EncoderModel",),
        {name: TEXT[name] for name in ("input_ids", "attention_mask")},
        HIDDEN,
        half=True,
    ),
    Task(
        "feature-extraction",
        "AutoModel",
        ("QuestionEncoder", "ContextEncoder"),
        TEXT,
        {"pooler_output": "pooler_output"},
    ),
    Task(
        SENTENCE_SIMILARITY,
        "AutoModel",
        (),
        TEXT,
        {name: name for name in ("token_embeddings", "sentence_embedding")},
    ),
    Task(
        "question-answering",
        "AutoModelForQuestionAnswering",
        ("Reader",),
        {name: TEXT[name] for name in ("input_ids", "attention_mask")},
        {name: name for name in ("start_logits", "end_logits", "relevance_logits")},
    ),
)
TASKS = {name: tuple(task for task in _ALL if task.name == name) for name in dict.fromkeys(task.name for task in _ALL)}
"""The tasks by their names. Of several with one name, or one ending of architectures, the config says which."""


def all_tasks() -> tuple[Task, ...]:
    """Return all tasks, also those that share a name."""
    return _ALL


def task_of(name: str, config: Mapping[str, Any]) -> Task:
    """Return the task of a name that fits a config, rather one for its architecture; the first where none does."""
    fitting = [task for task in TASKS[name] if task.fits(config)]
    of_class = [task for task in fitting if task.ends_of(architecture_of(config))]
    return next(iter((*of_class, *fitting)), TASKS[name][0])
