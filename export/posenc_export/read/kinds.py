"""Types of the values of an inspection, as pydantic reads them: the process that writes them is not trusted."""

from __future__ import annotations

import math
from typing import Annotated, TypeVar

from pydantic import Field

from posenc_export.bundle.kinds import Figure, OrNull

__all__ = ["Code", "Errors", "Figure", "FirstNumbers", "Many", "Names", "NoNumber", "Positions", "Text"]
T = TypeVar("T")
Code = Annotated[str, Field(pattern=r"^PE2\d{2}$")]
"""The code of a finding."""
Text = Annotated[str, Field(max_length=2**20)]
Many = Annotated[tuple[T, ...], Field(max_length=2**17)]
Names = Many[Text]
NoNumber = float | None
"""None where a number is NaN or infinite, or where there is none."""
Positions = Annotated[tuple[int, ...], Field(max_length=2**16)]
Errors = Annotated[tuple[Annotated[float, OrNull(math.inf)], ...], Field(max_length=2**16)]
"""Null was NaN, or infinite."""
FirstNumbers = Annotated[tuple[Figure, ...], Field(max_length=64)]
