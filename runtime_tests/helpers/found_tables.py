"""What the check `tables` says of a bundle."""

from pathlib import Path

from posenc_export.bundle.folder import Bundle
from posenc_export.proof.checks import CHECKS, CheckResult, Context


def finding(bundle: Path, trusted: bool = False) -> CheckResult:
    """Return what the check says of a bundle as a stranger's."""
    opened = Bundle.open(bundle, trusted)
    artifact = opened.manifest.artifacts[0]
    return CHECKS["tables"].find(Context(opened.manifest, artifact, opened.path(artifact), trusted=trusted))
