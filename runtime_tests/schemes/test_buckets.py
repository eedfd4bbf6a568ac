"""Integers of biases are equal at every distance to a million, before a query and after it, on every runtime."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from helpers.shared import why_missing
from posenc.ports import Array, Integers
from posenc.schemes import deberta_buckets, t5_bias
from posenc.spec import Positions, Spec
from posenc_export.bundle.folder import Bundle
from posenc_export.proof.exporter import ExportOptions, export_target
from posenc_export.proof.runtimes import RUNTIMES, Missing
from posenc_export.write.targets.scheme import scheme_target

MILLION = 10**6
FORMATS = ("onnx", "torchscript", "pt2", "aoti")
DISTANCE = np.arange(MILLION + 1)
BUCKETS: dict[str, Callable[[Integers], Integers]] = {
    "t5_bias": lambda distance: t5_bias.buckets(distance, 8, 8, 128),
    "deberta_buckets": lambda distance: deberta_buckets.buckets(distance, 128, 512),
}


@dataclass(frozen=True)
class Way:
    """Where the one query of a call is: at a position, or at that of the last key."""

    positions: Positions
    start: int = MILLION

    @property
    def feeds(self) -> dict[str, Array]:
        q, k = (np.zeros((1, 1, length, 1), np.float32) for length in (1, MILLION + 1))
        given = {"start": np.array([self.start])} if self.positions == "offset" else {}
        return {"q": q, "k": k, **given}

    def expected(self, scheme: str) -> Integers:
        """The bucket of each key: after the query, T5's encoder has numbers of their own, and DeBERTa those below 0."""
        buckets = BUCKETS[scheme](DISTANCE)
        if self.start == MILLION:
            return buckets[::-1]
        return -buckets if scheme == "deberta_buckets" else buckets + 16 * (DISTANCE > 0)


WAYS = {"last": Way("implicit"), "before": Way("offset"), "after": Way("offset", 0)}


@pytest.mark.exhaustive
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("scheme", BUCKETS)
def test_buckets_are_equal_at_every_distance_on_every_runtime(tmp_path: Path, scheme: str, way: str) -> None:
    """A bias of T5 whose weights are the numbers of their rows shows the bucket of each distance."""
    np.save(tmp_path / "rows.npy", np.arange(32, dtype=np.float32)[:, None])
    params = {"weights": str(tmp_path / "rows.npy")} if scheme == "t5_bias" else {}
    spec = Spec("dynamic", positions=WAYS[way].positions, max_len=2048)
    formats = FORMATS if way == "last" else tuple(name for name in FORMATS if name != "aoti")  # it takes 15 s
    options = ExportOptions(formats=formats, validate=False)
    result = export_target(lambda: scheme_target(scheme, spec, params, 0), options, tmp_path / "bundle")
    bundle, expected = Bundle.open(result.folder, trusted=True), WAYS[way].expected(scheme)
    run = [one for one in RUNTIMES.values() if one.runs and one.format in formats]
    here = {one.name for one in run if not why_missing(one.name)}
    assert {"ort-cpu", "torchscript-cpu", "pt2-cpu"} <= here
    for name in here:
        artifact = bundle.manifest.artifact(RUNTIMES[name].format)
        assert artifact is not None
        if (name, scheme, way) == ("tract", "t5_bias", "last"):
            with pytest.raises(Missing, match="Pad"):  # by a length of a call
                RUNTIMES[name].open(bundle.path(artifact), bundle.manifest, True)
            continue
        if (name, scheme) == ("browser-webgpu", "deberta_buckets"):
            with pytest.raises(Missing, match="float64 or int16"):
                RUNTIMES[name].open(bundle.path(artifact), bundle.manifest, True)
            continue
        runner = RUNTIMES[name].open(bundle.path(artifact), bundle.manifest, True)
        (output,) = runner.run(WAYS[way].feeds).values()
        np.testing.assert_array_equal(output.ravel(), expected, err_msg=name)


def test_expected_buckets_of_both_directions() -> None:
    """By hand, from T5's formula: 8 buckets of one distance, then 8 to 128; of DeBERTa as many as distances to 128."""
    after = WAYS["after"].expected("t5_bias")
    assert after[[0, 1, 7, 8, 11, 12, 127, 128, MILLION]].tolist() == [0, 17, 23, 24, 24, 25, 31, 31, 31]
    assert WAYS["after"].expected("deberta_buckets")[[0, 1, 128]].tolist() == [0, -1, -128]
    assert WAYS["before"].expected("t5_bias")[[0, -1]].tolist() == [15, 0]
