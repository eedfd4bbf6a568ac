"""Half precision beyond rotary angles: T5's logarithms, whose rounding chooses rows, and steps of time."""

import pytest

import posenc_export
from helpers.longer import foreign_file
from posenc.formulas.fitting import Form
from posenc.formulas.t5_bias import is_bucketed, on_edges


@pytest.mark.parametrize(("bidirectional", "moved"), [(True, {16, 32, 64}), (False, set())])
def test_distances_on_the_edge_of_two_rows(bidirectional: bool, moved: set[int]) -> None:
    form = Form("t5", "buckets", {"num_buckets": 32, "max_distance": 128, "bidirectional": bidirectional})
    assert {abs(distance) for distance in on_edges(form, 300).moved} == moved


def test_the_buckets_of_deberta_are_not_those_of_t5() -> None:
    """They have no directions, of which the edges of T5's rows are asked."""
    assert is_bucketed(Form("t5", "buckets", {"num_buckets": 32, "max_distance": 128, "bidirectional": True}))
    assert not is_bucketed(Form("relative", "deberta", {"num_buckets": 32, "max_distance": 128}))


@pytest.mark.exhaustive
def test_a_t5_in_half_has_rows_that_are_up_to_roundings() -> None:
    with foreign_file("t5.plain-old.ORT-float16.onnx") as path:
        inspection = posenc_export.inspect(path)
    words = "t5: logarithms are in half precision: roundings choose the row of distances -16, 16, -32, 32, -64, 64"
    assert [entry.detail for entry in inspection.findings if entry.code == "PE205"] == [words]
    assert [entry.also for entry in inspection.encodings] == [(), ()], "far distances tell max_distance"
    with foreign_file("t5.plain-old.onnx") as path:
        assert posenc_export.inspect(path).passed


@pytest.mark.exhaustive
def test_steps_of_time_in_half_are_noise() -> None:
    with foreign_file("unet.plain-new.ORT-float16.onnx") as path:
        inspection = posenc_export.inspect(path)
    words = "timestep angles are computed in half precision: noise from about position 681 on"
    assert [(entry.code, entry.detail) for entry in inspection.findings] == [("PE205", words)]
    with foreign_file("unet.plain-new.onnx") as path:
        (encoding,) = posenc_export.inspect(path).encodings
    # angles in float32, up to a thousand
    assert encoding.error is not None
    assert 0 < encoding.error < 1e-4
