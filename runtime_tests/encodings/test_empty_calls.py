"""Of no queries, or no keys, what comes out is empty, too: eager, scripted and in ONNX Runtime."""

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from torch import Tensor

import posenc
from helpers.shared import one_of_each
from posenc.ports import Feeds, axes_of
from posenc.scheme import SCHEMES
from posenc.spec import Spec
from posenc_export import export
from posenc_export.common.arrays import numpy_dtype

DISTANCES = ("alibi", "clipped_relative", "conformer_relative", "deberta_buckets", "t5_bias", "transformer_xl")
MORE = (
    ("transformer_xl", {"output": "shift"}),
    ("transformer_xl", {"attention": "uni", "output": "shift"}),
    ("clipped_relative", {"head_dim": 4, "left": 0, "right": 0}),
)
CASES = [*((scheme, dict(sample)) for scheme in DISTANCES for sample in SCHEMES[scheme].samples), *MORE]
SPEC = Spec("dynamic", max_len=20)


def calls(encoding: posenc.Encoding) -> Iterator[tuple[Feeds, dict[str, int]]]:
    """Yield calls without queries, keys, or both: not of queries that are no keys, nor of less than no scores."""
    axes = axes_of(encoding.inputs)
    lengths = [axis.name for axis in axes if axis.is_length]
    for of_lengths in product((0, 3), repeat=len(lengths)):
        sizes = {axis.name: 2 for axis in axes} | dict(zip(lengths, of_lengths, strict=True))
        shapes = [port.shape(sizes) for port in encoding.inputs]
        no_keys = encoding.family in ("relative", "values") and sizes.get("seq", 0) > sizes.get("seq_k", 3)
        if min(of_lengths) == 0 and min(map(min, shapes)) >= 0 and not no_keys:
            named = zip(encoding.inputs, shapes, strict=True)
            yield {port.name: np.ones(shape, numpy_dtype(port.dtype)) for port, shape in named}, sizes


def expected(encoding: posenc.Encoding, sizes: dict[str, int]) -> tuple[int, ...]:
    """Return the shape of the output; the rows of no frame are none, not one less."""
    return tuple(max(size, 0) for size in encoding.outputs[0].shape(sizes))


@pytest.mark.parametrize(("scheme", "parameters"), CASES)
def test_of_no_queries_or_keys_nothing_comes_out(scheme: str, parameters: dict[str, Any]) -> None:
    encoding = posenc.build(scheme, SPEC, **parameters)
    script = torch.jit.script(encoding.module)
    made = list(calls(encoding))
    assert made
    for feeds, sizes in made:
        for module in (encoding.module, script):
            y: Tensor = module(*map(torch.from_numpy, feeds.values()))
            assert tuple(y.shape) == expected(encoding, sizes)


@pytest.mark.parametrize(("scheme", "parameters"), one_of_each(CASES, lambda _: ""))
def test_files_of_no_queries_or_keys_give_nothing(tmp_path: Path, scheme: str, parameters: dict[str, Any]) -> None:
    made = export(scheme, parameters=parameters, spec=SPEC, to=tmp_path / "out", formats=("onnx",), validate=False)
    session = onnxruntime.InferenceSession(made.folder / "model.onnx")
    encoding = posenc.build(scheme, SPEC, **parameters)
    for feeds, sizes in calls(encoding):
        (y,) = session.run(None, dict(feeds))
        assert y.shape == expected(encoding, sizes)
