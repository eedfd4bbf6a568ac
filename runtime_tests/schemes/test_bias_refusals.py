"""What biases refuse: one clear line each."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import posenc
from helpers.shared import Cli
from posenc.spec import Spec, UnsupportedSpec

BAD: list[tuple[str, dict[str, Any], str]] = [
    ("alibi", {"heads": 0}, "heads must be at least 1, got 0"),
    ("alibi", {"heads": -8}, "heads must be at least 1, got -8"),
    ("alibi", {"bias_max": 0.0}, "bias_max must be a finite number above 0, got 0.0"),
    ("alibi", {"scale": float("inf")}, "scale must be a finite number above 0, got inf"),
    ("t5_bias", {"heads": 0}, "heads must be at least 1, got 0"),
    (
        "t5_bias",
        {"num_buckets": 31},
        "num_buckets must be an even number of at least 4, a half for each direction, got 31",
    ),
    ("t5_bias", {"num_buckets": 0, "bidirectional": False}, "num_buckets must be at least 2, got 0"),
    ("t5_bias", {"max_distance": 9}, "max_distance must be above 16, half of num_buckets, got 9"),
    ("t5_bias", {"max_distance": 16}, "max_distance must be above 16, half of num_buckets, got 16"),
    (
        "t5_bias",
        {"max_distance": 16, "bidirectional": False},
        "max_distance must be above 16, half of num_buckets, got 16",
    ),
    ("t5_bias", {"key": "a"}, "key names a tensor in a file: give weights=FILE beside key=a"),
    ("deberta_buckets", {"num_buckets": 3}, "num_buckets must be at least 4, of each direction, got 3"),
    ("deberta_buckets", {"max_distance": 129}, "max_distance must be above 129, half of num_buckets and one, got 129"),
    ("clipped_relative", {"left": -1}, "left must be at least 0, got -1"),
    ("clipped_relative", {"head_dim": 0}, "head_dim must be at least 1, got 0"),
    ("clipped_relative", {"scale": 0.0}, "scale must be a finite number other than 0, got 0.0"),
    ("clipped_relative", {"std": -1.0}, "std must be a finite number above 0, got -1.0"),
]


@pytest.mark.parametrize(("scheme", "params", "message"), BAD)
def test_bad_values_are_refused_in_one_line(scheme: str, params: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        posenc.build(scheme, Spec("dynamic"), **params)


def test_bad_values_of_the_command_line(cli: Cli, tmp_path: Path) -> None:
    result = cli("export", "t5_bias", "-p", "max_distance=16", "-o", str(tmp_path / "out"))
    assert result.exit_code == 2
    assert "max_distance must be above 16, half of num_buckets, got 16" in result.output


@pytest.mark.parametrize(("scheme", "shape"), [("t5_bias", "(32, 4)"), ("clipped_relative", "(73, 4)")])
def test_weights_of_another_shape_are_refused(tmp_path: Path, scheme: str, shape: str) -> None:
    np.save(tmp_path / "w.npy", np.zeros((9, 4), np.float32))
    columns = {"heads" if scheme == "t5_bias" else "head_dim": 4}
    with pytest.raises(ValueError, match=f"weights must be .* = {re.escape(shape)}, got \\(9, 4\\)"):
        posenc.build(scheme, Spec("dynamic"), weights=str(tmp_path / "w.npy"), **columns)


@pytest.mark.parametrize("form", ["key", "last_key"])
def test_forms_that_look_at_no_query_refuse_positions_of_queries(form: str) -> None:
    with pytest.raises(UnsupportedSpec, match=f"form={form} has no offset form"):
        posenc.build("alibi", Spec("dynamic", positions="offset"), form=form)
