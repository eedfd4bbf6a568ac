"""`-i NAME_IN_FILE=NAME_IN_TARGET`: a name in an ONNX file, and that of the same input, or output, in a target."""

from __future__ import annotations

import re

RENAME = re.compile(r"\s*([^=\s][^=]*?)\s*=\s*([A-Za-z_][A-Za-z0-9_]*)\s*")
"""A port has no = but that of `>=`, before a number."""


def parse_rename(text: str) -> tuple[str, str] | None:
    """Return the name in the file and the name in the target; None for the text of a port."""
    match = RENAME.fullmatch(text)
    return (match[1], match[2]) if match else None
