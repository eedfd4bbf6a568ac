"""Masks that are added to scores: causal and padded, of 0 and minus infinity, and no query without a key."""

from pathlib import Path

import numpy as np
import pytest

import posenc_export
from posenc.ports import Mask, Port
from posenc_export.bundle.case import Case, Padding
from posenc_export.write.inputs.ports import parse_port, parse_ports
from posenc_export.write.targets.feeds import feeds_for

SCORES = parse_port("m: float32[batch, 1, n, m] additive mask")
PADDINGS: tuple[Padding, ...] = ("left", "right", "none")


def fed(port: Port, padding: Padding, **sizes: int) -> np.ndarray:
    return feeds_for((port,), Case("one", sizes, padding=padding), 0)[port.name]


@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize(("n", "m"), [(1, 1), (1, 9), (9, 1), (5, 5), (3, 9), (9, 3)])
def test_every_query_sees_a_key(padding: Padding, n: int, m: int) -> None:
    mask = fed(SCORES, padding, batch=3, n=n, m=m)
    assert mask.shape == (3, 1, n, m)
    assert set(np.unique(mask)) <= {0.0, -np.inf}
    assert (mask == 0).any(-1).all()


def test_it_is_causal_and_padded_by_turns() -> None:
    square = parse_port("m: float32[seq, seq] additive mask")
    causal = fed(square, "none", seq=4) == 0
    assert np.array_equal(causal, np.tri(4, dtype=bool))
    assert np.array_equal(fed(square, "right", seq=4) == 0, causal & (np.arange(4) < 3))
    assert np.array_equal(fed(square, "left", seq=4) == 0, np.broadcast_to(np.arange(4) >= 1, (4, 4)))
    steps = fed(SCORES, "none", batch=1, n=2, m=5)[0, 0] == 0
    assert np.array_equal(steps, [[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]), (
        "the last query sees all: those before are a cache"
    )


@pytest.mark.exhaustive
def test_what_a_bundle_says_of_it_is_read_again(tmp_path: Path) -> None:
    from posenc_export.bundle.folder import Bundle

    ports = parse_ports(("x: float32[batch, seq, 16]", "attn_mask: float32[seq, seq] additive mask"))
    result = posenc_export.export(
        "known.shapes:Attention", to=tmp_path / "b", inputs=ports, formats=["onnx"], runtimes=["ort-cpu"], max_len=9
    )
    assert result.passed
    assert Bundle.open(result.folder).manifest.inputs[1].carries == Mask(additive=True, causal=True)
    assert posenc_export.validate(result.folder, runtimes=["ort-cpu"]).passed
    assert {case.padding for case in result.manifest.cases} == set(PADDINGS)
