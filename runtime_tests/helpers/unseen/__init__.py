"""Samples of files for `posenc inspect`, from the second to the fifth: networks that no archive has, with the truth.

By kind: types of `transformers`, classes of `packages` and of tutorials, other `frameworks`, `operators` written by
hand. In each, a file is what one sample has of it; what several samples share is in `parts` and `frameworks/making`.
`scripts/unseen_samples.py` makes the files, and counts what `inspect` says of them.

`transformers.second` and `packages.second` need torch 2.13, transformers 5.23 and the packages that the latter names:
timm 1.0.31, torchvision 0.29.1, open_clip_torch 3.3.0, clip-anytorch, openai-whisper, torchscale 0.3.0, litgpt 0.5.13,
x-transformers 2.31.10, moshi 0.2.13, fair-esm 2.0.0, torchtune 0.6.1 with torchao 0.9.0, espnet 202511, funasr 1.4.16,
demucs 4.1.0, diffusers 0.42.1, denoising-diffusion-pytorch, torch-geometric, vit-pytorch 1.26.11, segment-anything,
monai 1.6.1, segmentation-models-pytorch 0.6.0, ultralytics 8.4.190, mobius-onnx 0.1.0, onnxsim, onnxconverter-common.
`frameworks.second` needs tensorflow 2.21, keras 3.15.1, keras-hub 0.32.0, tf2onnx 1.17.0, jax 0.10.2, jax2onnx 0.17.1.
The fourth sample needs, beside these, of pip without their dependencies: conformer, PaLM-pytorch, performer-pytorch,
pytorch-pretrained-bert with boto3, joeynmt with tensorboard and absl-py, speechbrain, f5-tts, kornia, labml-nn,
chronos-forecasting, rotary-embedding-torch, onnxruntime-genai 0.18.0, atspm-detector 1.1.0.
The fifth sample needs nothing more.
"""

from collections.abc import Mapping

CORRECTIONS: Mapping[str, str] = {
    "jax2onnx.nnx.vit": "its PositionalEmbedding begins as create_sinusoidal_embeddings: sines, not rows at random",
    "jax2onnx.eqx.gpt_oss": "compute_sin_cos cuts its cache to the static length, 11, before the graph is made",
    "demucs": "create_2d_sin_embedding has time first, and tokens are laid out '(t1 fr)': time is the row",
    "ultralytics.aifi": "forward computes the rows from the shape: no table is stored, so none has 16 rows",
    "musicgen_decoder, moshi.sin, demucs": "a layout is halves or interleaved; that cosines come first is in the form",
    "mlcd_vision_model, llama4_vision_model, timm.eva02": "rope_2d has no rotary_dim and no attention factor",
    "clipseg_vision_model by tracing": "it resizes its table whenever it is traced, as its code says",
    "demucs.scaled": "rows of a length that is fixed are looked up and multiplied before the graph is made: 22 of 1000",
    "swin2sr by torch.export, or optimized": "coordinates are folded, as Swin V2's in the first sample",
    "timm.volo": "its table is as wide as its last stage, embed_dims[-1], 16",
    "sam_vision_model, segment_anything": "decomposed_relative is two tables of rows by distance, and named as such",
}
"""Truths that were corrected after the first count, each by the code of its network, or by the words of the schemes."""

FOURTH_CORRECTIONS: Mapping[str, str] = {
    "conformer": "rows that distances choose are named distances, whether the farthest are clipped or not",
    "performer": "PerformerLM adds FixedPositionalEmbedding where rotary_position_emb is true: sines, no learned rows",
    "granite_speech_encoder": "a block of 8 tokens has 15 distances: the file stores the rows of these, and no others",
    "pixtral, vjepa2, gemma4_vision, timm.perception, Wan": "rope_nd has lists of bases and of first places",
    "ministral3, mistral4": "a formula is named as its scheme is: attention_temperature",
    "tutorial.detr_demo": "a grid of learned rows is named learned rows and columns",
}
"""Truths of the fourth sample that were corrected after its first count, in the same way."""

FIFTH_CORRECTIONS: Mapping[str, str] = {
    "bloom, mpt": "num_attention_heads of the config, 2, is stronger than n_head and n_heads: the models have 2 heads",
    "qwen2, qwen3": "YaRN has the same frequencies for the length before scaling and for twice it: a file cannot tell",
    "timm.convit": "its width is embed_dim times num_heads",
    "diffusers.ControlNetModel": "the one output of its file does not depend on the step",
}
"""Truths of the fifth sample that were corrected after its first count, in the same way."""
