"""What a report is based on: which manifest, which reference, and tolerances that were not derived."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from posenc.encoding import FRACTION_BITS, Tolerance, eps
from posenc_export.bundle.folder import MANIFEST, sha256
from posenc_export.bundle.manifest import Manifest
from posenc_export.proof.judging.call import tolerance_against
from posenc_export.proof.judging.verdict import NO_REFERENCE, Basis, ValidateOptions, Verdict

LOOSE = 1e-2
"""The share of an output's scale above which an allowance is named."""


def basis_of(folder: Path, options: ValidateOptions) -> Basis:
    """Return what a report on a bundle's folder is based on, with the options of its validation."""
    tolerance = options.tolerance(Tolerance()) if options.gives_tolerance else None
    return Basis(sha256(folder / MANIFEST), tolerance, (*options.runtimes, *options.require))


def reference_of(manifest: Manifest, verdicts: Sequence[Verdict]) -> str:
    """Return, in words, the reference that outputs were compared with, or that golden data have none."""
    compared = {c.against for verdict in verdicts for c in verdict.comparisons if c.output}
    if not compared or "reference" in compared or manifest.reference.startswith(NO_REFERENCE):
        return manifest.reference
    return f"{NO_REFERENCE}: the golden data hold none"


def loosest(basis: Basis, manifest: Manifest, verdicts: Sequence[Verdict]) -> str:
    """Return a line on the user's tolerance, or on the loosest derived one, or nothing where all of them are tight.

    Validation cannot derive a tolerance again: that depends on a module that is gone. But a tolerance above a hundredth
    of the outputs' scale (four eps of a narrow dtype, if that is more) certifies little. So the loosest of these is
    named, with its source. The scale is that of each output in each case, so that a huge number elsewhere hides
    nothing. No check fails by this line: Sin and Cos of far positions are declared to be off by as much.
    """
    if basis.replacement is not None:
        return f"tolerance: {_words(basis.replacement)} (given, in place of the derived ones)"
    # for each output in each case, since scales differ
    loose = max(_loose(manifest, verdicts), key=lambda pair: pair[0], default=None)
    # of another program's file they are not compared
    of_masked = 0.0 if manifest.foreign else max(_loose_of_masked(manifest, verdicts), default=0.0)
    lines = []
    if loose is not None:
        share, tolerance = loose
        words = f"{_words(tolerance)} (manifest): an output off by {_part(share)} its largest value passes"
        lines.append(f"loosest tolerance: {words}")
    if of_masked:
        lines.append(f"rows of masked tokens pass if they are off by {_part(of_masked)} the largest value (manifest)")
    return "; ".join(lines)


def _part(share: float) -> str:
    return f"{100 * share:.2g}% of" if share < 1 else f"{share:.2g} times"


def _loose_of_masked(manifest: Manifest, verdicts: Sequence[Verdict]) -> Iterator[float]:
    """Yield how much farther rows of masked tokens may be off, as shares of the output's scale above LOOSE."""
    if manifest.attention_op == "microsoft":  # such rows are not held: a line of its own says so
        return
    farther = {case.name: case.masked_atol for case in manifest.cases if case.masked_atol}
    for comparison in (c for verdict in verdicts for c in verdict.comparisons):
        share = _share(Tolerance(atol=farther.get(comparison.case, 0.0)), comparison.peak, 0.0)
        if share > LOOSE:
            yield share


def _loose(manifest: Manifest, verdicts: Sequence[Verdict]) -> Iterator[tuple[float, Tolerance]]:
    """Yield the tolerances above LOOSE, each with its share of the output's scale."""
    cases = {case.name: case for case in manifest.cases}
    dtypes = {port.name: port.dtype for port in manifest.outputs}
    extra = max((a.eager_tolerance for a in manifest.artifacts if a.eager_tolerance), key=_size, default=None)
    for comparison in (c for verdict in verdicts for c in verdict.comparisons):
        dtype = dtypes.get(comparison.output)
        if dtype in FRACTION_BITS and comparison.case in cases:
            tolerance = tolerance_against(cases[comparison.case], comparison.against)
            tolerance = tolerance.plus(extra if comparison.against == "eager" else None)
            share = _share(tolerance, comparison.peak, eps(dtype))
            if share > max(LOOSE, 4 * eps(dtype)):
                yield share, tolerance


def _size(tolerance: Tolerance) -> float:
    return tolerance.atol + tolerance.rtol + tolerance.vector + tolerance.ulps


def _share(tolerance: Tolerance, peak: float, grain: float) -> float:
    """Return a tolerance as a share of the largest output, `peak`, or of 1 where that is 0 or infinite."""
    scale = peak if peak > 0 and np.isfinite(peak) else 1.0
    return tolerance.atol / scale + tolerance.rtol + tolerance.vector + tolerance.ulps * grain


def _words(tolerance: Tolerance) -> str:
    parts = [f"{name} {value:.3g}" for name, value in asdict(tolerance).items() if name != "bits" and value]
    return ", ".join(parts) or "atol 0"
