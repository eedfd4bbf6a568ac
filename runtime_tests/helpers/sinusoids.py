"""Parameters of sinusoids as libraries have them."""

from typing import Any

FAIRSEQ: dict[str, Any] = {"spacing": "half", "layout": "halves", "padding_row": 1}
