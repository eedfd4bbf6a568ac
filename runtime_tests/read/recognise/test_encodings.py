"""Whole graphs: the encodings that are added to data, or to scores, are named once, with the nodes that share them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx
import pytest

from helpers.encodings_named import named
from helpers.misread import read
from helpers.tiny_models import write
from posenc_export.read.recognise.named import Named


class Expected(NamedTuple):
    """What is said of an encoding: some of its parameters, in the order of their names."""

    family: str
    name: str
    parameters: Mapping[str, object]
    positions: str
    rows: int | None
    nodes: int


TABLE = "learned", "table"
HALVES = {"base": 1e4, "layout": "halves", "spacing": "half"}
INTERLEAVED = {"base": 1e4, "d_model": 32, "layout": "interleaved", "spacing": "paper"}
T5 = {"bidirectional": True, "heads": 4, "max_distance": 128, "num_buckets": 32}
ALIBI = {"bias_max": 8.0, "heads": 4}
CLIPPED = {"distance": "key_minus_query", "head_dim": 8, "left": 64, "right": 8}
WINDOWS = [Expected("window", "table", {"heads": n, "window": (4, 4)}, "range", None, 1) for n in (2, 2, 4, 4)]
OF_MODELS: dict[str, list[Expected]] = {
    "bert": [Expected(*TABLE, {"offset": 0, "rows": 64}, "range", 64, 1)],
    "roberta": [Expected(*TABLE, {"offset": 2, "rows": 66}, "mask input_ids", 66, 1)],
    "opt": [Expected(*TABLE, {"offset": 2, "rows": 66}, "mask attention_mask", 66, 1)],
    "distilbert": [Expected("sinusoidal", "interleaved", INTERLEAVED, "range", 64, 1)],
    "m2m_100": [Expected("sinusoidal", "halves", {**HALVES, "offset": 2}, "mask input_ids", 66, 1)],
    "t5": [Expected("t5", "buckets", T5, "range", 32, 2)],
    "mpnet": [
        Expected(*TABLE, {"offset": 2, "rows": 66}, "mask input_ids", 66, 1),
        Expected("t5", "buckets", T5, "range", 32, 2),
    ],
    "bloom": [Expected("alibi", "key", ALIBI, "mask attention_mask", None, 2)],
    "mpt": [Expected("alibi", "last_key", ALIBI, "range", 64, 2)],
    "xlnet": [Expected("relative", "transformer_xl", {"base": 1e4, "layout": "halves"}, "range", None, 2)],
    "vit": [Expected(*TABLE, {"offset": 0, "rows": 17}, "range", 17, 1)],
    "dinov2": [Expected("grid", "interpolated", {"rows": 16}, "range", 16, 1)],
    "swin": WINDOWS,
    "swinv2": [
        expected._replace(name="continuous", parameters={**expected.parameters, "pretrained_window": (4, 4)})
        for expected in WINDOWS
    ],
    "conformer": [Expected("relative", "conformer", INTERLEAVED, "range", 799, 2)],
    "wavlm": [
        Expected("t5", "buckets", {"bidirectional": True, "max_distance": 800, "num_buckets": 320}, "range", 320, 2)
    ],
    "w2v_bert": [Expected("relative", "clipped", CLIPPED, "range", 73, 1)] * 2,
    "detr": [
        Expected("grid", "sine_2d", {"order": "row_first", "temperature": 1e4}, "mask pixel_mask", None, 3),
        Expected(*TABLE, {"rows": 10}, "range", 10, 1),
    ],
    "unet": [
        Expected("timestep", "halves, cosines first", {"dim": 32, "downscale_freq_shift": 0.0}, "timestep", None, 1)
    ],
    "dinov3": [Expected("rotary", "dinov3", {"head_dim": 8, "rope_theta": 100.0}, "range", None, 8)],
    "vits": [Expected("relative", "clipped", {"beyond": "zero", "left": 4, "right": 4}, "range", 9, 1)] * 4,
    "dit": [
        Expected("grid", "sincos_2d", {"grid": (4, 4), "order": "column_first"}, "range", 16, 1),
        Expected("timestep", "halves, cosines first", {"dim": 256}, "timestep", None, 1),
    ],
    "without": [],
}
QUICK = ("bert", "m2m_100", "t5", "bloom", "swin", "unet", "without")
SLOW = [pytest.param(kind, marks=pytest.mark.exhaustive) for kind in OF_MODELS if kind not in QUICK]
# convolutions before the network shorten a wave tenfold
FRAMES = {"conformer": 1000, "wavlm": 1000}
"""Samples of a wave: a few are no frame."""


def check(encodings: list[Named], expected: list[Expected]) -> None:
    """Check what is said of each encoding; converters put nodes that do not depend on each other in another order."""
    encodings = sorted(encodings, key=lambda encoding: (encoding.form.family, encoding.form.name))
    expected = sorted(expected, key=lambda entry: (entry.family, entry.name))
    seen = [
        Expected(
            encoding.form.family,
            encoding.form.name,
            {name: encoding.form.parameters.get(name) for name in entry.parameters},
            encoding.positions,
            encoding.rows,
            len(encoding.nodes),
        )
        for encoding, entry in zip(encodings, expected, strict=True)
    ]
    assert seen == expected


@pytest.mark.parametrize("kind", [*QUICK, *SLOW])
def test_models_of_transformers_are_named(kind: str, tmp_path: Path) -> None:
    check(named(write(kind, tmp_path / "model.onnx"), FRAMES.get(kind)), OF_MODELS[kind])


@pytest.mark.parametrize(
    "kind",
    [
        "distilbert",
        *(pytest.param(k, marks=pytest.mark.exhaustive) for k in ("bert", "t5", "conformer", "unet", "w2v_bert")),
    ],
)
def test_quantized_models_are_named(kind: str, tmp_path: Path) -> None:
    from onnxruntime.quantization import quantize_dynamic

    quantize_dynamic(write(kind, tmp_path / "model.onnx"), tmp_path / "int8.onnx")
    check(named(tmp_path / "int8.onnx", FRAMES.get(kind)), OF_MODELS[kind])


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", [kind for kind in OF_MODELS if kind not in ("detr", "swinv2")])
def test_models_in_half_precision_are_named(kind: str, tmp_path: Path) -> None:
    from onnxruntime.transformers.float16 import convert_float_to_float16

    model = onnx.load(write(kind, tmp_path / "model.onnx"))
    onnx.save(convert_float_to_float16(model, keep_io_types=True), tmp_path / "half.onnx")
    encodings = named(tmp_path / "half.onnx", FRAMES.get(kind))
    check(encodings, OF_MODELS[kind])
    assert all(encoding.dtype == "float16" for encoding in encodings)


def test_computed_rows_have_an_error_against_float64(tmp_path: Path) -> None:
    (encoding,) = named(write("m2m_100", tmp_path / "model.onnx"))
    assert encoding.error is not None
    assert 0 < encoding.error < 1e-6
    assert encoding.dtype == "float32"


@pytest.mark.parametrize("order", ["first", "last"])
def test_a_grid_that_is_resized_says_how_many_rows_are_stored(order: str, tmp_path: Path) -> None:
    """Where a class token stands before the places, or the exporter folds the moves, features come before places."""
    back = "g = Transpose <perm = [0, 2, 3, 1]> (r)" if order == "first" else "g = Identity (r)"
    sizes = "Concat <axis = 0> (one, features, hw)" if order == "first" else "Concat <axis = 0> (one, hw, features)"
    body = f"""resized (float[batch, h, w, 16] x) => (float[batch, h, w, 16] y) {{
        hw = Shape <start = 1, end = 3> (x)  sizes = {sizes}  r = Resize <mode = "linear"> (table, , , sizes)
        {back}  y = Add (x, g) }}"""
    shape = (1, 16, 3, 5) if order == "first" else (1, 3, 5, 16)
    table = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    made = read(tmp_path, body, {"table": table, "one": np.array([1]), "features": np.array([16])})
    (entry,) = made.encodings
    assert (entry.family, entry.name, entry.rows) == ("grid", "interpolated", 15)
    assert dict(entry.parameters) == {"dim": 16, "rows": 15}
