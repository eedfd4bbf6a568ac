"""Specs of grids, and how near rows are."""

from collections.abc import Mapping

import numpy as np
import pytest
from torch import Tensor

from posenc.parameters import Value
from posenc.ports import Array
from posenc.spec import Spec

BAKED, DYNAMIC, TRIG = Spec(max_len=90), Spec("dynamic"), Spec("dynamic", "trig")
SPECS = pytest.mark.parametrize("spec", [BAKED, DYNAMIC, TRIG], ids=["baked", "exact", "trig"])
CLOSE = {"exact": 3e-7, "trig": 5e-6}
"""How near to float64 rows are: see below for how near others are."""
OTHERS = 1e-5
"""How near to float64 coordinates of float32 are, that diffusers and DETR have."""
Parameters = Mapping[str, Value]


def near(actual: Tensor, expected: Tensor | Array, atol: float) -> None:
    np.testing.assert_allclose(actual.numpy(), np.asarray(expected).reshape(actual.shape), rtol=0, atol=atol)
