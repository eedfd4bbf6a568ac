"""What the check `tables` says of a bundle."""

from pathlib import Path

from posenc_export.bundle.folder import Bundle
from posenc_export.proof.checks import CHECKS, Context, Finding


def finding(bundle: Path, trusted: bool = False) -> Finding:
    """Return what the check says of a bundle as a stranger's."""
    opened = Bundle.open(bundle, trusted)
    artifact = opened.manifest.artifacts[0]
    return CHECKS["tables"].find(Context(opened.manifest, artifact, opened.path(artifact), trusted=trusted))
