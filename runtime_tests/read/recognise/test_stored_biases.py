"""A bias that a file stores says for how many keys it is stored."""

from pathlib import Path

import numpy as np
import pytest

from helpers.graph_files import graph
from posenc.formulas.fitting import Observation, find_scheme
from posenc_export.read.interpret.run import interpret
from posenc_export.read.recognise.encodings import encodings_of

KEYS = 64
MPT = """g (float[1, 2, sequence, 8] q) => (float y) {
    keys = Transpose <perm = [0, 1, 3, 2]> (q)  scores = MatMul (q, keys)
    length = Shape <start = 2, end = 3> (q)  stop = Constant <value_ints = [64]> ()  begin = Sub (stop, length)
    axis = Constant <value_ints = [2]> ()  bias = Slice (table, begin, stop, axis)
    biased = Add (scores, bias)  y = Softmax (biased)
}"""


def test_alibi_that_is_stored_has_as_many_rows_as_keys(tmp_path: Path) -> None:
    slopes = np.array([2.0**-4, 2.0**-8])
    table = (slopes[:, None, None] * np.arange(1 - KEYS, 1)).astype(np.float32)
    (named,) = encodings_of(interpret(graph(tmp_path, MPT, {"table": table})))
    assert (named.form.family, named.form.name, named.rows) == ("alibi", "last_key", KEYS)
    assert (named.form.parameters["heads"], named.form.parameters["bias_max"]) == (2, 8.0)


@pytest.mark.parametrize("changed", [False, True], ids=["by three differences", "but for one pair"])
def test_windows_of_a_video_have_three_sides(*, changed: bool) -> None:
    """Swin 3D: a number of each head for each difference of frames, rows and columns."""
    places = np.stack(np.unravel_index(np.arange(32), (2, 4, 4)), -1)
    frame, row, column = np.moveaxis(places[:, None] - places, -1, 0)
    bias = np.random.default_rng(0).normal(size=(1, 2, 3, 7, 7))[:, :, frame, row, column].astype(np.float32)
    bias[0, 0, 3, 9] += changed
    form = find_scheme(Observation("bias", bias[0], 2.0**-23, stored=(bias,)))
    assert (None if form is None else form.parameters) == (None if changed else {"heads": 2, "window": (2, 4, 4)})
