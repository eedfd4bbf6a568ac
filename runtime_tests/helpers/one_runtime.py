"""What one runtime is found to do with a bundle, and which schemes a slow one is asked."""

from pathlib import Path

from helpers.combinations import form_of_variants
from helpers.samples import Parameters, every_sample
from helpers.shared import Once, written_once
from posenc.scheme import SCHEMES
from posenc.spec import Spec
from posenc_export.bundle.folder import Bundle
from posenc_export.proof.judging.verdict import ValidateOptions, Verdict
from posenc_export.proof.running.run import validate_bundle

BAKED = ("sinusoidal", "rope", "alibi", "interpolated", "sine_2d", "timestep")
"""Schemes that are tried baked as well: one of each kind of table."""

SPECS = [
    (name, spec, params)
    for name, spec, params in every_sample()
    if (spec.mode, spec.method) == form_of_variants(name) or (name in BAKED and spec.method == "exact")
    if name in ("rope", "xpos") or params == SCHEMES[name].samples[0]
]
"""Every rope type and center; of other schemes the smallest sample."""


def verdicts(once: Once, scheme: str, spec: Spec, params: Parameters, name: str) -> dict[str, Verdict]:
    """Run one runtime on the ONNX file of a scheme, and return what it is found to do, by check."""
    return verdicts_of(written_once(once, scheme, spec, params), name)


def verdicts_of(bundle: Path, name: str) -> dict[str, Verdict]:
    """Run one runtime on a bundle; return what it is found to do, by check."""
    found = validate_bundle(Bundle.open(bundle, trusted=True), ValidateOptions(runtimes=(name,)))
    return {verdict.check: verdict for verdict in found if verdict.subject == name}
