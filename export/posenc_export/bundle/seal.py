"""Reports that show by their digests whether they were changed: they are written last, so no other file can.

report.json holds the SHA-256 of manifest.json, of report.md, of report.html if there is one, and of itself with zeros
in the place of its own digest.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

from posenc.strict_json import parse
from posenc_export.bundle.folder import json_text

OWN = re.compile(rb'"sha256": "([0-9a-f]{64})"\s*\}\s*\Z')
"""The end of a sealed file: its own digest."""
BLANK = "0" * 64


def sealed_text(data: Mapping[str, object]) -> str:
    """Return JSON with the SHA-256 of its own text as the last field."""
    blank = json_text({**data, "sha256": BLANK})
    own = hashlib.sha256(blank.encode()).hexdigest()
    return json_text({**data, "sha256": own})


def read_sealed(path: Path) -> Mapping[str, object]:
    """Return the content of a sealed file; nothing if it was changed since, or never sealed."""
    try:
        # Ends of lines may be those of Windows, if git has checked them out.
        content = b"" if path.is_symlink() else path.read_bytes().replace(b"\r\n", b"\n")
    except OSError:
        return {}
    own = OWN.search(content, max(len(content) - 200, 0))
    if own is None:
        return {}
    # As it was when the digest was computed: with zeros in its place.
    blank = content[: own.start(1)] + BLANK.encode() + content[own.end(1) :]
    if hashlib.sha256(blank).hexdigest().encode() != own[1]:
        return {}
    try:
        data: object = parse(content.decode())
    except ValueError:
        return {}
    return data if isinstance(data, dict) else {}
