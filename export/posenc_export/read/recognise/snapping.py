"""Which closed form is likelier: bases that models have, few digits, frequencies within their errors."""

from __future__ import annotations

import numpy as np

from posenc_export.read.recognise.circle import Floats

USUAL_BASES = (1e4, 5e5, 1e6, 1.5e5, 1e5, 1e7, 5e6, 2e6, 8e6, 1.5e6, 2.5e5)
"""Bases that models have; a series may have two round bases, of its pairs and of the whole head."""


def digits_of(value: float) -> int:
    """Count the significant digits of a number: how round it is."""
    return next((n for n in range(1, 17) if float(f"{value:.{n - 1}e}") == value), 17)


def agree(exact: Floats, measured: Floats, error: Floats) -> bool:
    """Tell whether frequencies are those of a closed form, within their errors."""
    return bool(np.all(np.abs(exact - measured) <= error))
