"""The scheme rope_layers: cosines and sines of each type of layers, as those of "rope" alone, and what is refused."""

import json
from typing import Any

import numpy as np
import pytest
import torch

import posenc
from helpers.shared import Cli
from posenc.encoding import Encoding
from posenc.spec import Spec

TYPES: dict[str, dict[str, Any]] = {
    "full": {"head_dim": 32, "rotary_dim": 8, "rope_theta": 1e6},
    "sliding": {"head_dim": 16},
    "long": {"head_dim": 16, "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32},
}
TEXT = json.dumps(TYPES)


def made(spec: Spec, **parameters: Any) -> Encoding:
    return posenc.build("rope_layers", spec, layer_types=TEXT, **parameters)


def feeds_of(positions: str) -> list[torch.Tensor]:
    """Return the inputs of a call of five tokens."""
    mask = torch.tensor([[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]])
    ways = {
        "implicit": [],
        "offset": [torch.zeros(2, 5, 7), torch.tensor([3])],
        "explicit": [torch.tensor([[3, 1, 4, 1, 5]])],
        "mask": [mask],
    }
    return ways[positions]


# whole caches of implicit positions exist in a table alone
@pytest.mark.parametrize("positions", ["implicit", "offset", "explicit", "mask"])
@pytest.mark.parametrize("mode", ["baked", "dynamic"])
def test_each_type_has_the_bits_of_rope_alone(mode: Any, positions: Any) -> None:
    if (mode, positions) == ("dynamic", "implicit"):
        with pytest.raises(ValueError, match=r"^layer type full: output=cos_sin takes --positions offset, explicit"):
            made(Spec(mode=mode, positions=positions, max_len=64))
        return
    spec, feeds = Spec(mode=mode, positions=positions, max_len=64), feeds_of(positions)
    encoding = made(spec, width="full")
    outputs = dict(zip([port.name for port in encoding.outputs], encoding.module(*feeds), strict=True))
    assert list(outputs) == [f"{part}_{name}" for name in TYPES for part in ("cos", "sin")]
    for name, values in TYPES.items():
        alone = posenc.build("rope", spec, **values, output="cos_sin", width="full").module(*feeds)
        for part, expected in zip(("cos", "sin"), alone, strict=True):
            assert torch.equal(outputs[f"{part}_{name}"], expected)


def test_the_reference_is_the_formula_of_each_type() -> None:
    encoding = made(Spec(mode="dynamic", positions="explicit", max_len=64))
    outputs = encoding.reference({"positions": np.array([[0, 7, 40]])}, None)
    angles = np.array([0, 7, 40])[:, None] * 1e6 ** -(np.arange(4) / 4)
    np.testing.assert_allclose(outputs["cos_full"][0], np.cos(angles), atol=1e-12)
    angles = np.array([0, 7, 40])[:, None] * 1e4 ** -(np.arange(8) / 8)
    np.testing.assert_allclose(outputs["sin_sliding"][0], np.sin(angles), atol=1e-12)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "layer_types is no JSON: .*; expected an object, as in"),
        ("7", "layer_types must be an object of JSON with an object for each type, as in .*, got '7'"),
        ("{}", "layer_types must be an object of JSON"),
        ('{"a": {}, "a": {}}', "it says 'a' twice in one object"),
        ('{"a-b": {}}', "a layer type is named 'a-b': expected letters, digits and _, with no digit first"),
        ('{"a": {"head": 3}}', "layer type a: rope has no parameter 'head'"),
        ('{"a": {"output": "rotate"}}', "layer type a: rope has no parameter 'output'"),
        ('{"a": {"head_dim": 7}}', "layer type a: head_dim must be an even number of at least 2, got 7"),
        ('{"a": {"head_dim": 1000000}}', "layer type a: head_dim must be at most 65536, got 1000000"),
        (json.dumps({f"t{i}": {} for i in range(17)}), "layer_types must be at most 16, got 17"),
    ],
)
def test_what_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as refusal:
        posenc.build("rope_layers", Spec(max_len=8), layer_types=text)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("format_", ["cache", "cache-npz", "header"])
def test_formats_of_one_table_say_what_to_do(cli: Cli, format_: str) -> None:
    done = cli("export", "rope_layers", "--max-len", "8", "-f", format_, "-o", "b")
    assert done.exit_code == 2
    assert "its table is of one base, and there is one for each type of layers: read them one by one" in done.output
