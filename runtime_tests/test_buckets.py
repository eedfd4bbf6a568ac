"""Integers of biases are equal at every distance to a million on every runtime."""

from pathlib import Path

import numpy as np
import pytest

from conftest import Running
from posenc.schemes import deberta_buckets, t5_bias
from posenc.spec import Spec
from posenc_export.bundle.folder import Bundle
from posenc_export.exporter import ExportOptions, export_target
from posenc_export.runtimes import RUNTIMES
from posenc_export.targets.scheme import scheme_target

MILLION = 10**6


@pytest.mark.exhaustive
@pytest.mark.parametrize("scheme", ["deberta_buckets", "t5_bias"])
def test_buckets_are_equal_at_every_distance_on_every_runtime(tmp_path: Path, scheme: str, running: Running) -> None:
    """A bias of T5 whose weights are the numbers of their rows shows the bucket of each distance."""
    np.save(tmp_path / "rows.npy", np.arange(32, dtype=np.float32)[:, None])
    params = {"weights": str(tmp_path / "rows.npy")} if scheme == "t5_bias" else {}
    options = ExportOptions(validate=False)
    spec = Spec("dynamic", max_len=2048)
    result = export_target(lambda: scheme_target(scheme, spec, params, 0), options, tmp_path / "bundle")
    bundle = Bundle.open(result.folder, trusted=True)
    distance = np.arange(MILLION, -1, -1)
    expected = (
        deberta_buckets.buckets(distance, 128, 512)
        if scheme == "deberta_buckets"
        else t5_bias.buckets(distance, 8, 8, 128)
    )
    q, k = (np.zeros((1, 1, length, 1), np.float32) for length in (1, MILLION + 1))
    here = running(ExportOptions().formats)
    assert {"ort-cpu", "torchscript-cpu"} <= here
    for name in here:
        artifact = bundle.manifest.artifact(RUNTIMES[name].format)
        assert artifact is not None
        runner = RUNTIMES[name].open(bundle.path(artifact), bundle.manifest, True)
        (output,) = runner.run({"q": q, "k": k}).values()
        np.testing.assert_array_equal(output.ravel(), expected, err_msg=name)
